"""Explains where the numbers of a virtual node come from; changes nothing."""

from collections.abc import Mapping
from typing import Any

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES, PODS
from liqod.errors import ConfigError, NotFound
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model.crossing import guestrules
from liqod.model.objects import quantities
from liqod.model.objects.nodefilters import used_by
from liqod.model.peering import capacity
from liqod.model.view.roomrows import ToldRoom, told_room
from liqod.procedures import spreadwarning
from liqod.resources import RESOURCE_SLICES, VIRTUAL_NODES, ResourceSlice, VirtualNode


class ProviderWord(msgspec.Struct, frozen=True):
    """A verdict of the provider's on the slice, and when it gave it."""

    type: str
    status: str
    message: str
    since: str


class VirtualNodeAnswer(msgspec.Struct, frozen=True):
    """The numbers of a virtual node, in the order in which they follow from each other.

    Attributes:
        node, peer: the node's name, and the id of the provider.
        resources: the names of all resources.
        asked: by the ResourceSlice.
        granted: by the provider.
        quota: the capacity of the VirtualNode.
        allocatable: of the Node.
        used: the requests of the pods that are bound to it.
        machines: the largest machines of the provider, where it tells them.
        told: what the provider tells of free resources; None where it tells nothing.
        said: the provider's verdicts.
        warning: of a grant that exceeds what the provider has; empty for none.
        hurt: a warning of workloads here whose pods may wait because of the node; empty for none.
    """

    node: str
    peer: str
    resources: tuple[str, ...]
    asked: Mapping[str, str]
    granted: Mapping[str, str]
    quota: Mapping[str, str]
    allocatable: Mapping[str, str]
    used: Mapping[str, str]
    machines: tuple[Mapping[str, int | str], ...]
    told: ToldRoom | None
    said: tuple[ProviderWord, ...]
    warning: str
    hurt: str


async def explain_node(client: Client, name: str) -> VirtualNodeAnswer:
    """The answer about one virtual node.

    Raises:
        NotFound: there is none of that name.
        LiqodError: the cluster cannot be read.
    """
    virtual = await client.list(VIRTUAL_NODES, decode=VirtualNode)
    found = next((each for each in virtual if each.name == name), None)
    if found is None:
        known = ", ".join(sorted(each.name for each in virtual)) or "none"
        raise NotFound(f"there is no virtual node {name}; these are: {known}")
    slice_name = found.metadata.labels.get(labels.RESOURCE_SLICE_NAME, name)
    asked = await client.find(RESOURCE_SLICES, slice_name, found.namespace)
    wanted = ResourceSlice() if asked is None else msgspec.convert(asked, ResourceSlice)
    node: dict[str, Any] = await client.find(NODES, name) or {}
    pods = await client.list(PODS, Selection(fields=f"spec.nodeName={name}"))
    hurt = await spreadwarning.hurt(client, name)
    return msgspec.structs.replace(_answered(found, wanted, node, pods), hurt=hurt)


def _answered(
    virtual: VirtualNode, wanted: ResourceSlice, node: Mapping[str, Any], pods: list[dict[str, Any]]
) -> VirtualNodeAnswer:
    notes = wanted.metadata.annotations
    rules = guestrules.parse(notes.get(labels.GUEST_RULES))
    numbers = {
        "asked": _texts(wanted.spec.resources),
        "granted": _texts(wanted.status.resources),
        "quota": _texts(virtual.spec.resource_quota.hard),
        "allocatable": _texts((node.get("status") or {}).get("allocatable") or {}),
    }
    used = quantities.render_all(used_by(pods))
    shown = sorted({name for each in numbers.values() for name in each})
    return VirtualNodeAnswer(
        node=virtual.name,
        peer=virtual.spec.cluster_id,
        resources=tuple(shown),
        **numbers,
        used={each: used.get(each, "0") for each in shown},
        machines=rules.machines if rules is not None else (),
        told=told_room(virtual.metadata.annotations.get(labels.FREE_CAPACITY, "")),
        said=tuple(
            ProviderWord(each.type, each.status, each.message, each.last_transition_time)
            for each in wanted.status.conditions
        ),
        warning=capacity.overcommit_warning(notes, wanted.status.resources),
        hurt="",
    )


def _texts(found: Mapping[str, int | str]) -> dict[str, str]:
    """Quantities in their canonical form; nonsense as it is."""
    try:
        return quantities.render_all(quantities.parse_all(found))
    except ConfigError:
        return {name: str(each) for name, each in found.items()}
