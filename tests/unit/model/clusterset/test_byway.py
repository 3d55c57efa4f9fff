"""Exports of a third cluster: signed by it for their reader, at addresses that are lent."""

from typing import Any

import msgspec
import pytest

from liqod.clusterset.byway import Offers, consents, signer
from liqod.clusterset.heldexchanges import HeldExchanges
from liqod.identity import keys
from liqod.model.clusterset.admission import Relay, Scope, admit
from liqod.model.clusterset.byway import (
    DAY,
    ENDED,
    admit_by_way,
    agreed,
    end_of,
    has_ready,
    passed,
    unreached,
    unready,
)
from liqod.model.clusterset.exchange import text
from liqod.model.clusterset.exports import Endpoint, Export, Port, Slice, mark_of
from liqod.model.network.remapping import Remapped

NOW = 20_000.0 * DAY
"""The first second of a day."""
MILAN, TURIN, PARIS = keys.generate(), keys.generate(), keys.generate()
KEY = ("shop", "web")
HTTP = (Port(80, "http"),)


def print_of(private):
    return keys.print_of(keys.public_pem(private))


def export(cluster="milan", created="2026-01-01T00:00:00Z"):
    found = Slice("web-1", "IPv4", HTTP, (Endpoint(("10.72.0.1",)),))
    return Export(cluster, *KEY, created, ports=HTTP, slices=(found,))


def told(private=MILAN, hub="rome", reader=TURIN, of=None, at=NOW):
    """What rome tells turin of milan's export."""
    of = of if of is not None else export()
    agreement = consents(private, of, hub, {"turin": print_of(reader)}, end_of(at))
    return passed(text(of, Remapped, by_way=agreement), "turin", of, lambda _: "10.70.0.9")


def lent(address):
    ours = address.startswith("10.70.")
    return Remapped("10.83.0.9") if ours else Remapped("", "it is not lent")


def scope(namespaces=("shop",), others=None, relay=True, now=NOW):
    others = {"milan": print_of(MILAN)} if others is None else others
    bounds = Relay(others, print_of(TURIN), lent, signer, now) if relay else None
    return Scope("rome", namespaces, lent, bounds)


def admitted(said, origin="milan", **bounds):
    return admit_by_way(said, KEY, origin, scope(**bounds))


def test_what_all_three_agree_on_is_taken_at_the_addresses_that_are_lent():
    found = admitted(told()).export
    assert found is not None
    assert (found.cluster, found.key) == ("milan", KEY)
    assert [one.addresses for each in found.slices for one in each.endpoints] == [("10.83.0.9",)]


def changed(said, **fields):
    return msgspec.json.encode({**msgspec.json.decode(said), **fields}).decode()


def headless():
    return msgspec.structs.replace(export(), type="Headless", traffic_distribution="PreferClose")


def run_together(said):
    """The export of another type, with the same letters in the same order, and its signature."""
    fields = msgspec.json.decode(said)
    first, second = fields.pop("trafficDistribution"), fields.pop("type")
    fields[f'trafficDistribution="{first}"type'] = second
    made = msgspec.json.encode(fields).decode()
    found = admit(made, KEY, Scope("milan", ("shop",), lent)).export
    assert found is not None
    assert found.type == "ClusterSetIP"
    assert mark_of(made) == mark_of(said)
    return made


@pytest.mark.parametrize(
    ("said", "bounds"),
    [
        pytest.param(told(private=PARIS), {}, id="invented by another key"),
        pytest.param(changed(told(), byWay={}), {}, id="not signed"),
        pytest.param(changed(told(), created="2020-01-01T00:00:00Z"), {}, id="dated back"),
        pytest.param(changed(told(), name="pay"), {}, id="another name"),
        pytest.param(changed(told(), labels={"a": "b"}), {}, id="with labels"),
        pytest.param(changed(told(), ports=[{"port": 22}]), {}, id="with another port"),
        pytest.param(changed(told(), type="Headless"), {}, id="of another type"),
        pytest.param(run_together(told(of=headless())), {}, id="with two fields run into one"),
        pytest.param(changed(told(), cluster="paris"), {}, id="of another cluster's id"),
        pytest.param(changed(told(), more=1), {}, id="with a field that nobody knows"),
        pytest.param(told(reader=PARIS), {}, id="signed for another reader"),
        pytest.param(told(hub="paris"), {}, id="signed for another way"),
        pytest.param(told(of=export("paris")), {}, id="of another cluster"),
        pytest.param(told(), {"others": {}}, id="not named by the reader"),
        pytest.param(told(), {"others": {"milan": print_of(PARIS)}}, id="named with another key"),
        pytest.param(told(), {"relay": False}, id="nobody named"),
        pytest.param(told(), {"namespaces": ()}, id="namespace not shared"),
        pytest.param(told(), {"origin": "paris"}, id="told as a third one's"),
    ],
)
def test_what_one_of_the_three_has_not_agreed_to_is_left_out(said, bounds):
    found = admitted(said, **bounds)
    assert found.export is None
    assert found.refused


