"""The faults of what is shared by way of a peer: each that is to be told, and none beside it."""

from collections.abc import Mapping
from typing import Any

import pytest

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.clusterset.byway import consents, signer
from liqod.identity import keys
from liqod.model.clusterset.byway import DAY, LEFT_OUT, end_of, passed, told_name
from liqod.model.clusterset.exchange import text
from liqod.model.clusterset.exports import Export, Port, mark_of
from liqod.model.network.remapping import Remapped
from liqod.model.view.servicefacts import (
    Condition,
    ExportFacts,
    SharedServices,
    WayFault,
    exchange_facts,
)
from liqod.model.view.wayfaults import Here, way_faults
from liqod.resources.exchanges import ExchangeSpec, ExchangeStatus, ServiceExchange

MILAN, TURIN, OTHER = keys.generate(), keys.generate(), keys.generate()
NOW = 1_800_000_000.0
READY = Condition("True", "Exported", "known to rome", 90.0)
PENDING = Condition("False", "Pending", "not yet known to rome", 90.0)
EXPORT = Export("milan", "shop", "web", "2026-01-01T00:00:00Z", ports=(Port(80, "http"),))


def print_of(private: bytes) -> str:
    return keys.print_of(keys.public_pem(private))


def told(private: bytes = MILAN, reader: bytes = TURIN) -> str:
    """What milan tells rome of its export."""
    made = consents(private, EXPORT, "rome", {"turin": print_of(reader)}, end_of(NOW))
    return text(EXPORT, Remapped, by_way=made)


def handed_on(private: bytes = MILAN, reader: bytes = TURIN) -> str:
    """What rome tells turin of it."""
    return passed(told(private, reader), "turin", EXPORT, lambda _: None)


def exchange(
    own: str, *, asked: bool, mine: Mapping[str, str], theirs: Mapping[str, str], **taken: str
) -> ServiceExchange:
    """The one of a leaf with rome, by the leaf's objects."""
    confirmed = {name.replace("_", "."): mark for name, mark in taken.items()}
    marks = (
        {labels.REMOTE_ID: "rome"}
        if asked
        else {labels.REPLICATED: labels.TRUE, labels.ORIGIN_ID: "rome"}
    )
    meta = ObjectMeta(
        name=f"shop.{'rome' if asked else own}",
        labels=marks,
        creation_timestamp="2026-01-01T00:00:00Z",
    )
    asks, answers = (mine, theirs) if asked else (theirs, mine)
    spec = ExchangeSpec("shop", dict(asks), {} if asked else confirmed)
    status = ExchangeStatus(True, dict(answers), confirmed if asked else {})
    return ServiceExchange(metadata=meta, spec=spec, status=status)


def known(own: str, *found: ServiceExchange, ready: Condition = READY) -> SharedServices:
    facts = (exchange_facts(each, own, NOW) for each in found)
    exports = (ExportFacts(("shop", "web"), 90.0, {"Ready": ready}),)
    return SharedServices(exports=exports, exchanges=tuple(each for each in facts if each))


def faults(
    of: SharedServices, own: str, notes: str, private: bytes | None = None, now: float = NOW
) -> Any:
    annotations = {"shop": {labels.SHARE_SERVICES_BY_WAY: notes}, "other": {}}
    key = print_of(private) if private is not None else ""
    return way_faults(of, Here(own, key, ("rome", "oslo"), annotations, signer, now))


def by_turin(
    said: str, notes: str, private: bytes | None = TURIN, now: float = NOW
) -> tuple[WayFault, ...]:
    """The faults at turin, by what rome tells of milan."""
    told = exchange("turin", asked=True, mine={}, theirs={"web.milan": said})
    found: tuple[WayFault, ...] = faults(known("turin", told), "turin", notes, private, now)
    return found


NAMED = f"rome/milan={print_of(MILAN)}"


def test_what_all_three_agree_on_is_well():
    assert by_turin(handed_on(), NAMED) == ()


def test_what_turin_has_not_asked_for_is_no_fault():
    assert by_turin(handed_on(), "") == ()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        pytest.param(handed_on(OTHER), "it is signed with the key ", id="milan's key changed"),
        pytest.param(handed_on(reader=OTHER), "not signed for this cl", id="turin's key changed"),
        pytest.param("{}", "has not the one signature", id="not signed"),
    ],
)
def test_a_key_that_is_not_the_one_agreed_on_is_told(said: str, why: str):
    (found,) = by_turin(said, NAMED)
    assert (found.namespace, why in found.what) == ("shop", True), found
    assert found.what.startswith("shop/web of milan by way of rome is left out: ")
    assert 10.0 < found.age < float("inf")
    assert "`liqod status` shows each cluster's key" in found.remedy


