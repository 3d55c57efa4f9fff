"""Data of a running daemon for ``liqod status``: figures that no custom resource holds.

Where the custom resources cannot be read, it is also asked for what it knows of them.
"""

from pathlib import Path
from typing import Final

import msgspec
import trio

from liqod.cli import inspector
from liqod.cli.frame import Frame, sentence
from liqod.errors import LiqodError
from liqod.inspect.protocol import Examine, Findings
from liqod.kube.credentials import credentials
from liqod.model.crossing.guests import guest_rows
from liqod.model.objects.podstatus import TERMINAL
from liqod.model.view import wrong
from liqod.model.view.detail import Detail, SliceRow, WaitingPod
from liqod.model.view.headline import condition, worst
from liqod.model.view.networkfacts import NetworkFacts
from liqod.model.view.overview import Overview, PeerRow, of_peer
from liqod.model.view.problems import Problem
from liqod.model.view.rows import Ladder, Pulse, Sighting
from liqod.model.view.state import State
from liqod.model.view.told import told

ALL: Final = Examine(id=1)
READ_ANEW: Final = 0.3
"""Seconds that the daemon takes to read the figures of its networks."""


class LivePeer(msgspec.Struct, frozen=True):
    """One peer as it is now; see :class:`liqod.model.view.rows.Pulse`.

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
    """Data of the daemon that no custom resource holds.

    Attributes:
        sentence: the one worst problem in a sentence.
        peers: by id.
        seen: the clusters that discovery sees.
        told: the problems that only the daemon knows.
        well: whether the sentence says that there is none.
    """

    sentence: str
    peers: dict[str, LivePeer]
    seen: tuple[Sighting, ...] = ()
    told: tuple[Problem, ...] = ()
    well: bool = False


class Seen(msgspec.Struct, frozen=True):
    """A daemon's report of itself: its cluster, its clock, its state, what its doctor found."""

    cluster_id: str
    at: float
    state: State
    ladders: tuple[Ladder, ...] = ()


async def _where(path: Path | None, cluster_id: str, uid: str) -> Path:
    """The socket that was named, else that of the cluster; raises as :func:`see`."""
    return inspector.find(path) if path else await inspector.of_cluster(cluster_id, uid)


async def see(path: Path | None, cluster_id: str, ask: Examine = ALL, uid: str = "") -> Seen:
    """Asks the daemon of that cluster for a report.

    Args:
        path: its socket, if that was named.
        cluster_id: else of which cluster.
        uid: distinguishes it from another of its id; empty for any of that id.
        ask: of whom it is to say what its doctor finds, and how.

    Raises:
        NoDaemon: none answers on this machine.
        ConfigError: several run here, and nothing says which is meant.
        LiqodError: it does not say it.
    """
    async with inspector.connect(await _where(path, cluster_id, uid)) as viewer:
        found = await viewer.ask(ask, Findings)
        first, state = await viewer.snapshot()
        return Seen(viewer.hello.cluster_id, first.at, state, found.ladders)


async def instead(frame: Frame, error: LiqodError) -> Seen:
    """Asks the daemon instead, where the API server fails with that error.

    Where neither a socket nor an id is named it is the one that works with the kubeconfig's API
    server: another cluster's would answer for the wrong one.

    Raises:
        LiqodError: that error, if no daemon can be asked; it says why where one should.
    """
    path = frame.socket
    try:
        if path is None and not frame.cluster_id:
            found = await credentials.load(frame.kubeconfig, frame.context or None)
            path = await inspector.beside(found.server)
            if path is None and inspector.here():
                raise LiqodError("no daemon of this machine works with it; else say --cluster-id")
        return await see(path, frame.cluster_id)
    except LiqodError as other:
        if path is None and isinstance(other, inspector.NoDaemon):
            raise error from None
        text = f"{sentence(error)}; nor can the daemon be asked: {other}"
        raise LiqodError(text) from error


async def ask(path: Path | None, cluster_id: str, uid: str = "") -> Seen | None:
    """The report of that daemon, None where none answers here; arguments as :func:`see`.

    Raises:
        LiqodError: the socket was named and does not answer.
    """
    try:
        return await see(path, cluster_id, uid=uid)
    except LiqodError:
        if path is not None:
            raise
        return None


async def networks(path: Path | None, cluster_id: str, uid: str = "") -> dict[str, NetworkFacts]:
    """The networks of peers as that daemon reports them; empty where none answers on this machine.

    Raises:
        LiqodError: the socket was named and does not answer.
    """
    try:
        async with inspector.connect(await _where(path, cluster_id, uid)) as viewer:
            await viewer.snapshot()
            # Now that somebody looks the figures are read anew.
            await trio.sleep(READ_ANEW)
            return (await viewer.snapshot())[1].networks
    except LiqodError:
        if path is not None:
            raise
        return {}


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
    state = seen.state
    sightings = tuple(row for _, row in sorted(state.sightings.items()))
    said = worst(state, seen.at)
    return Live(said.text, peers, sightings, tales(state), said.level == "well")


def tales(state: State) -> tuple[Problem, ...]:
    """The problems that only the daemon knows, but for those of its doctor."""
    sightings = tuple(row for _, row in sorted(state.sightings.items()))
    return told(state.plugins.values(), state.reasons.values(), sightings)


def joined(view: Overview, seen: Seen, only: str) -> Overview:
    """An overview with the problems that only the daemon knows among the others."""
    found = wrong.wrong((*view.problems, *tales(seen.state)), seen.ladders)
    return msgspec.structs.replace(view, problems=wrong.of_peer(found, only))


def remembered(seen: Seen, only: str, error: LiqodError) -> Overview:
    """The overview from the daemon's own state, in place of the custom resources.

    Args:
        seen: what it said.
        only: of that peer only; empty for all.
        error: why the custom resources cannot be read.
    """
    state = seen.state
    what = f"the custom resources cannot be read: {error}"
    problem = Problem(0, "", what, "see that this cluster's API server runs", "server")
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
        wrong.wrong((problem, *state.problems), seen.ladders),
        _detail(state, only),
        "daemon",
        guests=guest_rows(state.guests.values()),
        key=state.daemon.key,
        met_at=state.daemon.met_at,
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
            if pod.peer == name and not pod.ready and pod.phase not in TERMINAL
        ),
    )
