"""What a running daemon adds to ``liqod status``: figures that no custom resource holds.

Where the custom resources cannot be read, it is also asked for what it knows of them.
"""

from pathlib import Path

import msgspec

from liqod.cli import common, inspector
from liqod.errors import LiqodError
from liqod.model.detail import Detail, SliceRow, WaitingPod
from liqod.model.overview import Overview, PeerRow, Problem, of_peer
from liqod.model.rows import Pulse
from liqod.model.state import State
from liqod.model.worst import condition, worst


class LivePeer(msgspec.Struct, frozen=True):
    """One peer as it is now; see :class:`liqod.model.rows.Pulse`.

    Attributes:
        condition: how it is, in a word.
        silence: seconds since something last came back.
        rtt: seconds of the newest round trip.
        loss: part of the probes that were lost.
        lag: seconds from a change here to its write there.
        backlog: changes that wait.
        layer: the first layer that fails.
        verdict: by what evidence.
    """

    condition: str
    silence: float | None
    rtt: float | None
    loss: float | None
    lag: float | None
    backlog: int
    layer: str
    verdict: str


class Live(msgspec.Struct, frozen=True):
    """The one worst problem in a sentence, and the peers by id."""

    sentence: str
    peers: dict[str, LivePeer]


class Seen(msgspec.Struct, frozen=True):
    """What a daemon told of itself: whose it is, its clock, and its state."""

    cluster_id: str
    at: float
    state: State


async def see(path: Path | None, cluster_id: str) -> Seen:
    """What the daemon of that cluster says.

    Raises:
        NoDaemon: none answers on this machine.
        ConfigError: several run here, and nothing says which is meant.
        LiqodError: it does not say it.
    """
    async with inspector.connect(path, cluster_id) as looker:
        first, state = await looker.snapshot()
        return Seen(looker.hello.cluster_id, first.at, state)


async def instead(path: Path | None, cluster_id: str, error: LiqodError) -> Seen:
    """What the daemon says where the API server fails with that error.

    Raises:
        LiqodError: that error, if no daemon can be asked; it says why where one should.
    """
    try:
        return await see(path, cluster_id)
    except LiqodError as other:
        if path is None and isinstance(other, inspector.NoDaemon):
            raise error from None
        text = f"{common.sentence(error)}; nor can the daemon be asked: {other}"
        raise LiqodError(text) from error


async def look(path: Path | None, cluster_id: str) -> Live | None:
    """The figures of that daemon, None where none answers on this machine.

    Raises:
        LiqodError: the socket was named and does not answer.
    """
    try:
        return figures(await see(path, cluster_id))
    except LiqodError:
        if path is not None:
            raise
        return None


def figures(seen: Seen) -> Live:
    """The figures of each peer."""
    peers = {}
    for name, peer in seen.state.peers.items():
        pulse = seen.state.pulses.get(name) or Pulse()
        peers[name] = LivePeer(
            condition=condition(peer, pulse, seen.at),
            silence=None if pulse.heard is None else round(max(seen.at - pulse.heard, 0.0), 1),
            rtt=pulse.rtt,
            loss=pulse.loss,
            lag=pulse.lag,
            backlog=pulse.backlog,
            layer=peer.layer,
            verdict=peer.verdict,
        )
    return Live(worst(seen.state, seen.at).text, peers)


def remembered(seen: Seen, only: str, error: LiqodError) -> Overview:
    """What the daemon knows by itself of what the custom resources would say.

    Args:
        seen: what it said.
        only: of that peer only; empty for all.
        error: why the custom resources cannot be read.
    """
    state = seen.state
    what = f"the custom resources cannot be read: {error}"
    problem = Problem(0, "", what, "see that this cluster's API server runs")
    view = Overview(
        seen.cluster_id,
        f"running, {state.daemon.state}",
        state.daemon.webhook or "not proved yet",
        tuple(
            msgspec.convert(row, PeerRow, from_attributes=True)
            for _, row in sorted(state.peers.items())
        ),
        tuple(row for _, row in sorted(state.nodes.items())),
        tuple(row for _, row in sorted(state.namespaces.items())),
        (problem, *state.problems),
        _detail(state, only),
        "daemon",
    )
    return of_peer(view, only) if only else view


def _detail(state: State, name: str) -> Detail | None:
    """All but the certificates one by one."""
    peer = state.peers.get(name)
    if peer is None:
        return None
    slices = (
        msgspec.convert(row, SliceRow, from_attributes=True)
        for row in state.slices.values()
        if row.peer == name
    )
    return Detail(
        peer.server,
        peer.tenant_namespace,
        peer.conditions,
        tuple(sorted(slices, key=lambda row: (row.direction, row.name))),
        {},
        tuple(
            WaitingPod(pod.namespace, pod.name, pod.node, pod.phase, pod.reason)
            for _, pod in sorted(state.pods.items())
            if pod.peer == name and not pod.ready and pod.phase != "Succeeded"
        ),
    )
