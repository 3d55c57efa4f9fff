"""The required affinity that keeps a guest's pod off the provider's own virtual nodes. Pure.

The provider puts it on every pod that it makes; a consumer that writes pods there itself does, and
the provider looks.
"""

from typing import Any, Final

from liqod.apimachinery import labels
from liqod.errors import Invalid

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_REAL_NODES: Final = {
    "key": labels.TYPE,
    "operator": "NotIn",
    "values": [labels.VIRTUAL_NODE_TYPE],
}


def on_real_nodes(spec: dict[str, Any]) -> dict[str, Any]:
    """The pod spec with a required affinity to nodes that are not virtual.

    Terms of a node selector are alternatives, so every one gets the requirement, once. Tolerations
    and node selectors of the consumer's cannot undo it.

    Raises:
        Invalid: the affinity is not made of objects and lists.
    """
    affinity = _object(spec, "affinity")
    node = _object(affinity, "nodeAffinity")
    required = _object(node, REQUIRED)
    terms = required.get("nodeSelectorTerms") or [{}]
    if not isinstance(terms, list) or not all(isinstance(term, dict) for term in terms):
        raise Invalid("nodeSelectorTerms is no list of objects")
    required["nodeSelectorTerms"] = [_on_real_node(term) for term in terms]
    node[REQUIRED] = required
    return {**spec, "affinity": {**affinity, "nodeAffinity": node}}


def _on_real_node(term: dict[str, Any]) -> dict[str, Any]:
    expressions = term.get("matchExpressions") or []
    if not isinstance(expressions, list):
        raise Invalid("matchExpressions is no list")
    if _REAL_NODES in expressions:
        return term
    return {**term, "matchExpressions": [*expressions, _REAL_NODES]}


def _object(parent: dict[str, Any], name: str) -> dict[str, Any]:
    """A copy of an object inside another, empty where there is none."""
    value = parent.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Invalid(f"{name} is no object")
    return dict(value)