def test_a_signature_that_has_ended_is_told_with_who_signs_and_hands_on():
    assert by_turin(handed_on(), NAMED, now=NOW + 7 * DAY) == ()
    (found,) = by_turin(handed_on(), NAMED, now=NOW + 8 * DAY)
    assert found.what.endswith(": its signature has ended, and no later one has come")
    assert found.remedy == "see that liqod runs at milan and at rome, which sign and hand on"


def test_of_an_own_key_that_may_not_be_read_nothing_is_said():
    assert by_turin(handed_on(reader=OTHER), NAMED, None) == ()


KEY = "a" * 64


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("rome", "it is not as `rome/turin=`"),
        ("rome/turin=abc", "it is not as `rome/turin=`"),
        (f"rome/paris={KEY.upper()}", "it is not as `rome/turin=`"),
        (f"rome/milan={KEY}", "milan is named by way of rome already"),
        (f"paris/genoa={KEY}", "paris is no peer of this cluster"),
        (f"oslo/milan={KEY}", "milan is named with another key already"),
        (f"rome/turin={KEY}", "turin is this cluster"),
        (f"rome/oslo={KEY}", "oslo is a peer of this cluster, and shares with it directly"),
        (f"rome/{'x' * 500}={KEY}", "it is not as `rome/turin=`"),
    ],
)
def test_an_entry_that_counts_for_nothing_is_told(entry: str, why: str):
    (found,) = by_turin(handed_on(), f"{NAMED}, {entry},,")
    assert (repr(entry[:80]) in found.what, why in found.what) == (True, True), found
    assert len(found.what) < 250


def test_more_than_eight_by_way_of_one_are_told():
    more = ",".join(f"rome/c{number}={KEY}" for number in range(8))
    (found,) = by_turin(handed_on(), f"{NAMED},{more}")
    assert "'rome/c7=" in found.what
    assert found.what.endswith("8 are named by way of rome already")


AGREED = f"rome/turin={print_of(TURIN)}"


def at_milan(*taken: str, asked: bool = True, ready: Condition = READY) -> tuple[WayFault, ...]:
    """The faults at milan, by the marks that rome confirms of its export."""
    names = dict(zip(("web", "web_turin"), taken, strict=False))
    made = exchange("milan", asked=asked, mine={"web": told()}, theirs={}, **names)
    found: tuple[WayFault, ...] = faults(known("milan", made, ready=ready), "milan", AGREED)
    return found


MARK = mark_of(told())


@pytest.mark.parametrize("asked", [True, False], ids=["consumer", "provider"])
def test_an_export_that_turin_has_not_taken_is_told_and_one_that_it_has_is_not(asked: bool):
    for taken in ((MARK,), (MARK, "of-before")):
        (found,) = at_milan(*taken, asked=asked)
        assert found.what == "shop/web is not known to turin by way of rome"
        assert "that [network] transit of rome names the two" in found.remedy
        assert found.age == 90.0
    assert at_milan(MARK, MARK, asked=asked) == ()


@pytest.mark.parametrize("asked", [True, False], ids=["consumer", "provider"])
def test_an_export_that_rome_has_no_room_for_is_told_with_what_makes_room(asked: bool):
    (found,) = at_milan(MARK, LEFT_OUT, asked=asked)
    assert found.what == "shop/web is not known to turin by way of rome"
    assert found.remedy.startswith("have rome share fewer exports with turin")


def test_of_an_export_that_rome_itself_has_not_taken_the_export_tells():
    assert at_milan(ready=PENDING) == ()


def test_one_of_two_exchanges_that_confirms_it_is_enough():
    taken = exchange("milan", asked=True, mine={"web": told()}, theirs={}, web_turin=MARK)
    other = exchange("milan", asked=False, mine={"web": told()}, theirs={})
    assert faults(known("milan", taken, other), "milan", AGREED) == ()


def test_what_a_hub_hands_on_is_no_export_of_its_own():
    odd = {"y.Z\n": "[", ".z": "[", "y.": "[", "y.z.z": "[", "y." + 64 * "z": "["}
    given = {told_name("web", "turin"): handed_on()}
    made = exchange("hub", asked=True, mine=given, theirs={"x": "{", "y.z": "[", **odd})
    facts = exchange_facts(made, "hub", 0.0)
    assert facts is not None
    assert (facts.passed, facts.relayed) == ({}, {"y.z": "["})