@pytest.mark.parametrize(
    ("days", "taken"),
    [(-9, False), (-8, False), (-7, True), (0, True), (1, True), (2, False), (20, False)],
    ids=str,
)
def test_a_signature_counts_for_a_week_and_not_for_long(days, taken):
    found = admitted(told(at=NOW + days * DAY))
    assert (found.export is not None) == taken
    assert any(ENDED in why for why in found.refused) == (days < -7)


@pytest.mark.parametrize("off", [-300, 300], ids=["slow", "fast"])
def test_a_clock_that_is_five_minutes_off_ends_nothing(off):
    for now in (NOW, NOW + DAY - 1):
        assert admitted(told(at=now + off), now=now).export is not None
        assert admitted(told(at=now), now=now + off).export is not None


def test_the_cluster_between_puts_no_end_off():
    said = msgspec.json.decode(told(at=NOW - 8 * DAY))
    said["byWay"]["turin"]["until"] += DAY
    (why,) = admitted(msgspec.json.encode(said).decode()).refused
    assert "it is not signed for this cluster's key" in why


def test_what_is_signed_on_one_day_is_the_same_at_each_time():
    assert told(at=NOW) == told(at=NOW + DAY - 1) != told(at=NOW + DAY)


def test_whether_an_export_has_a_ready_endpoint_is_told_of_any_text():
    assert has_ready(told())
    assert not any(map(has_ready, (unready(told()), "", "{}", '{"slices": 1}', "[" * 9_000)))


class Exchanges(HeldExchanges):
    """What milan tells rome: an export of its own, and one that came to it by way of itself."""

    def __init__(self):
        pass

    def told(self, _):
        agreement = consents(MILAN, export(), "rome", {"turin": print_of(TURIN)}, end_of(NOW))
        own = text(export(), Remapped, by_way=agreement)
        return {"web": own, "web.paris": changed(own, cluster="paris"), "web.milan": own}


@pytest.mark.parametrize(
    ("reader", "shared", "passes"),
    [
        pytest.param("turin", ("shop",), {"web"}, id="its own"),
        pytest.param("paris", ("shop",), set(), id="not to whom it has not named"),
        pytest.param("turin", (), set(), id="nothing of a namespace that is not shared"),
    ],
)
def test_a_peers_own_exports_are_shared_on_and_none_that_came_to_it(reader, shared, passes):
    unasked: Any = None
    found = Offers(Exchanges(), unasked, lambda _: Scope("milan", shared, Remapped), unasked)
    assert set(found.of("shop", reader) or ()) == passes


def test_a_reader_that_knows_no_other_clusters_exports_leaves_them_out_by_name():
    """As a version before this one reads them: under the name with the cluster behind it."""
    found = admit(told(), ("shop", "web.milan"), Scope("rome", ("shop",), lent))
    assert found.export is None
    assert found.refusals == 1


def test_what_was_told_of_a_cluster_that_falls_silent_stays_and_is_not_ready():
    found = admitted(unready(told())).export
    before = admitted(told()).export
    assert found is not None
    assert found == unreached(before)
    assert [one.ready for each in found.slices for one in each.endpoints] == [False]


def test_an_address_that_is_not_lent_is_left_out():
    of = export()
    agreement = consents(MILAN, of, "rome", {"turin": print_of(TURIN)}, end_of(NOW))
    found = admitted(passed(text(of, Remapped, by_way=agreement), "turin", of, str)).export
    assert found is not None
    assert [each.endpoints for each in found.slices] == [()]


def test_a_cluster_may_be_by_way_of_two_and_counts_once_for_each():
    one, two = "a" * 64, "b" * 64
    notes = {
        "liqod.io/share-services-by-way-of": f"rome/turin={one}, paris/turin={one},"
        f"rome/oslo=x,rome/turin={two},,/=,="
    }
    assert agreed(notes, "rome") == {"turin": one}
    assert agreed(notes, "paris") == {"turin": one}


def test_of_two_clusters_with_one_id_by_way_of_two_the_first_counts():
    one, two = "a" * 64, "b" * 64
    notes = {
        "liqod.io/share-services-by-way-of": f"rome/turin={one},paris/turin={two},paris/oslo={two}"
    }
    assert agreed(notes, "rome") == {"turin": one}
    assert agreed(notes, "paris") == {"oslo": two}
