"""Chooses the nodes on which the pods of a network test run. Pure."""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from liqod.apimachinery import labels
from liqod.model.crossing.addresses import parse
from liqod.model.objects.partial import Node
from liqod.model.objects.podsight import unready
from liqod.procedures.testplan import ProbeLocation

Json = dict[str, Any]


class Places(msgspec.Struct, frozen=True):
    """Where pods of the test may be.

    Attributes:
        here: nodes of this cluster.
        there: a virtual node of each peer that has one for them.
        problems: why a peer has none, by its id.
        tainted: the peers of which a taint alone is in the way.
    """

    here: list[ProbeLocation]
    there: list[ProbeLocation]
    problems: dict[str, str]
    tainted: frozenset[str] = frozenset()


def places(nodes: Sequence[Json], cluster: str, peers: Collection[str], most: int) -> Places:
    """The places that the nodes of a cluster give to the pods of a test.

    Args:
        nodes: all nodes of the cluster.
        cluster: its id.
        peers: ids of those to try; empty for all.
        most: how many nodes of the cluster itself.
    """
    here: list[ProbeLocation] = []
    there: dict[str, ProbeLocation] = {}
    problems: dict[str, str] = dict.fromkeys(peers, "it has no virtual node here")
    tainted: set[str] = set()
    for raw in nodes:
        node = msgspec.convert(raw, Node)
        marks, name = node.metadata.labels, node.metadata.name
        closed = _closed_by(raw)
        if marks.get(labels.TYPE) != labels.VIRTUAL_NODE_TYPE:
            if len(here) < most and not closed and not unready(node.status):
                here.append(ProbeLocation(cluster, name, _address(node)))
            continue
        peer = marks.get(labels.REMOTE_CLUSTER_ID, "")
        if peer in there or (peers and peer not in peers):
            continue
        if problem := unready(node.status):
            problems[peer] = f"its virtual node {name} is not ready: {problem}"
        elif closed:
            problems[peer] = f"its virtual node {name} takes no new pods: it has the taint {closed}"
            tainted.add(peer)
        else:
            there[peer] = ProbeLocation(peer, name, number=len(there) + 1)
    return Places(
        here,
        list(there.values()),
        {each: problem for each, problem in problems.items() if each not in there},
        frozenset(tainted - there.keys()),
    )


def _closed_by(node: Json) -> str:
    """The key of a taint that keeps the pods of the test from a node; empty without one."""
    taints = (node.get("spec") or {}).get("taints") or ()
    keeping = (each["key"] for each in taints if each.get("effect") in ("NoSchedule", "NoExecute"))
    return next((key for key in keeping if key != labels.VIRTUAL_NODE_TAINT), "")


def _address(node: Node) -> str:
    found = (each.address for each in node.status.addresses)
    return next((each for each in found if parse(each) is not None), "")
