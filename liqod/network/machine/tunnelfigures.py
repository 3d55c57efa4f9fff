"""The figures of a peer's network, as they are sent to the daemon."""

from collections.abc import Iterable
from math import inf
from typing import Final

import trio

from liqod.model.network.pathfigures import TransitFacts
from liqod.network.dataplane.values import KernelChange
from liqod.network.machine.tunnelcontrol import TunnelControl
from liqod.network.orders.tunnels import PodsTrip, TunnelFigures
from liqod.network.probing.pathmetrics import FOUGHT, PathMetrics
from liqod.plugins.providers import TunnelProvider

STANDING: Final = 0.0
"""Seconds since the last sign of life where the probes, which take 1.4 s to doubt, say there is."""


def figures(
    control: TunnelControl, measures: PathMetrics, stuck: str, backend: TunnelProvider | None
) -> TunnelFigures:
    """The figures as they are now.

    Args:
        control: has the verdicts of the probes, and the tunnel's state.
        measures: of its path.
        stuck: the change of the data path that the kernel refuses; empty for none.
        backend: the maker of the tunnel.
    """
    now, status, result = trio.current_time(), measures.status, control.last
    alive = result is not None and result.alive
    echo = STANDING if alive else control.silent(now)
    # The other side's own probes come through also where the answers to ours do not.
    signs = (
        echo,
        _ago(now, result.last_request) if result is not None else None,
        _ago(now, measures.received_at),
    )
    lately = measures.lately()
    fought = [
        KernelChange(f"{change.text}, {times} times in a minute", change.table)
        for change, times in lately.items()
        if times >= FOUGHT
    ]
    mended = [change for change, times in lately.items() if times < FOUGHT]
    return TunnelFigures(
        alive=alive,
        seen_as=result.hello.seen_as if result is not None else (),
        encrypted=backend is None or backend.encrypted,
        transport=backend.transport if backend is not None else "UDP",
        path=status.path if status is not None else "",
        endpoint=status.endpoint if status is not None else "",
        device=_device(control, measures, stuck, alive=alive),
        underlay=measures.unreachable or (status.why if status is not None and not alive else ""),
        heard=min((each for each in signs if each is not None), default=None),
        arrived=_ago(now, measures.arrived_at),
        received=status.received if status is not None else 0,
        sent=status.sent if status is not None else 0,
        handshake=status.handshake_age if status is not None else None,
        echo=echo,
        rtt=result.latency if alive and result is not None else None,
        loss=result.lost if alive and result is not None else None,
        passes=measures.passes,
        missing=(*((stuck,) if stuck else ()), *_of(fought, table=False)),
        translation=_of(fought, table=True),
        mended=_of(mended, table=False),
        translated=_of(mended, table=True),
        spoofed=measures.dropped["spoofed"],
        strangers=measures.dropped["strangers"],
        flooded=measures.dropped["flooded"],
        guards=tuple(measures.guards or ()),
        trip=_trip(measures, now),
        untried=measures.pods.why if measures.pods.state == "untried" else "",
        transit=tuple(
            TransitFacts(
                owner,
                packets=measures.passed[owner, "packets"],
                bytes=measures.passed[owner, "bytes"],
            )
            for owner in sorted({owner for owner, _ in measures.passed})
        ),
    )


def _device(control: TunnelControl, measures: PathMetrics, stuck: str, *, alive: bool) -> str:
    """The reason why there is no tunnel on this machine; empty where there is one."""
    if stuck:
        return ""
    failure = control.state.why if control.state.state == "Error" else ""
    if device := failure or measures.broken:
        return device
    if measures.status is None and measures.looked > -inf and not alive:
        return "its interface is not there"
    return ""


def _trip(measures: PathMetrics, now: float) -> PodsTrip | None:
    trip = measures.trip
    return None if trip is None else PodsTrip(now - trip.at, trip.way, trip.took)


def _ago(now: float, then: float) -> float | None:
    return now - then if then > -inf else None


def _of(changes: Iterable[KernelChange], *, table: bool) -> tuple[str, ...]:
    """The changes of tables of nftables, or the others, as text."""
    return tuple(change.text for change in changes if change.table == table)
