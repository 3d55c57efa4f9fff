"""The doctor's layers: pure functions of facts."""

from typing import Any

import msgspec
import pytest

from liqod.errors import NotFound
from liqod.model.view.daemonfacts import PluginFacts
from liqod.plugins import loader
from liqod.plugins.checks import cluster, peers
from liqod.plugins.diagnosis import (
    ClusterFacts,
    Finding,
    LinkFacts,
    NodeFacts,
    PeerFacts,
    QueueFacts,
    ReflectionFacts,
    Trip,
)
from liqod.plugins.examination import problems

LOST = PluginFacts("gadgets", "plugin", state="left out", why="no module")
BROKEN = PluginFacts("gadgets", "check", failure="the last 3 calls failed: KeyError")
HERE = ClusterFacts(now=0.0, api=Trip(1.0, 0.01), version="v1.35.1")


def facts(**changes: Any) -> PeerFacts:
    """Those of a peer that lends and is well, but for some; nested ones by their own names."""
    nested: dict[str, Any] = {
        "link": LinkFacts(state="up", silence=0.5, rtt=0.002, loss=0.0),
        "reflection": ReflectionFacts(),
    }
    for part, values in nested.items():
        own = {name: changes.pop(name) for name in values.__struct_fields__ if name in changes}
        nested[part] = msgspec.structs.replace(values, **own)
    return PeerFacts(
        **{"now": 0.0, "peer": "milan", "cluster": HERE, "lends": True, **nested, **changes}
    )


def verdict(found: Finding | None) -> str:
    return "" if found is None else found.verdict


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "ok"),
        ({"silence": 5.1}, "failing"),  # no round trip in the last seconds: not connected
        ({"silence": None}, "failing"),
        ({"state": "down", "reason": "refused"}, "failing"),
        ({"state": "idle"}, "unknown"),
        ({"loss": 0.5}, "failing"),
        ({"lends": False}, ""),
    ],
)
def test_a_peer_is_reached_only_if_it_was_heard_of_just_now(changes: Any, expected: str):
    assert verdict(peers.api(facts(**changes))) == expected


