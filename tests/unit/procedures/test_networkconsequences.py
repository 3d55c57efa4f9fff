"""What other settings of networks would do to the peers that are joined."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from liqod.apimachinery.kinds import NAMESPACES, NODES
from liqod.configsections import NetworkSettings
from liqod.network.loadedbackends import load_backends
from liqod.procedures.clusterobjects import ClusterObjects
from liqod.procedures.networkconsequences import (
    external_consequences,
    network_consequences,
    node_consequences,
)
from liqod.resources import IPS, NETWORKS, VIRTUAL_NODES
from liqod.resources.networking import GATEWAY_CLIENTS, GATEWAY_SERVERS

ROOT = Path(__file__).parents[3]
PLACES = {"rome": "liqo-tenant-rome", "turin": "liqo-tenant-turin"}
KNOWN = load_backends(()).network
TEMPLATE = {"apiVersion": "networking.liqo.io/v1beta1", "namespace": "liqo"}


def meta(peer: str, name: str) -> dict[str, Any]:
    marks = {"liqo.io/remote-cluster-id": peer}
    return {"name": name, "namespace": PLACES[peer], "labels": marks, "uid": f"{peer}-{name}"}


def server(peer: str = "rome", backend: str = "wireguard") -> dict[str, Any]:
    """A gateway that the peer dials."""
    named = {"kind": "WgGatewayServerTemplate", "name": f"{backend}-server", **TEMPLATE}
    endpoint = {"addresses": ["192.0.2.5"], "port": 51840, "protocol": "UDP"}
    spec = {"serverTemplateRef": named, "endpoint": {"port": 51840}}
    return {"metadata": meta(peer, "gw"), "spec": spec, "status": {"endpoint": endpoint}}


def client(peer: str = "turin", backend: str = "wireguard") -> dict[str, Any]:
    """A gateway that dials the peer's."""
    named = {"kind": "WgGatewayClientTemplate", "name": f"{backend}-client", **TEMPLATE}
    endpoint = {"addresses": ["198.51.100.7"], "port": 51840, "protocol": "UDP"}
    return {
        "metadata": meta(peer, "gw"),
        "spec": {"clientTemplateRef": named, "endpoint": endpoint},
    }


def joined(*servers: dict[str, Any], clients: tuple[dict[str, Any], ...] = ()) -> ClusterObjects:
    """A cluster with two peers, of which rome has a virtual node here."""
    made = ClusterObjects()
    for peer, place in PLACES.items():
        marks = {"liqo.io/tenant-namespace": "true", "liqo.io/remote-cluster-id": peer}
        made.put(NAMESPACES, {"metadata": {"name": place, "labels": marks}})
    node = {
        "metadata": {"name": "rome", "namespace": PLACES["rome"]},
        "spec": {"clusterID": "rome"},
    }
    made.put(VIRTUAL_NODES, node)
    for each in servers:
        made.put(GATEWAY_SERVERS, each)
    for each in clients:
        made.put(GATEWAY_CLIENTS, each)
    return made


def network(**settings: Any) -> NetworkSettings:
    return msgspec.convert(settings, NetworkSettings)


def told(objects: ClusterObjects, before: NetworkSettings, after: NetworkSettings) -> list[str]:
    found = network_consequences(objects, before, after, "liqo", KNOWN)
    return [f"{each.action} {each.cluster}: {each.message}" for each in found]


def test_where_networks_are_joined_no_more_each_tunnel_ends():
    objects = joined(server(), clients=(client(),))
    on, off = network(), network(enabled=False)
    why = "the network cannot be joined here: the configuration says so ([network] enabled)"
    assert told(objects, on, off) == [
        f"ends rome: the tunnel between the networks: {why}",
        f"ends turin: the tunnel between the networks: {why}",
    ]
    assert told(objects, off, on) == [
        "begins rome: the tunnel between the networks",
        "begins turin: the tunnel between the networks",
    ]
    first, second = network_consequences(objects, on, off, "liqo", KNOWN)
    assert (first.unreached, second.unreached) == (("rome",), ())
    assert told(joined(), on, off) == []
    assert told(objects, on, on) == []


