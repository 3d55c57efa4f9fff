"""The verdict of a provider on a slice that is yet to be applied, as far as it is known here. Pure.

A provider grants its consumer no more than it approved in the handshake, which the OutgoingPeering
has. The amounts are divided by the function by which a provider that runs liqod divides them. Its
other bounds are known to itself alone.
"""

from typing import Final

from liqod.apimachinery.meta import Partial
from liqod.config import GuestSettings
from liqod.errors import ConfigError
from liqod.procedures.clusterobjects import ClusterObjects, is_own_slice
from liqod.provider.slices.allocation import SliceRequest, allocate
from liqod.provider.slices.granting import is_default
from liqod.resources import OUTGOING_PEERINGS, RESOURCE_SLICES, OutgoingPeering, ResourceSlice

NEW: Final = "9999"
"""Sorts after the time of every slice that is there already."""


def excess(objects: ClusterObjects, wanted: ResourceSlice, peer: str) -> str:
    """The reason why a provider would not grant all of a slice; empty where none is known.

    Args:
        objects: all objects as they would be.
        wanted: the slice, one of them.
        peer: the provider.
    """
    approved = _approved(objects, peer)
    if not approved or not is_default(wanted):
        return ""
    every = objects.store(RESOURCE_SLICES).values(ResourceSlice)
    requests = [
        SliceRequest(
            each.name,
            each.metadata.creation_timestamp or NEW,
            each.spec.resources if is_default(each) else None,
            each.status.resources or None,
        )
        for each in every
        if each.spec.provider_cluster_id == peer and is_own_slice(Partial(metadata=each.metadata))
    ]
    try:
        found = allocate(requests, GuestSettings(max_resources={}), approved)
    except ConfigError:
        return ""  # what the provider has written cannot be read
    return found[wanted.name].excess if wanted.name in found else ""


def _approved(objects: ClusterObjects, peer: str) -> dict[str, int | str]:
    """The amounts that a provider approved; none where that is not known for certain."""
    every = objects.store(OUTGOING_PEERINGS).values(OutgoingPeering)
    found = [
        each.status.granted
        for each in every
        if each.status.cluster_id == peer and each.status.phase == "Done" and not each.spec.lend
    ]
    return dict(found[0]) if len(found) == 1 else {}
