"""States of the nodes' ways to the gateway, as each node reports its own. Pure.

A node writes when something turns and never at rest, so its word has no age. That it follows at all
is seen by the generations that it has applied.
"""

from collections.abc import Iterable, Mapping

from liqod.model.objects import conditions
from liqod.model.view.networkfacts import NodeWay
from liqod.resources.fabric import APPLIED, REACHABLE, InternalFabric, InternalNode

FOLLOWS = 0.0
"""Seconds since a node was last seen, where nothing speaks against it."""


def ways(
    fabric: InternalFabric | None,
    nodes: Iterable[InternalNode],
    refused: Mapping[str, str] | None = None,
) -> tuple[NodeWay, ...]:
    """The ways of all nodes but the gateway, by name; none where there is no overlay.

    Args:
        fabric: the InternalFabric.
        nodes: the InternalNodes.
        refused: why a Node is not among them, or a range of one is not, by its name.
    """
    if fabric is None or fabric.spec is None:
        return ()
    gateway = fabric.spec.gateway.node
    found = {each.name: _of(each, fabric) for each in nodes if each.name != gateway}
    for name, why in (refused or {}).items():
        if name != gateway and (name not in found or not found[name].problem):
            found[name] = NodeWay(name, told=FOLLOWS, problem=why)
    return tuple(found[name] for name in sorted(found))


def _of(node: InternalNode, fabric: InternalFabric) -> NodeWay:
    status = node.status
    applied = conditions.of_type(status.conditions, APPLIED)
    if applied is None:
        return NodeWay(node.name)
    problem = ""
    if applied.status != "True":
        problem = applied.message or applied.reason
    elif status.observed_generation < (
        node.metadata.generation or 0
    ) or status.fabric_generation < (fabric.metadata.generation or 0):
        problem = "it has not followed the last change: `liqod node` may not run there"
    else:
        reached = conditions.of_type(status.conditions, REACHABLE)
        if reached is not None and reached.status == "False":
            problem = reached.message or reached.reason
    return NodeWay(node.name, told=FOLLOWS, problem=problem)