@pytest.mark.parametrize(
    ("before", "after", "ends", "begins"),
    [
        ((), ("vxlan",), ["rome"], ["turin"]),
        ((), ("wireguard", "vxlan"), [], ["turin"]),
        (("vxlan",), (), ["turin"], ["rome"]),
        ((), ("wireguard",), [], []),
    ],
    ids=["another", "one more", "the usual", "the same"],
)
def test_a_tunnel_that_is_made_no_more_ends(
    before: tuple[str, ...], after: tuple[str, ...], ends: list[str], begins: list[str]
):
    objects = joined(server(), clients=(client(backend="vxlan"),))
    found = told(objects, network(backends=before), network(backends=after))
    for action, peers in (("ends", ends), ("begins", begins)):
        assert [each.split()[1] for each in found if each.startswith(action)] == [
            f"{peer}:" for peer in peers
        ]


def test_a_tunnel_of_another_ones_is_made_unless_others_are_named():
    objects = joined(server(backend="rope"))
    assert told(objects, network(), network(websocket=True)) == []
    [ends] = told(objects, network(), network(backends=("wireguard",)))
    why = "tunnels by 'rope': this cluster makes wireguard"
    assert ends == f"ends rome: the tunnel between the networks: {why}"


def test_another_gateway_counts_where_the_first_one_is_made_no_more():
    older = server(backend="vxlan")
    older["metadata"] |= {"name": "older", "uid": "0", "creationTimestamp": "2026-01-01T00:00:00Z"}
    newer = server()
    newer["metadata"] |= {"creationTimestamp": "2026-02-01T00:00:00Z"}
    both = joined(older, newer)
    named, usual = network(backends=("vxlan", "wireguard")), network()
    assert told(both, named, usual) == ["moves rome: the tunnel goes by GatewayServer gw"]


def test_a_peer_dials_another_address():
    objects = joined(server(), clients=(client(),))
    assert told(objects, network(), network(advertise=("gate.example",))) == [
        "moves rome: its gateway is to dial gate.example instead of 192.0.2.5"
    ]
    assert told(objects, network(), network(advertise=("192.0.2.5",))) == []
    [back] = told(objects, network(advertise=("gate.example",)), network())
    assert back.startswith("moves rome: its gateway is to dial the address of the gateway's node")


def test_a_websocket_is_taken_where_both_kinds_are_made():
    objects = joined(server(), clients=(client(),))
    both = ("wireguard", "websocket")
    off, on = network(backends=both), network(backends=both, websocket=True)
    way = "TCP port 443 takes its tunnel, too, where no UDP passes"
    assert told(objects, off, on) == [f"begins rome: {way}"]
    assert told(objects, on, off) == [f"ends rome: {way}"]


def test_annotations_of_a_gateways_service_come_and_go():
    asks = server()
    asks["spec"]["serviceAnnotations"] = {"example.com/pool": "a", "example.com/zone": "b"}
    objects = joined(asks, clients=(client(),))
    some = network(service_annotations=("example.com/pool", "example.com/other"))
    other = network(service_annotations=("example.com/zone",))
    has = "the Service of its gateway here has the annotation example.com"
    assert told(objects, network(), some) == [f"begins rome: {has}/pool"]
    assert told(objects, some, other) == [f"ends rome: {has}/pool", f"begins rome: {has}/zone"]


