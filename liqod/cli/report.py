"""The report on a cluster: what its objects tell, and what its running daemon adds. Pure.

``liqod status`` shows it, and ``liqod doctor`` has its ladders and problems. A daemon holds figures
that no custom resource has; where these cannot be read, it stands in for them.
"""

import msgspec

from liqod.errors import LiqodError
from liqod.model.crossing.guests import guest_rows
from liqod.model.objects.podstatus import TERMINAL
from liqod.model.view import objectfacts
from liqod.model.view import overview as overviews
from liqod.model.view.daemonfacts import ProcessFacts, SightingFacts
from liqod.model.view.headline import condition, worst
from liqod.model.view.overview import Detail, Overview, WaitingPod
from liqod.model.view.problems import Problem, merged, of_peer
from liqod.model.view.rows import Ladder, PeerRow, Pulse, SliceRow
from liqod.model.view.snapshot import Snapshot
from liqod.model.view.state import LiveState
from liqod.plugins import examination

SEEN_FROM_HERE = ("installation", "leader")
"""Layers of which a daemon says nothing: they are about that daemon itself."""
BY_OBJECTS = ("services", "names", "clusterset")
"""The last layers, of which it says nothing either: they are read from objects alone."""


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
    seen: tuple[SightingFacts, ...] = ()
    told: tuple[Problem, ...] = ()
    well: bool = False


class Seen(msgspec.Struct, frozen=True):
    """A daemon's report of itself: its cluster, its clock, its state, what its doctor found."""

    cluster_id: str
    at: float
    state: LiveState
    ladders: tuple[Ladder, ...] = ()


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
    return Live(said.text, peers, sightings, daemon_problems(state), said.level == "well")


def daemon_problems(state: LiveState) -> tuple[Problem, ...]:
    """The problems that only the daemon knows, but for those of its doctor."""
    return examination.problems(*objectfacts.of_state(state))


def problems(snapshot: Snapshot) -> tuple[Problem, ...]:
    """The problems that objects tell of, the worst first."""
    own = objectfacts.cluster(snapshot)
    return examination.problems(own, objectfacts.everyone(snapshot, own))


def overview(snapshot: Snapshot, only: str = "") -> Overview:
    """The overview of objects with their problems, or of one peer in it."""
    own = objectfacts.cluster(snapshot)
    peers = objectfacts.peers(snapshot, own)
    return overviews.overview(snapshot, own, peers, problems(snapshot), only)


def joined(view: Overview, seen: Seen, only: str) -> Overview:
    """An overview with the problems that only the daemon knows among the others."""
    found = merged((*view.problems, *daemon_problems(seen.state)), seen.ladders)
    return msgspec.structs.replace(view, problems=of_peer(found, only))


def from_daemon(seen: Seen, only: str, error: LiqodError) -> Overview:
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
        merged((problem, *state.problems), seen.ladders),
        _detail(state, only),
        "daemon",
        guests=guest_rows(state.guests.values()),
        key=state.daemon.key,
        met_at=state.daemon.met_at,
    )
    return overviews.of_peer(view, only) if only else view


def _detail(state: LiveState, name: str) -> Detail | None:
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


def ladders(snapshot: Snapshot, version: str, took: float) -> tuple[Ladder, ...]:
    """This cluster's ladder by its objects, then each peer's.

    Args:
        snapshot: the objects.
        version: of the API server.
        took: seconds that it took to answer.
    """
    own = objectfacts.cluster(snapshot, version, took)
    return (
        examination.ladder(own),
        *(examination.ladder(each) for each in objectfacts.peers(snapshot, own)),
    )


def beside(snapshot: Snapshot, daemon: ProcessFacts) -> Snapshot:
    """The objects as they are beside a daemon that was asked: Services that it does not share."""
    if snapshot.services is None or daemon.services is not False:
        return snapshot
    off = msgspec.structs.replace(snapshot.services, off=True)
    return msgspec.structs.replace(snapshot, services=off)


def completed(own: Ladder, snapshot: Snapshot) -> Ladder:
    """The ladder of a daemon that was asked, with what only others can tell of it."""
    more = examination.ladder(objectfacts.cluster(snapshot)).checks
    first, rest = own.checks[:1], own.checks[1:]
    below = (each for each in more if each.layer in SEEN_FROM_HERE)
    above = (each for each in more if each.layer in BY_OBJECTS)
    return Ladder("", (*first, *below, *rest, *above))
