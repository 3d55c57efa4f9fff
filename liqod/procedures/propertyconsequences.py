"""The consequences of other ClusterProperties: the ids of this cluster and of its set. Pure.

liqod reads neither of them. Programs that do would find the cluster under another id, or in another
set.
"""

from typing import Any, Final

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import Kind
from liqod.procedures.consequences import Consequence
from liqod.procedures.dryrun import PlannedObject
from liqod.resources.about import CLUSTER, CLUSTER_PROPERTIES, CLUSTER_SET

SHOWN: Final = 64
"""Characters of a value."""


def is_property(kind: Kind) -> bool:
    """True for ClusterProperties of any version."""
    return (kind.group, kind.name) == (CLUSTER_PROPERTIES.group, CLUSTER_PROPERTIES.name)


def property_consequences(planned: PlannedObject, here: str) -> list[Consequence]:
    """The consequences of a property before and after; none of one with another name.

    Args:
        planned: the property.
        here: this cluster's id.
    """
    if planned.name not in (CLUSTER, CLUSTER_SET) or planned.change in ("same", "refused"):
        return []
    before, after = _value(planned.before), _value(planned.after)
    if planned.after is None:
        what = "cluster's id" if planned.name == CLUSTER else "set"
        told = f"programs of the set find no {what} any more, which was {before[:SHOWN]!r}"
        return [Consequence("ends", here, told)]
    if before == after:
        return []
    whose = " that another program has written" if _is_others(planned) else ""
    told = f", and no more {before[:SHOWN]!r}{whose}" if planned.before is not None else ""
    if planned.name == CLUSTER:
        wrong = f": it is {here}" if after != here else ""
        told = f"programs of the set know this cluster as {after[:SHOWN]!r}{told}{wrong}"
    else:
        told = f"programs of the set find this cluster in the set {after[:SHOWN]!r}{told}"
    return [Consequence("begins" if planned.before is None else "changes", here, told)]


def _is_others(planned: PlannedObject) -> bool:
    found = (planned.before or {}).get("metadata", {}).get("labels") or {}
    return planned.before is not None and labels.MANAGED_BY_LIQOD not in found


def _value(found: dict[str, Any] | None) -> str:
    return str(((found or {}).get("spec") or {}).get("value", ""))