def test_settings_that_are_named_alone_are_those_of_the_page():
    """A setting that is new is judged, or the page says that it is not."""
    asks = server()
    asks["spec"]["serviceAnnotations"] = {"example.com/pool": "a"}
    both = joined(asks, clients=(client(backend="vxlan"),))
    both.put(IPS, {"metadata": meta("rome", "printer"), "spec": {"ip": "203.0.113.9"}})
    alias = {"spec": {"cidr": "10.244.0.0/16"}, "status": {"cidr": "10.71.0.0/16"}}
    both.put(NETWORKS, {"metadata": meta("rome", "milan-pod"), **alias})
    marks = {"ipam.liqo.io/network-type": "external-cidr"}
    own = {"name": "external-cidr", "namespace": "liqo", "labels": marks}
    both.put(NETWORKS, {"metadata": own, "spec": {"cidr": "10.70.0.0/20"}})
    before = {"backends": ["wireguard", "websocket"], "relay": ["*"], "transit": [["rome", "a"]]}
    changed: dict[str, Any] = {
        "enabled": False,
        "advertise": ["gate.example"],
        "backends": ["vxlan"],
        "external_cidr": "10.90.0.0/20",
        "reserved": ["10.71.4.0/24"],
        "lendable": ["203.0.113.0/24"],
        "in_band": ["rome"],
        "relay": [],
        "relay_rate": 7,
        "relayed_by": ["rome"],
        "transit": [],
        "transit_rate": 7,
        "service_annotations": ["example.com/pool"],
        "websocket": True,
        "machine": "/elsewhere",
        "daemon": "another",
        "pools": ["10.99.0.0/16"],
        "node": "another",
        "node_address": "192.0.2.9",
        "node_pods": "cni",
        "candidates": "all",
        "candidate_port": 7,
    }
    assert changed.keys() == set(NetworkSettings.__struct_fields__)
    unjudged = set()
    for name, value in changed.items():
        settings = network(**before), network(**{**before, name: value})
        external = external_consequences(both, *settings, "liqo", "milan")
        nodes = node_consequences(both, *settings, "milan")
        if not [*told(both, *settings), *external, *nodes]:
            unjudged.add(name)
    text = (ROOT / "docs" / "reference" / "plan.md").read_text()
    [named] = re.findall(r"^\| `\[network\]`, (.+?) \|", text, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", named)) == unjudged


def test_agreements_begin_and_end_for_those_whom_they_name():
    found = told(
        joined(),
        network(in_band=("rome",), relay=("*",), relay_rate=10),
        network(
            in_band=("turin", "pisa", "x-*"), relay=("r*",), relay_rate=20, relayed_by=("rome",)
        ),
    )
    assert found == [
        "ends rome: it reaches this cluster's API server through the tunnel no more",
        "changes rome: 20 instead of 10 Mbit/s are carried for it",
        "begins rome: tunnels of others may come by its gateway",
        "begins turin: it may reach this cluster's API server through the tunnel",
        "ends turin: its tunnels to other peers go by this gateway no more",
        "waits pisa: no peer has this id, so [network] in_band counts once one has",
    ]


def test_transit_begins_and_ends_for_both_of_a_pair():
    some = network(transit=(("rome", "turin"),))
    told_of = "its pods reach endpoints of offloaded Services at"
    both = [f"rome: {told_of} turin by this gateway", f"turin: {told_of} rome by this gateway"]
    assert told(joined(), network(), some) == [f"begins {each}" for each in both]
    assert told(joined(), some, network()) == [f"ends {each}" for each in both]
    assert told(joined(), some, network(transit=(("turin", "rome"),), transit_rate=10)) == [
        "changes rome: 10 instead of 1000 Mbit/s are carried for its calls to turin",
        "changes turin: 10 instead of 1000 Mbit/s are carried for its calls to rome",
    ]
    [*_, waits] = told(joined(), some, network(transit=(("rome", "turin"), ("rome", "pisa"))))
    assert waits == "waits pisa: no peer has this id, so [network] transit counts once one has"


def test_hosts_are_lent_by_what_may_be_lent():
    objects = joined()
    plain: dict[str, Any] = {"ip": "203.0.113.9"}
    for name, spec in (("printer", plain), ("web", plain | {"serviceTemplate": {"spec": {}}})):
        objects.put(IPS, {"metadata": meta("rome", name), "spec": spec})
    objects.put(IPS, {"metadata": meta("rome", "forged"), "spec": {"ip": "203.0.113.0/24"}})
    own = {"name": "own", "namespace": "liqo"}
    objects.put(IPS, {"metadata": own, "spec": {"ip": "203.0.113.9"}})
    none, some = network(), network(lendable=("203.0.113.0/24",))
    host = "its IP printer has the host 203.0.113.9 lent to it"
    assert told(objects, none, some) == [f"begins rome: {host}"]
    assert told(objects, some, none) == [f"ends rome: {host}"]


def test_aliases_that_were_given_stay_in_what_is_reserved():
    objects = joined()
    for name, cidr, given in (
        ("milan-pod", "10.244.0.0/16", "10.71.0.0/16"),
        ("milan-external", "10.70.0.0/20", "10.65.0.0/20"),
        ("forged", "10.244.0.0/16", "10.71.0.0/99"),
    ):
        spec, status = {"cidr": cidr}, {"cidr": given}
        objects.put(NETWORKS, {"metadata": meta("rome", name), "spec": spec, "status": status})
    reserved = network(reserved=("10.71.4.0/24",))
    assert told(objects, network(), reserved) == [
        "waits rome: 10.244.0.0/16 of it keeps the alias 10.71.0.0/16, which lies in 10.71.4.0/24:"
        " no alias that was given is taken back"
    ]
    assert told(objects, reserved, network()) == []


def test_an_external_range_that_was_announced_stays():
    objects = joined()
    asked = network(external_cidr="10.90.0.0/20")

    def external() -> list[str]:
        made = external_consequences(objects, network(), asked, "liqo", "milan")
        return [f"{each.action} {each.cluster}: {each.message}" for each in made]

    assert external() == []
    for kind, cidr in (("pod-cidr", "10.244.0.0/16"), ("external-cidr", "10.70.0.0/20")):
        marks = {"ipam.liqo.io/network-type": kind}
        name = {"name": kind, "namespace": "liqo", "labels": marks}
        objects.put(NETWORKS, {"metadata": name, "spec": {"cidr": cidr}})
    assert external() == [
        "waits milan: [network] external_cidr 10.90.0.0/20: addresses are lent from 10.70.0.0/20"
        " already, which stays"
    ]
    assert list(external_consequences(objects, asked, asked, "liqo", "milan")) == []


def with_nodes(**marks: dict[str, str]) -> ClusterObjects:
    """A cluster with a Node of each name, with these labels, and a virtual one."""
    made = ClusterObjects()
    for name, labels in {**marks, "rome": {"liqo.io/type": "virtual-node", "gate": "yes"}}.items():
        address = {"type": "InternalIP", "address": f"192.0.2.{len(name)}"}
        meta = {"name": name.replace("_", "-"), "labels": labels}
        made.put(NODES, {"metadata": meta, "status": {"addresses": [address]}})
    return made


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("", "gate", ["begins of these nodes one has the tunnels, and the others stand by: a, c"]),
        ("gate", "all", ["begins of these nodes one has the tunnels, and the others stand by: b"]),
        ("gate", "gate=yes", ["ends these nodes have tunnels no more: c"]),
        (
            "gate",
            "",
            ["changes the node of the daemon that leads has the tunnels, and none stands by"],
        ),
        (
            "gate",
            "gate=maybe",
            [
                "waits [network] candidates gate=maybe: no node here is one, so none has tunnels",
                "ends these nodes have tunnels no more: a, c",
            ],
        ),
        ("gate", "gate", []),
    ],
)
def test_nodes_stand_by_or_no_more(before: str, after: str, found: list[str]):
    objects = with_nodes(a={"gate": "yes"}, b={}, c={"gate": ""})
    settings = network(candidates=before), network(candidates=after)
    made = node_consequences(objects, *settings, "milan")
    assert [f"{each.action} {each.message}" for each in made if each.cluster == "milan"] == found


def test_where_no_networks_are_joined_no_node_stands_by():
    objects = with_nodes(a={})
    after = network(candidates="all", enabled=False)
    assert list(node_consequences(objects, network(), after, "milan")) == []


def test_a_node_that_is_named_has_to_be_there():
    objects = with_nodes(a={})
    [waits] = node_consequences(objects, network(), network(node="b"), "milan")
    assert waits.action == "waits"
    assert waits.message.startswith("[network] node b: there is no Node b with an address")
    assert list(node_consequences(objects, network(), network(node="a"), "milan")) == []
