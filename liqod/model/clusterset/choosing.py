"""The endpoints of an import that clients in this cluster use, as its Service asks. Pure.

kube-proxy gives each ready endpoint as many connections as any other, and it keeps to zone hints
only while every ready endpoint has one and one of them is for the node's zone. So the own cluster's
come first where they are hinted for all zones of its nodes, and those of others for a zone that no
node is in: when the last own one is not ready, every other one is used, without another write. A
share is made by the number of endpoints that are published.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.model.clusterset.exports import CLOSE, FAMILIES, HEADLESS, Endpoint, Export
from liqod.model.crossing.preference import (
    ALL,
    ELSEWHERE,
    MOST_HINTS,
    NO_ZONE,
    OWN_ONLY,
    Preference,
    lot,
    quotas,
)
from liqod.model.view.figures import counted

Json = dict[str, Any]

PREFERENCE: Final = "liqod.io/EndpointPreference"
"""Condition of a ServiceImport."""
INVALID: Final = "InvalidPreference"
ALONE: Final = "OwnOnly"
SHARES: Final = "Shares"
NOT_EXPORTED: Final = "NotExported"
TOO_MANY_ZONES: Final = "TooManyZones"
NO_ADDRESS: Final = "Headless"
CHOSEN_BY_CLIENTS: Final = "clients of a headless Service choose an endpoint themselves"
TOO_FEW: Final = "TooFewEndpoints"
LEAVES_OUT: Final = (ALONE, SHARES, TOO_FEW)
"""Reasons by which endpoints are not published that are ready."""
EXACT: Final = 5.0
"""Percentage points by which a share may miss what is asked."""
_REST: Final = ""


class Nodes(msgspec.Struct, frozen=True):
    """The nodes of this cluster, as far as endpoints are chosen by them.

    Attributes:
        zones: of its real nodes.
        without: the number of real nodes without a zone.
        virtual: the peer of each virtual node, by name.
    """

    zones: frozenset[str] = frozenset()
    without: int = 0
    virtual: dict[str, str] = {}


class Verdict(msgspec.Struct, frozen=True):
    """The outcome of a wish: true if it is fulfilled, the reason, and a sentence."""

    fulfilled: bool
    reason: str
    message: str

    def condition(self) -> Json:
        """The condition of the ServiceImport, without its time."""
        said = {"status": "True" if self.fulfilled else "False", "reason": self.reason}
        return {"type": PREFERENCE, **said, "message": self.message}


class Choice(msgspec.Struct, frozen=True):
    """The endpoints to publish in this cluster.

    Attributes:
        exports: with the endpoints that are published.
        alone: no other cluster's endpoints are published.
        verdict: None where nothing is asked.
        own: this cluster's id.
        nodes: its nodes.
        near: endpoints are hinted so that the own ones come first.
        bare: zones without a ready endpoint of this cluster; None where all zones count as one.
    """

    exports: tuple[Export, ...]
    own: str
    nodes: Nodes
    alone: bool = False
    verdict: Verdict | None = None
    near: bool = False
    bare: frozenset[str] | None = None

    def hinted(self, export: Export, endpoint: Endpoint) -> tuple[str, ...] | None:
        """The zones that an endpoint is hinted for; None where its Service alone decides."""
        if not self.near:
            return None
        if _place(export, endpoint, self.nodes) != self.own:
            return (ELSEWHERE,)
        zones = self.nodes.zones
        some = zones if self.bare is None else (zones & {endpoint.zone}) | self.bare
        return tuple(sorted(some or zones))


def choose(
    asked: Preference,
    exports: Sequence[Export],
    reached: Collection[str],
    own: str,
    nodes: Nodes,
) -> Choice:
    """The endpoints of an import to publish.

    Args:
        asked: the wish of the Service.
        exports: of all clusters; the one that wins comes first.
        reached: the clusters that anything gets through to.
        own: this cluster's id.
        nodes: of this cluster.
    """
    every = Choice(tuple(exports), own, nodes)
    if not asked.asked or not exports:
        return every
    if asked.problem:
        return _unchosen(every, INVALID, f"the annotation is not followed: {asked.problem}")
    if asked.order == OWN_ONLY:
        return _own_only(every)
    if exports[0].type == HEADLESS:
        return _unchosen(every, NO_ADDRESS, CHOSEN_BY_CLIENTS)
    return _by_share(every, asked.shares, reached) if asked.shares else _own_first(every)


def _own_only(every: Choice) -> Choice:
    kept = tuple(
        _keep(
            each, (one for one in _endpoints(each) if _place(each, one, every.nodes) == every.own)
        )
        for each in every.exports
        if each.cluster == every.own
    )
    message = "endpoints of this cluster alone are used"
    if not kept:
        message = f"{_exports_not(every.own)}: no endpoint is used"
    verdict = Verdict(bool(kept), ALONE, message)
    return msgspec.structs.replace(every, exports=kept, alone=True, verdict=verdict)


def _own_first(every: Choice) -> Choice:
    nodes, oldest = every.nodes, every.exports[0]
    mine = next((each for each in every.exports if each.cluster == every.own), None)
    if mine is None:
        return _unchosen(every, NOT_EXPORTED, _exports_not(every.own))
    if len(nodes.zones) > MOST_HINTS:
        said = f"the nodes are in {len(nodes.zones)} zones, and an endpoint has {MOST_HINTS} hints"
        return _unchosen(every, TOO_MANY_ZONES, f"{said}: the endpoints of all clusters are used")
    message = "endpoints of this cluster are used while one is ready, and then those of all others"
    verdict = Verdict(True, "OwnFirst", message)
    if nodes.without or not nodes.zones:
        some = counted(nodes.without, "node") if nodes.zones else "all nodes are"
        said = f"{some} without the label {labels.ZONE}"
        verdict = Verdict(
            False, NO_ZONE, f"{said}: clients there use the endpoints of all clusters"
        )
    bare: frozenset[str] | None = None
    if oldest.traffic_distribution in CLOSE:
        here = [each for each in _endpoints(mine) if _place(mine, each, nodes) == every.own]
        bare = nodes.zones - {each.zone for each in here if each.ready}
    near = bool(nodes.zones)
    return msgspec.structs.replace(every, near=near, bare=bare, verdict=verdict)


def _unchosen(every: Choice, reason: str, message: str) -> Choice:
    return msgspec.structs.replace(every, verdict=Verdict(False, reason, message))


def _exports_not(own: str) -> str:
    return f"{own} does not export this Service, and has no endpoints of its own"


def _by_share(every: Choice, shares: Mapping[str, int], reached: Collection[str]) -> Choice:
    """Publish so many ready endpoints of each cluster as make its share, in each family."""
    wanted = {**shares, _REST: ALL - sum(shares.values())}
    kept: set[str] = set()
    ready_all: dict[str, int] = dict.fromkeys(wanted, 0)
    used: dict[str, int] = dict.fromkeys(wanted, 0)
    for family in FAMILIES:
        groups: dict[str, set[str]] = {each: set() for each in wanted}
        for place, address in _ready(every, family, reached):
            groups[place if place in shares else _REST].add(address)
        numbers = quotas(wanted, {each: len(found) for each, found in groups.items()})
        for each, found in groups.items():
            kept.update(sorted(found, key=lot)[: numbers[each]])
            ready_all[each] += len(found)
            used[each] += min(numbers[each], len(found))
    chosen = tuple(
        _keep(
            each,
            [
                one
                for one in _endpoints(each)
                if not one.ready or each.cluster not in reached or one.addresses[0] in kept
            ],
        )
        for each in every.exports
    )
    verdict = _share_verdict(shares, wanted, ready_all, used)
    return msgspec.structs.replace(every, exports=chosen, verdict=verdict)


def _share_verdict(
    shares: Mapping[str, int],
    wanted: Mapping[str, int],
    ready: Mapping[str, int],
    used: Mapping[str, int],
) -> Verdict:
    total = sum(used.values())
    got = {each: ALL * used[each] / total if total else 0.0 for each in wanted}
    off = sorted(each for each in shares if abs(got[each] - shares[each]) > EXACT)
    if not off:
        said = ", ".join(f"{each} {shares[each]} %" for each in sorted(shares))
        return Verdict(True, SHARES, f"connections are shared by endpoints: {said}")
    said = ", ".join(
        f"{each} gets {got[each]:.0f} % in place of {shares[each]} %, "
        f"by {used[each]} of its {ready[each]} ready endpoints"
        for each in off
    )
    why = "each endpoint gets as much as any other, so more endpoints come nearer"
    return Verdict(False, TOO_FEW, f"{said}: {why}")


def _ready(every: Choice, family: str, reached: Collection[str]) -> Iterator[tuple[str, str]]:
    for export in every.exports:
        for found in export.slices:
            if found.family == family and export.cluster in reached:
                for one in found.endpoints:
                    if one.ready:
                        yield _place(export, one, every.nodes), one.addresses[0]


def _endpoints(export: Export) -> Iterator[Endpoint]:
    for each in export.slices:
        yield from each.endpoints


def _place(export: Export, endpoint: Endpoint, nodes: Nodes) -> str:
    """The cluster that an endpoint is in: that of its virtual node, else the exporter."""
    return nodes.virtual.get(endpoint.node, export.cluster) if endpoint.node else export.cluster


def _keep(export: Export, endpoints: Iterable[Endpoint]) -> Export:
    kept = set(endpoints)
    slices = tuple(
        msgspec.structs.replace(each, endpoints=tuple(one for one in each.endpoints if one in kept))
        for each in export.slices
    )
    return msgspec.structs.replace(export, slices=slices)
