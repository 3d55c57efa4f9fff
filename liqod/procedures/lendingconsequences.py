"""The consequences of other settings of lending for what consumers have here. Pure.

Each slice is judged under both settings by the functions by which the daemon judges it.
"""

from collections.abc import Iterator, Mapping

from liqod.apimachinery.kinds import NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.cluster.tenancy import is_from, tenant_of
from liqod.config import Config
from liqod.model import ids
from liqod.procedures.clusterobjects import ClusterObjects
from liqod.procedures.consequences import Consequence
from liqod.provider.slices.allocation import SliceRequest, allocate, within_number
from liqod.provider.slices.granting import (
    NO_BOUNDS,
    SliceVerdict,
    is_default,
    judge,
    requested_resources,
)
from liqod.provider.slices.lentslices import approved_in
from liqod.resources import QUOTAS, RESOURCE_SLICES, TENANTS, Quota, ResourceSlice, Tenant

Resources = Mapping[str, int | str]


def lending_consequences(
    objects: ClusterObjects, before: Config, after: Config
) -> Iterator[Consequence]:
    """The slices of each consumer that would grow, shrink or end.

    Args:
        objects: all objects of the cluster.
        before, after: the settings.
    """
    terms = [(each.provider, each.guests) for each in (before, after)]
    if terms[0] == terms[1]:
        return
    places = {
        tenant_of(each): each.metadata.name for each in objects.store(NAMESPACES).values(Partial)
    }
    for peer in sorted(filter(None, places)):
        slices = _slices(objects, places[peer], peer)
        had, has = (_verdicts(objects, peer, slices, each) for each in (before, after))
        for each in slices:
            yield from _compared(peer, each.name, had[each.name], has[each.name])


def _slices(objects: ClusterObjects, namespace: str, peer: str) -> list[ResourceSlice]:
    """The slices that a consumer has sent."""
    every = objects.store(RESOURCE_SLICES).values(ResourceSlice)
    found = [each for each in every if each.namespace == namespace and not each.leaving]
    return [each for each in found if is_from(each.metadata.labels, peer)]


def _verdicts(
    objects: ClusterObjects, peer: str, slices: list[ResourceSlice], config: Config
) -> dict[str, SliceVerdict]:
    """The verdicts on a consumer's slices under some settings, by name."""
    requests, found = [], {}
    for each in slices:
        user = ids.slice_user(each.name, peer)
        quota = objects.get(QUOTAS, (each.namespace, user), Quota)
        asked = requested_resources(each, config.provider) if is_default(each) else None
        granted = dict(quota.spec.resources) if quota is not None else None
        since = each.metadata.creation_timestamp or ""
        requests.append(SliceRequest(each.name, since, asked, granted))
    served = {each.name for each in requests if each.granted is not None}
    few = within_number(requests, config.guests)
    most = f"one consumer may have {config.guests.max_slices} slices"
    place = slices[0].namespace if slices else ""
    approved = approved_in(objects.store(NAMESPACES).get(("", place)))
    shares = allocate(requests, config.guests, approved)
    tenant = objects.get(TENANTS, (place, peer), Tenant)
    for each in slices:
        found[each.name] = judge(
            each,
            tenant,
            None if each.name in few else most,
            config.provider,
            served=each.name in served,
            allocation=shares.get(each.name, NO_BOUNDS),
        )
    return found


def _compared(
    peer: str, name: str, was: SliceVerdict, verdict: SliceVerdict
) -> Iterator[Consequence]:
    had, has = _granted(was), _granted(verdict)
    why = verdict.refusal or verdict.denial or verdict.short
    if had == has:
        return
    if not has:
        yield Consequence("ends", peer, f"all that it has by its slice {name}: {why}")
    elif not had:
        yield Consequence("begins", peer, f"its slice {name} is granted {_shown(has, has)}")
    else:
        changed = {key: "" for key in (*had, *has) if had.get(key) != has.get(key)}
        told = f"its slice {name} has {_shown(has, changed)} instead of {_shown(had, changed)}"
        yield Consequence("changes", peer, told)


def _granted(verdict: SliceVerdict) -> Resources:
    """The quantities of a verdict; none where it is refused, or a class of its own decides."""
    return {} if verdict.refusal else verdict.granted or {}


def _shown(amounts: Resources, named: Resources) -> str:
    """Amounts of some resources in words."""
    return ", ".join(f"{name} {amounts.get(name, 0)}" for name in sorted(named))
