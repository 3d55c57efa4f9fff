"""Bounds the resources of all slices of one consumer, and divides them among these. Pure."""

from collections.abc import Iterable, Mapping

import msgspec

from liqod.config import GuestSettings
from liqod.errors import ConfigError
from liqod.model.objects import quantities
from liqod.model.objects.quantities import Amounts
from liqod.provider.policies.podrestrictions import remedy

Resources = Mapping[str, int | str]


class SliceRequest(msgspec.Struct, frozen=True):
    """A slice as it is counted.

    Attributes:
        since: its creation, RFC 3339.
        resources: the requested resources, by name; None where no default class decides about it.
        granted: its former grant, by any class; None without one.
    """

    name: str
    since: str
    resources: Resources | None
    granted: Resources | None = None


class Allocation(msgspec.Struct, frozen=True):
    """The decision about one slice under the bounds.

    Attributes:
        excess: the reason that it may not have all that it requests; empty if it may.
        kept: the amounts left to it where its request is denied; None where there are none.
    """

    excess: str = ""
    kept: dict[str, int | str] | None = None


def within_number(requests: Iterable[SliceRequest], guests: GuestSettings) -> frozenset[str]:
    """The oldest slices, as many as one consumer may have."""
    return frozenset(each.name for each in _by_age(requests)[: guests.max_slices])


def allocate(
    requests: Iterable[SliceRequest], guests: GuestSettings, approved: Resources | None = None
) -> dict[str, Allocation]:
    """The shares of the slices of the default class, by name.

    Args:
        requests: the consumer's slices.
        guests: the bounds for every consumer.
        approved: this one's grant by the handshake, beside that; a resource that it does
            not name is not granted. None for no bound.

    Former grants are kept before anything grows, and a growth is denied for itself, resource by
    resource. Older slices come first; one that does not fit takes nothing from the next. Grants of
    slices of other classes are decided elsewhere, and leave that much less to grow.
    """
    requests = _by_age(requests)
    ordered = [each for each in requests if each.resources is not None]
    bounds = _bounds(ordered, guests, approved)
    floors: dict[str, Amounts] = {}
    used: Amounts = dict.fromkeys(bounds, 0)
    for request in ordered:
        floor = _floor(request, bounds)
        if floor is not None and not quantities.over(quantities.total([used, floor]), bounds):
            floors[request.name] = floor
            used = quantities.total([used, floor])
    elsewhere = [_amounts(each.granted, bounds) for each in requests if each.resources is None]
    used = quantities.total([used, *filter(None, elsewhere)])
    found: dict[str, Allocation] = {}
    for request in ordered:
        floor = floors.get(request.name)
        asked = _amounts(request.resources, bounds)
        growth = {name: n - (floor or {}).get(name, 0) for name, n in (asked or {}).items()}
        beyond = quantities.over(quantities.total([used, growth]), bounds) if asked else []
        beyond = [name for name in beyond if growth[name] > 0]
        found[request.name] = _allocation(
            request, beyond, bounds, approved, stays=floor is not None
        )
        if asked is not None and (floor is not None or not beyond):
            fits = {name: n for name, n in growth.items() if name not in beyond}
            used = quantities.total([used, fits])
    return found


def without_growth(request: SliceRequest | None, allocation: Allocation, why: str) -> Allocation:
    """The share of a slice while nothing new is lent: it may shrink, and may not grow.

    Args:
        request: the slice; None where it is not counted.
        allocation: its share under the bounds.
        why: the reason that nothing new is lent.
    """
    if request is None or request.granted is None or request.resources is None:
        return allocation
    asked, had = (
        _amounts(request.resources, request.resources),
        _amounts(request.granted, request.granted),
    )
    if asked is None or had is None:
        return allocation  # an invalid amount is refused by itself
    more = sorted(name for name, n in asked.items() if n > had.get(name, 0))
    if not more:
        return allocation
    names = ", ".join(f"{name} {request.resources[name]}" for name in more)
    given = {name: n for name, n in request.resources.items() if name not in more}
    kept = given | {name: request.granted[name] for name in more if name in request.granted}
    return Allocation(f"{names} is asked for: {why}", kept)


def _bounds(
    requests: list[SliceRequest], guests: GuestSettings, approved: Resources | None
) -> Amounts:
    """The bound of each resource that has one."""
    bounds = quantities.parse_all(guests.max_resources)
    if approved is None:
        return bounds
    most = quantities.parse_all(approved)
    named = {name for request in requests for name in request.resources or ()}
    return {
        name: min(most.get(name, 0), bounds.get(name, most.get(name, 0)))
        for name in (*bounds, *most, *sorted(named))
    }


def _allocation(
    request: SliceRequest,
    beyond: list[str],
    bounds: Amounts,
    approved: Resources | None,
    *,
    stays: bool,
) -> Allocation:
    """The share of a slice that requests too much of some resources."""
    had = dict(request.granted or {}) if stays else None
    if not beyond:
        return Allocation(kept=had)
    shown = quantities.render_all({name: bounds[name] for name in beyond})
    most = ", ".join(f"{name} {shown[name]}" for name in beyond)
    # The request is in it, so that the same answer to another request is seen to be new.
    asked = ", ".join(f"{name} {(request.resources or {}).get(name)}" for name in beyond)
    excess = f"one consumer may have {most} in all its slices, and {asked} is asked for: "
    if approved is not None and _is_approved(beyond, bounds, approved):
        excess += "no more was approved for this one; its operator asks anew with `liqod peer`"
    else:
        excess += remedy("max_resources")
    if had is None:
        return Allocation(excess)
    given = {name: n for name, n in (request.resources or {}).items() if name not in beyond}
    return Allocation(excess, given | {name: had[name] for name in beyond if name in had})


def _is_approved(beyond: list[str], bounds: Amounts, approved: Resources) -> bool:
    """True if the handshake's grant is the bound that is exceeded."""
    most = quantities.parse_all(approved)
    return any(bounds[name] == most.get(name, 0) for name in beyond)


def _floor(request: SliceRequest, bounds: Amounts) -> Amounts | None:
    """The amounts that a slice has and still requests; None where nothing was granted."""
    had, asked = _amounts(request.granted, bounds), _amounts(request.resources, bounds)
    if had is None or asked is None:
        return had  # an invalid request lowers nothing
    return {name: min(n, asked.get(name, 0)) for name, n in had.items()}


def _amounts(resources: Resources | None, bounds: Iterable[str]) -> Amounts | None:
    """Billionths of bounded resources; None without any, or for an invalid amount."""
    if resources is None:
        return None
    try:
        found = quantities.parse_all({n: resources[n] for n in bounds if n in resources})
    except ConfigError:
        return None
    return {name: max(amount, 0) for name, amount in found.items()}


def _by_age(requests: Iterable[SliceRequest]) -> list[SliceRequest]:
    return sorted(requests, key=lambda request: (request.since, request.name))