@pytest.mark.parametrize(
    ("look", "changes", "expected"),
    [
        (peers.task, {"failure": "no certificate"}, "failing"),
        (peers.task, {}, "ok"),
        (peers.credentials, {"certificates": {"control plane": 10.0}}, "failing"),
        (peers.credentials, {"certificates": {"control plane": -1.0}}, "failing"),
        (peers.credentials, {"certificates": {"control plane": 9e6}}, "ok"),
        (peers.credentials, {}, "unknown"),
        (peers.daemon, {"daemon": "runs", "daemon_renewed": 3.0, "daemon_looked": 1.0}, "ok"),
        (peers.daemon, {"daemon": "runs", "daemon_renewed": 38.0, "daemon_looked": 29.0}, "ok"),
        (
            peers.daemon,
            {"daemon": "runs", "daemon_renewed": 60.0, "daemon_looked": 58.0},
            "unknown",
        ),
        (peers.daemon, {"daemon": "runs"}, "unknown"),
        (
            peers.daemon,
            {"daemon": "runs", "daemon_renewed": 9.0, "daemon_looked": 0.0, "daemon_quiet": 9.0},
            "failing",
        ),
        (peers.daemon, {"daemon": "silent", "daemon_why": "not since noon"}, "failing"),
        (peers.daemon, {"daemon": "untold"}, "unknown"),
        (peers.daemon, {}, "unknown"),
        (peers.daemon, {"daemon": "silent", "lends": False}, ""),
        (peers.clock, {"skew": 12.0}, "failing"),
        (peers.clock, {"skew": -12.0}, "failing"),
        (peers.clock, {"skew": 0.0}, "ok"),
        (peers.versions, {"probed": peers.Served("v1.35.0", ())}, "ok"),
        (peers.versions, {"probed": peers.Served("v1.35.0", ("x/v1",))}, "failing"),
        (peers.versions, {}, "unknown"),
        (peers.replication, {"replication": QueueFacts(worked=3.0)}, "ok"),
        (peers.replication, {"replication": QueueFacts(waiting=2, oldest=11.0)}, "failing"),
        (peers.replication, {"replication": QueueFacts(), "canary": Trip(1, 0.1, "no")}, "failing"),
        (peers.replication, {"replication": QueueFacts(), "canary": Trip(1, 0.1)}, "ok"),
        (peers.replication, {"replication": QueueFacts()}, "unknown"),
        (peers.replication, {"replication": QueueFacts(), "unfollowed": {"a": "no"}}, "failing"),
        (peers.granted, {"unanswered": ("gpus",)}, "unknown"),
        (peers.granted, {"denied": {"gpus": "too much"}}, "failing"),
        (peers.nodes, {"nodes": (NodeFacts("milan"),)}, "ok"),
        (peers.nodes, {"nodes": (NodeFacts("milan", "unreachable"),)}, "failing"),
        (peers.nodes, {"nodes": (NodeFacts("milan", "", 50.0),)}, "failing"),
        (peers.nodes, {}, ""),
        (peers.namespaces, {"nodes": (NodeFacts("a"),), "unmapped": {"shop": 9.0}}, "ok"),
        (peers.namespaces, {"nodes": (NodeFacts("a"),), "unmapped": {"shop": 11.0}}, "failing"),
        (peers.reflection, {"namespaces": 1}, "ok"),
        (peers.reflection, {"namespaces": 1, "degraded": "pods cannot be written"}, "failing"),
        (peers.reflection, {"namespaces": 1, "blind": {"secrets": "no"}}, "failing"),
        (
            peers.reflection,
            {"namespaces": 1, "reflectors": {"pods": QueueFacts(3, 12.0, None, 1, "quota")}},
            "failing",
        ),
        (peers.tenant, {"borrows": True, "tenant": "Active"}, "ok"),
        (peers.tenant, {"borrows": True, "tenant": "Drained"}, "skipped"),
        (peers.tenant, {"borrows": True, "tenant": "not accepted"}, "unknown"),
        (peers.tenant, {}, ""),
        (peers.guests, {}, ""),
        (peers.guests, {"borrows": True}, "unknown"),
        (peers.guests, {"borrows": True, "unmade": ()}, "ok"),
        (peers.guests, {"borrows": True, "unmade": ("shop/web",)}, "failing"),
        (peers.guests, {"borrows": True, "unmade": (), "left_out": ("shadowpods",)}, "failing"),
        (peers.usage, {}, ""),
        (peers.usage, {"usage": "it has no metrics.k8s.io"}, "unknown"),
        (peers.usage, {"usage": ""}, "ok"),
    ],
)
def test_layers_of_a_peering(look: Any, changes: Any, expected: str):
    found = look(facts(**changes))
    assert verdict(found) == expected
    assert not found or found.evidence
    assert not found or (found.verdict == "failing") == bool(found.remedy)


@pytest.mark.parametrize(
    ("look", "changes", "expected"),
    [
        (cluster.api, {}, "ok"),
        (cluster.api, {"api": None}, "unknown"),
        (cluster.api, {"api": Trip(1.0, 5.0, "it does not answer")}, "failing"),
        (cluster.api, {"api": Trip(31.0, 0.01)}, "failing"),
        (cluster.credentials, {"certificate": -5.0}, "failing"),
        (cluster.credentials, {"certificate": None}, "ok"),
        (cluster.clock, {"skew": None}, "unknown"),
        (cluster.watches, {"silent": {"pods": "forbidden"}}, "failing"),
        (cluster.loop, {"lag": 2.0}, "failing"),
        (cluster.webhook, {"webhook": "timeout"}, "failing"),
        (cluster.webhook, {"webhook": "reachable"}, "unknown"),
        (cluster.webhook, {"webhook": "reachable", "proved": 5.0}, "ok"),
        (cluster.webhook, {"webhook": "reachable", "proved": 1300.0}, "unknown"),
        (cluster.webhook, {}, ""),
        (cluster.plugins, {"plugins": {"a": LOST}}, "failing"),
        (cluster.plugins, {"plugins": {"a": BROKEN}}, "failing"),
        (cluster.plugins, {"plugins": {"a": PluginFacts("gadgets", "check")}}, "ok"),
        (cluster.handshake, {}, ""),
        (cluster.handshake, {"met_at": 0, "leading": False}, ""),
        (cluster.handshake, {"met_at": 0}, "unknown"),
        (cluster.handshake, {"met_at": 0, "unmet": "port 6446 is taken"}, "failing"),
        (cluster.handshake, {"met_at": 6446}, "ok"),
        (cluster.gateway, {}, ""),
        (cluster.gateway, {"unjoined": "missing: nft"}, "unknown"),
        (cluster.gateway, {"unjoined": "missing: nft", "leading": False}, ""),
        (cluster.gateway, {"unjoined": ""}, "ok"),
        (cluster.transit, {}, ""),
        (cluster.transit, {"apart": ("turin",)}, ""),
        (cluster.transit, {"apart": ("turin",), "unjoined": "", "leading": False}, ""),
        (cluster.transit, {"apart": ("turin",), "unjoined": ""}, "failing"),
        (cluster.serving, {}, ""),
        (cluster.serving, {"serving": "signers is forbidden"}, "unknown"),
        (cluster.serving, {"serving": "", "leading": False}, ""),
        (cluster.serving, {"serving": ""}, "ok"),
    ],
)
def test_layers_of_this_cluster(look: Any, changes: Any, expected: str):
    values: dict[str, Any] = {"now": 0.0, "api": Trip(1.0, 0.01), "version": "v1", **changes}
    assert verdict(look(ClusterFacts(**values))) == expected


