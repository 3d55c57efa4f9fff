"""Facts of a cluster from its objects: those that checks are given without a daemon."""

from typing import Any

import msgspec
import pytest

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.cli.report import ladders
from liqod.model.objects import returnmarks
from liqod.model.objects.returnmarks import ReturnMark
from liqod.model.peering.foreigncluster import REFUSES
from liqod.model.view import objectfacts
from liqod.model.view.facts import ClusterFacts, LinkFacts, PeerFacts, Trip
from liqod.model.view.rows import Verdict
from liqod.plugins import examination
from liqod.plugins.examination import ladder
from liqod.resources import NamespaceOffloading
from tests.unit.inspect.faulty import denied
from tests.unit.model.test_overview import healthy, peer

DOWN = {"foreign_clusters": (peer("milan", up=False, reason=REFUSES),)}
RUNS = {"foreign_clusters": (peer("milan", notes={labels.PEER_DAEMON: labels.TRUE}),)}


def milan(**changes: object) -> PeerFacts:
    snapshot = healthy(**changes)
    (found,) = objectfacts.peers(snapshot, objectfacts.cluster(snapshot))
    return found


def verdicts(**changes: object) -> dict[str, Verdict]:
    _, found = ladders(healthy(**changes), "v1.35.4", 0.01)
    return {each.layer: each.verdict for each in found.checks}


def test_the_link_is_as_the_daemon_noted_it():
    assert milan().link == LinkFacts(state="up")
    assert milan(**DOWN).link == LinkFacts(state="down", reason="refused", problem="refused")
    link = milan(**RUNS).link
    assert (link.daemon, link.daemon_renewed) == ("runs", objectfacts.RENEWED)


@pytest.mark.parametrize(
    ("changes", "fails"),
    [
        ({}, ""),
        (RUNS, ""),
        (DOWN, ""),
        ({"slices": (denied(),)}, "granted"),
        ({"nodes": {}}, "nodes"),
    ],
)
def test_what_only_a_daemon_that_does_not_run_has_noted_is_not_called_good(
    changes: Any, fails: str
):
    found = verdicts(**changes, leader_age=600.0)
    assert found["api"] == "unknown"
    for layer in ("daemon", "granted", "nodes"):
        assert found[layer] == ("failing" if layer == fails else "skipped")


def test_what_might_not_be_read_is_not_said_to_be_well_or_missing():
    found = verdicts(unread=("resourceslices", "identities"), expiries={})
    assert (found["granted"], found["credentials"]) == ("unknown", "unknown")
    assert verdicts()["granted"] == "ok"


def test_each_layer_that_fails_is_seen_in_objects():
    assert verdicts(**DOWN)["api"] == "failing"
    assert verdicts(slices=(denied(),))["granted"] == "failing"
    assert verdicts(nodes={})["nodes"] == "failing"
    assert verdicts(expiries={("milan", "a"): 60.0})["credentials"] == "failing"
    silent = peer("milan", notes={labels.PEER_DAEMON: "its Lease is old"})
    assert verdicts(foreign_clusters=(silent,))["daemon"] == "failing"


def test_a_server_that_does_not_accept_who_asks_is_told_from_one_that_does_not_answer():
    remedies = [
        ladder(ClusterFacts(now=0.0, api=Trip(0.0, 0.0, "no", refused=refused))).checks[0].remedy
        for refused in (True, False)
    ]
    assert "credentials" in remedies[0]
    assert "address" in remedies[1]


def test_controllers_that_avoid_a_peer_are_named_while_they_do():
    since, until = "2026-01-02T12:00:00Z", "2026-01-02T12:10:00Z"
    mark = ReturnMark("u", "ReplicaSet", "web", "milan", "Refused", "no more cpu", since, until)
    notes = {labels.RETURNED: returnmarks.render([mark]) or ""}
    meta = ObjectMeta(name="offloading", namespace="shop", annotations=notes)
    offloading = NamespaceOffloading(metadata=meta)

    def told(now: str) -> list[str]:
        snapshot = msgspec.structs.replace(healthy(), offloadings=(offloading,), now=now)
        return [each.what for each in examination.problems(objectfacts.cluster(snapshot), ())]

    assert told("2026-01-02T12:09:00Z") == [
        "milan could not start a pod of ReplicaSet web (Refused), and is tried again after "
        "2026-01-02T12:10:00Z: no more cpu"
    ]
    assert told(until) == []
