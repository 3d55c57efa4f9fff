"""What a check of the doctor is: a pure function of facts, and perhaps a probe that brings more.

A :class:`Check` looks at one layer of one peer, or of this cluster. ``look`` is called every two
seconds with what the daemon knows anyway, does no I/O and has no clock. What cannot be known that
way a ``probe`` fetches, now and then, behind a wall and with a deadline; what it returns comes to
``look`` as ``facts.probed``. The layers of a peer form a ladder: the first that fails is the answer
to "what is wrong".
"""

from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol

import msgspec

from liqod.model.view.networkfacts import NetworkFacts as NetworkFacts
from liqod.plugins.contracts import NoSettings

Verdict = Literal["ok", "failing", "unknown", "skipped"]


class Finding(msgspec.Struct, frozen=True):
    """What a check says.

    Attributes:
        verdict: ``unknown`` where it cannot be told yet; ``skipped`` where it does not work and is
            not meant to.
        evidence: what was seen, one clause with figures.
        remedy: what to do about it, one clause; for a failing layer.
    """

    verdict: Verdict
    evidence: str
    remedy: str = ""


def ok(evidence: str) -> Finding:
    """The layer works."""
    return Finding("ok", evidence)


def failing(evidence: str, remedy: str) -> Finding:
    """The layer does not work."""
    return Finding("failing", evidence, remedy)


def unknown(evidence: str) -> Finding:
    """It cannot be told yet."""
    return Finding("unknown", evidence)


def skipped(evidence: str) -> Finding:
    """The layer does not work because somebody wants that: no fault, and not well either."""
    return Finding("skipped", evidence)


class Trip(msgspec.Struct, frozen=True):
    """One request that was made to find something out.

    Attributes:
        ago: seconds since.
        took: seconds it took.
        error: why it failed; empty if it did not.
    """

    ago: float
    took: float
    error: str = ""


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of this cluster.

    Attributes:
        now: Unix time.
        policies: admission policies that hold consumers and are missing, or deny nothing; None: not
            known.
        api: the newest request to its API server.
        skew: seconds by which its clock is ahead of ours; None: not known.
        version: its version.
        certificate: seconds of life left of the daemon's own certificate; None for tokens.
        silent: kinds that are not followed now, with the reason.
        webhook: the verdict on the webhook's path; empty: not known.
        proved: seconds since that path was last tried; None: not known.
        lag: the worst lateness of the event loop in the last minute, in seconds.
        left_out: plugins that could not be loaded, with the reason.
        leading: whether this daemon leads.
        met_at: TCP port at which other clusters' daemons are met; None: they are not to be.
        unmet: why they cannot be; empty where they can.
        serving: why the cluster has not signed what virtual nodes show; empty where it has, None
            where it was not asked to.
        troubled: plugins that are parked, or fail again and again, with the reason.
        probed: what the check's own probe returned last; None: nothing yet.
        settings: the check's own settings, as its ``config_type``.
    """

    now: float
    policies: tuple[str, ...] | None = None
    api: Trip | None = None
    skew: float | None = None
    version: str = ""
    certificate: float | None = None
    silent: dict[str, str] = {}
    webhook: str = ""
    proved: float | None = None
    lag: float = 0.0
    left_out: dict[str, str] = {}
    troubled: dict[str, str] = {}
    leading: bool = True
    met_at: int | None = None
    unmet: str = ""
    serving: str | None = None
    probed: Any = None
    settings: Any = None


class NodeFacts(msgspec.Struct, frozen=True):
    """A virtual node: why it is not ready (empty if it is), and its lease's age where known."""

    name: str
    problem: str = ""
    lease: float | None = None


class QueueFacts(msgspec.Struct, frozen=True):
    """A queue of the peer's.

    Attributes:
        waiting: keys in it.
        oldest: seconds that the oldest is overdue.
        worked: seconds since the last success; None: none yet.
        failed: failures so far.
        error: why the last one failed, if nothing has succeeded since.
    """

    waiting: int = 0
    oldest: float = 0.0
    worked: float | None = None
    failed: int = 0
    error: str = ""


class LinkFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the way to a peer's API server.

    Attributes:
        state: ``up``, ``down`` or ``idle``.
        reason: why, in one clause.
        problem: what kind of reason that is, ``refused`` or ``untrusted``; empty for the way there.
        path: the way that was taken last: ``direct``, or ``in-band`` through the tunnel.
        since: when that last changed.
        silence: seconds since anything last came back, from the host at least; None: nothing yet.
        answered: seconds since the server itself last answered; None: never, or not known.
        rtt: seconds of the newest round trip.
        loss: part of the last hundred probes that were lost.
        skew: seconds by which the peer's clock is ahead of ours.
        degraded: what does not work with the API server although it answers; empty for nothing.
        daemon: the peer's daemon ``runs``, is ``silent``, is ``untold`` where the peer does not
            show it, or ``unasked`` while that is not known yet.
        daemon_why: why, in one clause, where it is silent.
        daemon_renewed: seconds since it renewed its Lease, or less than that; None: not known.
        daemon_quiet: seconds for which it is known not to have renewed it, at the last look.
        daemon_looked: seconds since that was looked at; None: not known.
    """

    state: str = "idle"
    reason: str = ""
    problem: str = ""
    path: str = "direct"
    since: float = 0.0
    silence: float | None = None
    answered: float | None = None
    rtt: float | None = None
    loss: float | None = None
    skew: float | None = None
    degraded: str = ""
    daemon: str = "unasked"
    daemon_why: str = ""
    daemon_renewed: float | None = None
    daemon_quiet: float = 0.0
    daemon_looked: float | None = None


class ReflectionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the work at a peer.

    Attributes:
        nodes: virtual nodes.
        namespaces: number of namespaces mapped there.
        unmapped: namespaces that are asked for and not mapped, with the seconds since.
        reflectors: their queues by name.
        blind: kinds that cannot be read there, with the reason.
    """

    nodes: tuple[NodeFacts, ...] = ()
    namespaces: int = 0
    unmapped: dict[str, float] = {}
    reflectors: dict[str, QueueFacts] = {}
    blind: dict[str, str] = {}


class PeerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one peer.

    Attributes:
        now: Unix time.
        peer: its id.
        cluster: what is known of this cluster.
        lends: it lends to this cluster, or is to.
        borrows: it borrows from this cluster.
        failure: why its task does not run; empty if it does.
        link: of the way to its API server.
        reflection: of the work there.
        certificates: seconds of life left of each identity there.
        identities: identities that are there.
        replication: the queue of what is replicated there.
        canary: the newest write there that changes nothing.
        unfollowed: kinds of what is replicated that cannot be followed there, with the reason.
        denied: slices that it denied, with the reason.
        unanswered: slices that it has not answered yet.
        former: it knows this cluster by its former key alone.
        tenant: condition of the tenant here that is the peer's; empty where there is none.
        network: what is known of the network that is joined with it; None where none is to be.
        usage: why it did not tell what its guests use; empty where it did, None: nobody asked.
        probed: what the check's own probe returned last; None: nothing yet.
        settings: the check's own settings, as its ``config_type``.
    """

    now: float
    peer: str
    cluster: ClusterFacts
    lends: bool = False
    borrows: bool = False
    failure: str = ""
    link: LinkFacts = LinkFacts()
    reflection: ReflectionFacts = ReflectionFacts()
    certificates: dict[str, float] = {}
    identities: int = 0
    replication: QueueFacts | None = None
    canary: Trip | None = None
    unfollowed: dict[str, str] = {}
    denied: dict[str, str] = {}
    unanswered: tuple[str, ...] = ()
    former: bool = False
    tenant: str = ""
    network: NetworkFacts | None = None
    usage: str | None = None
    probed: Any = None
    settings: Any = None


class Asker(Protocol):
    """What a probe may do: read, at one API server."""

    @property
    def settings(self) -> Any:
        """The check's own settings, as its ``config_type``."""
        ...

    async def read(self, path: str) -> bytes:
        """The answer to a GET. Raises a LiqodError."""
        ...


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One layer's check.

    Attributes:
        name: the layer, such as ``api``; unique within its scope.
        title: the layer in a few words, as the subject of "… fails".
        scope: ``cluster``: ``look`` gets ClusterFacts; ``peer``: PeerFacts.
        order: its place in the ladder; the built-in ones have 10, 20, 30 …
        look: says what is so; None where the layer does not apply.
        needs: layers of the same ladder without which there is nothing to look at.
        probe: fetches more, from the API server of the scope.
        every: seconds between two probes.
        config_type: the struct its table of the configuration is decoded as.
        api: the version of the contract.
    """

    name: str
    title: str
    scope: Literal["cluster", "peer"]
    order: int
    look: Callable[[Any], Finding | None]
    needs: tuple[str, ...] = ()
    probe: Callable[[Asker], Awaitable[Any]] | None = None
    every: float = 60.0
    config_type: type[Any] = NoSettings
    api: int = 1
