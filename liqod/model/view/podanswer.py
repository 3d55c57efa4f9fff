"""The answer about the nodes that would have a pod, and its text. Pure."""

import difflib
from collections.abc import Iterable
from typing import Any, Final

import msgspec
import yaml

from liqod.model.objects.nodefilters import NodeRefusal
from liqod.model.objects.replicagroups import ReplicaGroup, Replicas
from liqod.model.text import printable
from liqod.model.view.figures import counted

NODES: Final = 8
"""Nodes with the same answer that are named."""
HOME: Final = "home"
"""The title of this cluster's own nodes."""


class NodeAnswer(msgspec.Struct, frozen=True):
    """The answer of one node.

    Attributes:
        node: its name.
        peer: the id of the peer; empty for a node of this cluster.
        namespace: the name of the pod's namespace there; empty where there is none.
        runs: whether the pod is on it.
        refusals: the reasons against it; none where the pod would go there.
        policies: the OverridePolicies that change the pod on the way.
        differences: what they change: path, here, and there.
    """

    node: str
    peer: str
    namespace: str
    runs: bool
    refusals: tuple[NodeRefusal, ...]
    policies: tuple[str, ...] = ()
    differences: tuple[tuple[str, Any, Any], ...] = ()


class PodAnswer(msgspec.Struct, frozen=True):
    """The answers of all nodes about one pod.

    Attributes:
        kind, namespace, name: the object that was asked for.
        waits: why the scheduler does not look at the pod at all; empty where it does.
        nodes: by node, those of this cluster first.
        replicas: of a workload that is there; None for a pod, and for a manifest.
    """

    kind: str
    namespace: str
    name: str
    waits: str
    nodes: tuple[NodeAnswer, ...]
    replicas: Replicas | None = None


def goes(answer: PodAnswer) -> bool:
    """True if a node would have the pod."""
    return any(not each.refusals for each in answer.nodes)


def pod_lines(answer: PodAnswer) -> Iterable[str]:
    """The lines that show the answer."""
    yield printable(f"{answer.kind} {answer.namespace}/{answer.name}")
    if answer.waits:
        yield f"  the scheduler does not look at it: {printable(answer.waits)}"
    if answer.replicas is not None:
        yield from _of_replicas(answer.replicas, answer.namespace)
    if not answer.nodes:
        yield "  there are no nodes"
    for peer in dict.fromkeys(each.peer for each in answer.nodes):
        yield from _of_peer(peer, [each for each in answer.nodes if each.peer == peer])


def _of_replicas(found: Replicas, namespace: str) -> Iterable[str]:
    yield f"  {found.ready} of {counted(found.wanted, 'replica')} ready"
    for each in found.groups:
        yield f"    {_group(each, namespace)}"
    if found.unmade:
        why = printable(found.unmade_why) or "its controller does not say why"
        yield f"    {found.unmade} not made: {why}"
    if found.ended:
        yield f"    {found.ended} ended"


def _group(found: ReplicaGroup, namespace: str) -> str:
    if found.ready:
        return f"{found.count} at {printable(found.peer) or HOME}"
    why = printable(found.why)
    if found.placed:
        where = printable(found.peer) or HOME
        return f"{found.count} at {where}, not ready{why and f': {why}'}"
    command = f"liqod explain pod {printable(found.pod)} -n {printable(namespace)}"
    why = why or "no scheduler has looked at it yet"
    return f"{found.count} without a node: {why} → `{command}`"


def _of_peer(peer: str, nodes: list[NodeAnswer]) -> Iterable[str]:
    open_ = [each for each in nodes if not each.refusals]
    title = printable(peer) or HOME
    there = f", as {printable(nodes[0].namespace)}" if nodes[0].namespace else ""
    running = next((each.node for each in nodes if each.runs), "")
    if running:
        yield f"  {title}: it is on the node {printable(running)}{there}"
    elif open_:
        yield f"  {title}: yes, to {_named(open_)}{there}"
    else:
        yield f"  {title}: no"
    if open_:
        yield from _changes(open_[0])
    refusing: dict[tuple[str, ...], list[NodeAnswer]] = {}
    for each in nodes:
        if each.refusals:
            refusing.setdefault(tuple(one.message for one in each.refusals), []).append(each)
    for alike in refusing.values():
        yield f"    not to {_named(alike)}:"
        for one in alike[0].refusals:
            remedy = f" → {printable(one.remedy)}" if one.remedy else ""
            yield f"      {one.reason}: {printable(one.message)}{remedy}"


def _named(nodes: list[NodeAnswer]) -> str:
    names = ", ".join(printable(each.node) for each in nodes[:NODES])
    more = len(nodes) - NODES
    return f"{names} and {counted(more, 'more node')}" if more > 0 else names


def _changes(node: NodeAnswer) -> Iterable[str]:
    if not node.policies:
        return
    yield f"    changed there by the OverridePolicies {', '.join(map(printable, node.policies))}"
    for path, before, after in node.differences:
        here, there = (yaml.safe_dump(each).splitlines() for each in (before, after))
        yield f"      {printable(path)}"
        for line in list(difflib.unified_diff(here, there, lineterm="", n=0))[2:]:
            if not line.startswith("@@"):
                yield f"        {printable(line)}"
