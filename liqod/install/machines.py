"""The nodes of a cluster by the machines that an image is for, before pods are made of it.

Pods of an installation keep to these machines by their affinity: on another one they would fail for
ever. Decisions are functions of values; :func:`look` asks the API server for these.
"""

import platform
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES
from liqod.apimachinery.meta import ObjectMeta
from liqod.errors import Forbidden
from liqod.install.manifests import Options
from liqod.install.workload import ARCHITECTURES
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.resources.nodes import Taint

REAL: Final = Selection(labels=f"{labels.TYPE}!={labels.VIRTUAL_NODE_TYPE}")
"""Selects the nodes that are no virtual ones."""
UNKNOWN: Final = "unknown"
"""The architecture of a node without the label."""
NOT_LOOKED_AT: Final = (
    "nodes may not be listed by this user, so nobody has looked whether the image is for them"
)
SHOWN: Final = 5
"""Nodes that are named of each architecture."""
_PASSING: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Beginnings of the keys of taints that come and go by themselves, or with ``kubectl cordon``."""
_DENYING: Final = ("NoSchedule", "NoExecute")
_NAMES: Final[Mapping[str, str]] = {"x86_64": "amd64", "aarch64": "arm64"}
"""Kubernetes' names of machines, by those that they have of themselves."""


class _NodeSpec(msgspec.Struct, frozen=True):
    taints: tuple[Taint, ...] = ()


class _Node(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: _NodeSpec = _NodeSpec()


class Machine(msgspec.Struct, frozen=True):
    """A node by what decides whether a pod of an installation runs on it.

    Attributes:
        name: of the Node.
        architecture: by its label; ``unknown`` without one.
        is_barred: true if a lasting taint keeps the daemon off; ``liqod node`` tolerates all.
    """

    name: str
    architecture: str
    is_barred: bool = False


async def look(client: Client) -> list[Machine] | None:
    """The nodes of a cluster, but virtual ones; None where they may not be listed."""
    try:
        found = await client.list(NODES, REAL, decode=_Node)
    except Forbidden:
        return None
    return [
        Machine(
            each.metadata.name,
            each.metadata.labels.get(labels.ARCH, UNKNOWN),
            any(map(_lasts, each.spec.taints)),
        )
        for each in found
    ]


def _lasts(taint: Taint) -> bool:
    return taint.effect in _DENYING and not taint.key.startswith(_PASSING)


def problem(found: Iterable[Machine], options: Options) -> tuple[str, str] | None:
    """The problem of an image that is for no node that the daemon may be on, and its remedy; None
    where it is for one, and where there are no nodes yet.

    Args:
        found: the nodes.
        options: the operator's.
    """
    wanted = options.architectures or ARCHITECTURES
    there = [each for each in found if not each.is_barred]
    if not there or any(each.architecture in wanted for each in there):
        return None
    said = (
        f"the image is for {_either(wanted)}, and no node that the daemon may be on is "
        f"({_by_architecture(there)})"
    )
    made = [each for each in ARCHITECTURES if any(each == one.architecture for one in there)]
    if made:
        return said, f"have it made for {made[0]}, too, and say so with --architecture {made[0]}"
    return said, f"add a node that is {_either(wanted)}, or run the daemon outside the cluster"


def told(found: list[Machine] | None, options: Options) -> list[str]:
    """Sentences for an operator on the nodes, before pods are made.

    Args:
        found: as :func:`look` returns them.
        options: the operator's.
    """
    if found is None:
        return [NOT_LOOKED_AT]
    if problem(found, options) is not None:
        return []  # which is refused
    lost = _left_out(found, options.architectures or ARCHITECTURES) if options.network else ""
    unsaid = "" if options.architectures else _to_be_for(found)
    return [each for each in (lost, unsaid) if each]


def _left_out(found: Iterable[Machine], wanted: Collection[str]) -> str:
    """The nodes without ``liqod node``, since the image is not for them; empty for none."""
    others = [each for each in found if each.architecture not in wanted]
    if not others:
        return ""
    return (
        f"the image is for {_either(wanted)}: these nodes get no liqod node, and their pods reach "
        f"no pod of a peer: {_by_architecture(others)}"
    )


def _to_be_for(found: Iterable[Machine]) -> str:
    """A sentence on the machines that the image has to be for, where none were named; empty where
    all nodes are such as this machine, for which an image is made if none is named."""
    there = sorted({each.architecture for each in found} & set(ARCHITECTURES))
    if not there or there == [_NAMES.get(platform.machine(), "")]:
        return ""
    need = "both" if there[1:] else "that"
    return (
        f"nodes are {' and '.join(there)}, and the image has to be for {need}: --architecture says "
        "what it is for"
    )


def _either(wanted: Iterable[str]) -> str:
    return " or ".join(sorted(wanted))


def _by_architecture(found: Iterable[Machine]) -> str:
    """Such as ``arm64: a, b; s390x: c``."""
    names: dict[str, list[str]] = {}
    for each in found:
        names.setdefault(each.architecture, []).append(each.name)
    return "; ".join(f"{key}: {_some(sorted(names[key]))}" for key in sorted(names))


def _some(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
