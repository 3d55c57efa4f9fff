"""Collects the facts of a peer's network from memory, for the checks and viewers."""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import trio

from liqod.model.network.ranges import PeerRanges
from liqod.model.view.networkfacts import NetworkFacts, PodTrip
from liqod.network.dataplane.values import KernelChange
from liqod.network.gateway.connections import TunnelState
from liqod.network.gateway.tunnelendpoints import TunnelEndpoints
from liqod.network.probing.pathmetrics import FOUGHT, PathMetrics
from liqod.plugins.providers import TunnelProvider, TunnelStatus
from liqod.tunnel.probes.messages import ProbeResult

STANDING: Final = 0.0
"""Seconds since the last sign of life where the probes, which take 1.4 s to doubt, say there is."""


def facts(
    problem: str,
    ends: TunnelEndpoints,
    ranges: PeerRanges | None,
    waits: str,
    state: TunnelState,
    result: ProbeResult | None,
    silent: float | None,
) -> NetworkFacts:
    """Collects the facts of one peer's network from its objects and its probes.

    Args:
        problem: what this machine lacks.
        ends: both ends of the tunnel.
        ranges: of both clusters.
        waits: the objects awaited while there are none.
        state: the tunnel's state as last reported.
        result: the probes' last report; None while none go.
        silent: seconds since they last reported the other side alive; None: never.
    """
    gateway = ends.gateway
    if problem or gateway is None or ranges is None or ends.waits:
        waits = ends.waits or waits or "there is no gateway of this cluster's for it yet"
        return NetworkFacts(problem=problem, waits=waits)
    alive = result is not None and result.alive
    echo = STANDING if alive else silent
    # The other side's own probes come through also where the answers to ours do not.
    asked = (
        trio.current_time() - result.last_request
        if result is not None and result.last_request >= 0
        else None
    )
    signs = [each for each in (echo, asked) if each is not None]
    pairs = (
        *zip(ranges.peer.pod, ranges.seen.pod, strict=False),
        *zip(ranges.peer.external, ranges.seen.external, strict=False),
    )
    own = (*ranges.own.pod, *ranges.own.external)
    seen_as = result.hello.seen_as if result is not None else ()
    return NetworkFacts(
        own=tuple(f"{one} as {alias}" for one, alias in zip(own, seen_as, strict=False)),
        aliases=tuple(f"{theirs} as {alias}" for theirs, alias in pairs),
        backend=gateway.backend,
        side=gateway.side,
        candidates=gateway.endpoints,
        port=gateway.port,
        transport=gateway.transport,
        device=state.why if state.state == "Error" else "",
        heard=min(signs, default=None),
        echo=echo,
        rtt=result.latency if alive and result is not None else None,
        loss=result.lost if alive and result is not None else None,
        mtu=gateway.mtu,
    )


def measured(
    found: NetworkFacts, measures: PathMetrics, stuck: str, backend: TunnelProvider | None
) -> NetworkFacts:
    """Adds the measurements of an existing network to its facts.

    Args:
        found: by the objects and the probes; of a network that waits nothing is added.
        measures: of its path.
        stuck: the change of the data path that the kernel refuses; empty for none.
        backend: the maker of the tunnel.
    """
    if not found.backend:
        return found
    now, status = trio.current_time(), measures.status
    lately = measures.lately()
    fought = [
        KernelChange(f"{change.text}, {times} times in a minute", change.table)
        for change, times in lately.items()
        if times >= FOUGHT
    ]
    mended = [change for change, times in lately.items() if times < FOUGHT]
    arrived = now - measures.received_at if measures.received_at >= 0 else None
    heard = [each for each in (found.heard, arrived) if each is not None]
    device = "" if stuck else found.device or measures.broken
    if not device and status is None and measures.looked >= 0 and found.echo != STANDING:
        device = "its interface is not there"
    trip, pods = measures.trip, measures.pods
    return msgspec.structs.replace(
        found,
        device=device,
        encrypted=backend is None or backend.encrypted,
        transport=backend.transport if backend is not None else "UDP",
        path=status.path if status is not None else "",
        endpoint=status.endpoint if status is not None else "",
        underlay=measures.unreachable or _hindered(status, found),
        heard=min(heard, default=None),
        arrived=now - measures.arrived_at if measures.arrived_at >= 0 else None,
        received=status.received if status is not None else 0,
        sent=status.sent if status is not None else 0,
        handshake=status.handshake_age if status is not None else None,
        passes=measures.passes,
        missing=(*((stuck,) if stuck else ()), *_of(fought, table=False)),
        translation=_of(fought, table=True),
        mended=_of(mended, table=False),
        translated=_of(mended, table=True),
        spoofed=measures.dropped["spoofed"],
        strangers=measures.dropped["strangers"],
        flooded=measures.dropped["flooded"],
        guards=tuple(measures.guards or ()),
        pods=None
        if trip is None
        else PodTrip(
            ago=now - trip.at,
            took=trip.took or 0.0,
            error="" if trip.took is not None else "nothing came back",
            way=trip.way,
        ),
        untried=pods.why if pods.state == "untried" else "",
    )


def _hindered(status: TunnelStatus | None, found: NetworkFacts) -> str:
    """The tunnel's own report on what blocks it, while nothing comes through it."""
    return status.why if status is not None and found.echo != STANDING else ""


def relayed(found: NetworkFacts, whose: Callable[[str], str]) -> NetworkFacts:
    """The same, with the peer that passes packets on, where the other gateway is behind one.

    Args:
        found: the known facts.
        whose: the peer among whose aliases an address is; empty for nobody.
    """
    relay = whose(found.endpoint.rpartition(":")[0].strip("[]")) if found.endpoint else ""
    path = f"{found.path}, relayed by {relay}" if relay else found.path
    return msgspec.structs.replace(found, path=path)


def _of(changes: Iterable[KernelChange], *, table: bool) -> tuple[str, ...]:
    """The changes of tables of nftables, or the others, as text."""
    return tuple(change.text for change in changes if change.table == table)