def test_the_checks_are_loaded_as_plugins_in_their_order():
    loaded = loader.load()
    for scope in ("cluster", "peer"):
        orders = [check.order for check in loaded.checks if check.scope == scope]
        assert orders == sorted(orders)
        assert len(orders) == len(set(orders)) > 5
    names = {check.name for check in loaded.checks}
    for check in loaded.checks:
        assert set(check.needs) <= names


class Asker:
    """An API server that serves these lists of resources."""

    settings = None

    def __init__(self, **served: tuple[str, ...]) -> None:
        self._served = {f"/apis/{name}.liqo.io/v1beta1": kinds for name, kinds in served.items()}

    async def read(self, path: str) -> bytes:
        if path == "/version":
            return b'{"gitVersion":"v1.35.2"}'
        if path not in self._served:
            raise NotFound(path)
        return msgspec.json.encode({"resources": [{"name": each} for each in self._served[path]]})


async def test_versions_are_asked_for_and_what_is_missing_is_named():
    offloading = ("namespacemaps", "shadowpods", "shadowpods/status")
    served = await peers.ask_versions(
        Asker(authentication=("resourceslices",), offloading=offloading)
    )
    missing = ("shadowendpointslices.offloading.liqo.io/v1beta1",)
    assert served == peers.Served("v1.35.2", missing)


async def test_a_group_that_is_not_there_is_missing():
    assert await peers.ask_versions(Asker()) == peers.Served("v1.35.2", tuple(peers.NEEDED))


def test_a_kind_that_a_peer_has_not_is_its_administrators_to_install():
    found = peers.reflection(facts(namespaces=1, blind={"lamps": "not found"}))
    assert found is not None
    assert found.evidence == "lamps there cannot be followed: not found"
    assert "at milan: install the definition of lamps, and give the rights" in found.remedy
    assert "`[reflection] disabled`" in found.remedy


def test_each_object_that_fails_is_a_problem_of_its_own_with_its_name():
    nodes = (NodeFacts("milan"), NodeFacts("spare", "gone"), NodeFacts("gpus", "stopped"))
    there = facts(nodes=nodes)
    finding = peers.nodes(there)
    assert finding is not None
    assert finding.evidence == "virtual node spare: gone (and 1 other)"
    told = [each for each in problems(there.cluster, (there,)) if each.layer == "nodes"]
    assert {(each.what, each.objects) for each in told} == {
        ("virtual node spare: gone", ("spare",)),
        ("virtual node gpus: stopped", ("gpus",)),
    }


def test_a_hint_fails_no_layer_and_is_told_with_its_objects():
    there = facts(beyond={"gpus": "more cpu is granted than the nodes there have in all"})
    finding = peers.granted(there)
    assert finding is not None
    assert finding.verdict == "ok"
    (hint,) = [each for each in problems(there.cluster, (there,)) if "gpus" in each.objects]
    assert hint.hint
    assert hint.layer == ""
