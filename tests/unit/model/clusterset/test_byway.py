"""Exports of a third cluster: signed by it for their reader, at addresses that are lent."""

from typing import Any

import msgspec
import pytest

from liqod.clusterset.byway import Offers, consents, signer
from liqod.clusterset.heldexchanges import HeldExchanges
from liqod.identity import keys
from liqod.model.clusterset.admission import Relay, Scope, admit
from liqod.model.clusterset.byway import admit_by_way, agreed, passed, unreached, unready
from liqod.model.clusterset.exchange import text
from liqod.model.clusterset.exports import Endpoint, Export, Port, Slice, mark_of
from liqod.model.network.remapping import Remapped

MILAN, TURIN, PARIS = keys.generate(), keys.generate(), keys.generate()
KEY = ("shop", "web")
HTTP = (Port(80, "http"),)


def print_of(private):
    return keys.print_of(keys.public_pem(private))


def export(cluster="milan", created="2026-01-01T00:00:00Z"):
    found = Slice("web-1", "IPv4", HTTP, (Endpoint(("10.72.0.1",)),))
    return Export(cluster, *KEY, created, ports=HTTP, slices=(found,))


def told(private=MILAN, hub="rome", reader=TURIN, of=None):
    """What rome tells turin of milan's export."""
    of = of if of is not None else export()
    agreement = consents(private, of, hub, {"turin": print_of(reader)})
    return passed(text(of, Remapped, by_way=agreement), "turin", of, lambda _: "10.70.0.9")


def lent(address):
    ours = address.startswith("10.70.")
    return Remapped("10.83.0.9") if ours else Remapped("", "it is not lent")


def scope(namespaces=("shop",), others=None, relay=True):
    others = {"milan": print_of(MILAN)} if others is None else others
    bounds = Relay(others, print_of(TURIN), lent, signer) if relay else None
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


class Exchanges(HeldExchanges):
    """What milan tells rome: an export of its own, and one that came to it by way of itself."""

    def __init__(self):
        pass

    def told(self, _):
        agreement = consents(MILAN, export(), "rome", {"turin": print_of(TURIN)})
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
    found = Offers(Exchanges(), unasked, lambda _: Scope("milan", shared, Remapped))
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
    agreement = consents(MILAN, of, "rome", {"turin": print_of(TURIN)})
    found = admitted(passed(text(of, Remapped, by_way=agreement), "turin", of, str)).export
    assert found is not None
    assert [each.endpoints for each in found.slices] == [()]


def test_a_cluster_may_be_by_way_of_two_and_counts_once_for_each():
    one, two = "a" * 64, "b" * 64
    notes = {
        "liqod.io/share-services-by-way-of": f"rome/turin={one}, paris/turin={two},"
        f"rome/oslo=x,rome/turin={two},,/=,="
    }
    assert agreed(notes, "rome") == {"turin": one}
    assert agreed(notes, "paris") == {"turin": two}
