"""The output of `liqod network status` for the objects of one peer."""

import msgspec
import pytest

from liqod.cli.report import overview
from liqod.model.view.networkfacts import joined
from liqod.model.view.snapshot import Snapshot
from liqod.resources.networking import (
    ClusterRanges,
    Configuration,
    ConfigurationSpec,
    ConfigurationStatus,
    Connection,
    ConnectionStatus,
    GatewayServerStatus,
    Latency,
    Ranges,
    StandardCondition,
)
from tests.unit.network.gateways import client, meta, server


def side(pod: str, external: str) -> ClusterRanges:
    return ClusterRanges(Ranges((pod,), (external,)))


def refused(reason: str, message: str) -> StandardCondition:
    return StandardCondition("Accepted", "False", reason, message, "2026-01-01T00:00:00Z")


def test_a_tunnel_with_all_that_belongs_to_it():
    configuration = Configuration(
        metadata=meta(),
        spec=ConfigurationSpec(
            side("10.244.0.0/16", "10.60.0.0/16"), side("10.244.0.0/16", "10.70.0.0/16")
        ),
        status=ConfigurationStatus(side("10.71.0.0/16", "10.72.0.0/16")),
    )
    connection = Connection(
        metadata=meta("gw-milan"), status=ConnectionStatus("Connected", Latency("1.25ms"))
    )
    found = joined([connection], [server(told=51841)], [configuration])
    assert (found.state, found.latency, found.side) == ("Connected", "1.25ms", "server")
    assert (found.backend, found.endpoints) == ("wireguard", ("192.0.2.1:51841",))
    assert found.own == ("10.244.0.0/16", "10.60.0.0/16")
    assert found.ranges == ("10.244.0.0/16", "10.70.0.0/16")
    assert found.aliases == ("10.71.0.0/16", "10.72.0.0/16")
    assert found.problems == ()


def test_nothing_there_is_said():
    found = joined([], [], [])
    assert found.state == ""
    assert found.problems == (
        "there is no GatewayServer and no GatewayClient",
        "there is no Configuration",
    )


def test_what_is_refused_is_said_and_the_dialled_addresses_shown():
    told = refused("MtuOutOfRange", "mtu 5: 1280 to 9000 can be")
    bad = server(meta("bad"))
    bad = type(bad)(
        metadata=bad.metadata, spec=bad.spec, status=GatewayServerStatus(conditions=(told,))
    )
    found = joined([], [bad], [])
    assert "GatewayServer bad: mtu 5: 1280 to 9000 can be" in found.problems
    found = joined([], [client("2001:db8::7", port=7)], [])
    assert (found.side, found.endpoints) == ("client", ("[2001:db8::7]:7",))


def test_a_tunnel_that_stands_and_reaches_no_pod_is_a_problem():
    metadata = meta("gw-milan")
    metadata = msgspec.structs.replace(
        metadata, annotations={"liqod.io/pods": "failed: nothing came back, a to b"}
    )
    connection = Connection(metadata=metadata, status=ConnectionStatus("Connected"))
    found = joined([connection], [server()], [])
    assert "from pod to pod: nothing came back, a to b" in found.problems


@pytest.mark.parametrize(
    ("state", "pods", "what"),
    [
        ("Connected", "reached", ""),
        ("Connected", "untried: no address", ""),
        ("Connected", "", ""),
        (
            "Connected",
            "failed: nothing came back, a to b",
            "from pod to pod nothing came back, a to b",
        ),
        ("Connecting", "reached", "the tunnel is Connecting"),
        ("", "", "the tunnel is not there yet"),
    ],
)
def test_status_names_what_a_connection_says(state: str, pods: str, what: str):
    metadata = msgspec.structs.replace(
        meta("gw-milan"),
        annotations={"liqod.io/pods": pods} if pods else {},
        labels={"liqo.io/remote-cluster-id": "milan"},
    )
    connection = Connection(metadata=metadata, status=ConnectionStatus(state))
    found = overview(Snapshot(cluster_id="rome", leader="x", connections=(connection,))).problems
    told = [each for each in found if "network" in each.what]
    assert [each.what for each in told] == ([f"the joined network: {what}"] if what else [])
    assert all(each.peer == "milan" and "doctor milan" in each.remedy for each in told)
