"""Rows of the inspector: peers, the objects between them, and the daemon's activity.

Rows that ``liqod status`` has too extend its structs. Values that change each second
(:class:`Pulse`) are apart from those that change with an event (:class:`WidePeerRow`), so that a
hundred peers at rest cost a viewer little. The daemon's tasks, queues, watches and requests are
fetched when a viewer shows them, and are not part of the state that is sent with each change.
Times are Unix seconds; a value that is unknown is None.
"""

from typing import Any, Literal

import msgspec

from liqod.model.view.snapshot import PodSummary

Verdict = Literal["ok", "failing", "unknown", "skipped"]
"""``unknown``: not found out yet; ``skipped``: a layer below fails, or the check does not apply."""
GLYPHS: dict[Verdict, str] = {"ok": "✓", "failing": "✗", "unknown": "?", "skipped": "·"}
"""The symbol of each verdict."""
BAD = ("failed", "reason", "problem", "refused")
"""Facts of an event that give the reason of a fault."""
NOTHING: tuple[Any, ...] = (None, "", [], {})
"""Values of facts that are not shown."""


class PeerRow(msgspec.Struct, frozen=True):
    """One peer. ``certificate_days`` is None where this cluster holds no certificate of it;
    ``daemon`` is ``up``, the reason why it seems not to run, or ``-`` where the peer does not show
    it; ``met`` is the method by which the two have met (:mod:`liqod.model.view.requests`), and
    ``words`` are those that both sides have shown then.
    """

    id: str
    role: str
    api: str
    pod_network: str
    pods_out: int
    pods_in: int
    certificate_days: float | None
    state: str
    daemon: str = "-"
    met: str = "-"
    words: str = ""


class NodeRow(msgspec.Struct, frozen=True):
    """One virtual node: its peer, its readiness, its resources and its pods.

    Attributes:
        resources: the allocatable ones of its Node, by which the scheduler goes; empty where there
            is no Node, or it cannot be read.
        pods_waiting: those that wait at the peer, and use nothing of what is granted.
        granted: the grant that they are made of. It is more where the peer has less room.
    """

    name: str
    peer: str
    ready: bool
    message: str
    resources: dict[str, str]
    pods: int
    pods_ready: int
    pods_waiting: int = 0
    granted: dict[str, str] = msgspec.field(default_factory=dict)


class NamespaceRow(msgspec.Struct, frozen=True):
    """One offloaded namespace; ``clusters`` holds the state at each selected peer."""

    name: str
    strategy: str
    phase: str
    remote_name: str
    clusters: dict[str, str]


class ConditionRow(msgspec.Struct, frozen=True):
    """One condition of the ForeignCluster; ``module`` is empty for those of the peer itself."""

    module: str
    type: str
    status: str
    since: str
    message: str


class SliceRow(msgspec.Struct, frozen=True):
    """One slice of resources between this cluster and the peer.

    Attributes:
        name: the slice's.
        direction: ``borrowed`` from the peer, or ``lent`` to it.
        class_name: its class.
        asked: the requested quantities.
        granted: the quantities granted.
        authentication: the provider's verdict on the identity: Accepted, Denied, or nothing yet.
        resources: the provider's verdict on the resources, likewise.
        why: the provider's reasons for its verdicts.
        cordoned: whether the provider accepts no new pods on it.
    """

    name: str
    direction: str
    class_name: str
    asked: dict[str, str]
    granted: dict[str, str]
    authentication: str
    resources: str
    why: str
    cordoned: bool


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value of the tree."""


class Amount(Row, frozen=True):
    """One resource borrowed from a peer: quantities as Kubernetes writes them, and their ratio.

    Attributes:
        granted: the amount that the peer granted, summed over slices.
        used: the amount that pods on its virtual nodes request, without those that wait there.
        part: used of granted, None where nothing was granted.
        waits: the amount that those request which wait there; empty for none.
    """

    granted: str = "0"
    used: str = "0"
    part: float | None = None
    waits: str = ""


class WidePeerRow(PeerRow, frozen=True, omit_defaults=True):
    """One peer, with more than ``liqod status`` has of it.

    Attributes:
        server: URL of its API server; empty where nothing is borrowed.
        tenant_namespace: its namespace in this cluster.
        link: ``up``, ``down``, or ``idle`` where nothing is borrowed and no request is sent.
        since: time when ``link`` last changed.
        reason: the reason for the link's state, in one clause.
        version: version of its API server.
        layer: the first failing layer by the doctor; empty when all is well.
        verdict: that layer's evidence in one sentence.
        layer_since: time since when it fails.
        failure: the reason why its task does not run, where it does not.
        retry_at: time of the next try.
        quota: by resource name.
        conditions: of its ForeignCluster.
    """

    server: str = ""
    tenant_namespace: str = ""
    link: str = "idle"
    since: float = 0.0
    reason: str = ""
    version: str = ""
    layer: str = ""
    verdict: str = ""
    layer_since: float = 0.0
    failure: str = ""
    retry_at: float = 0.0
    quota: dict[str, Amount] = msgspec.field(default_factory=dict)
    conditions: tuple[ConditionRow, ...] = ()


class Pulse(Row, frozen=True):
    """The values of one peer that change each second.

    Attributes:
        heard: time when the last packet came back from it.
        rtt: seconds of the newest round trip to its API server.
        p50: median of the round trips in the last ten minutes.
        p95: 95th percentile of them.
        jitter: mean difference between one round trip and the next.
        loss: part of the last hundred probes without an answer in time, 0 to 1.
        lag: seconds from a local change to its write at the peer, worst of the last minute.
        backlog: keys that wait in its queues.
        oldest: seconds that the oldest of them is overdue.
        requests: requests to it under way now.
        sent: bytes a second to it.
        received: bytes a second from it.
    """

    heard: float | None = None
    rtt: float | None = None
    p50: float | None = None
    p95: float | None = None
    jitter: float | None = None
    loss: float | None = None
    lag: float | None = None
    backlog: int = 0
    oldest: float = 0.0
    requests: int = 0
    sent: float = 0.0
    received: float = 0.0


class CheckRow(Row, frozen=True):
    """The doctor's finding in one layer.

    Attributes:
        layer: its name, such as ``api``; unique within a ladder.
        title: the same in a few words.
        verdict: whether it works.
        since: time since when the verdict is this one.
        evidence: the observation, with figures.
        remedy: the step that ends the fault; empty unless it fails.
        at: time of the last check.
    """

    layer: str
    title: str
    verdict: Verdict
    since: float = 0.0
    evidence: str = ""
    remedy: str = ""
    at: float = 0.0


class Ladder(Row, frozen=True):
    """The checks of one peer, the lowest layer first; ``peer`` is empty for this cluster's own."""

    peer: str
    checks: tuple[CheckRow, ...] = ()


class Slice(SliceRow, frozen=True, omit_defaults=True):
    """One slice of resources, with its peer and its namespace in this cluster."""

    peer: str = ""
    namespace: str = ""


class PodRow(PodSummary, frozen=True, omit_defaults=True):
    """One pod of this cluster that is on a virtual node.

    Attributes:
        peer: the peer of that node.
        since: time of its creation.
        restarts: of its containers together.
        ip: its address.
    """

    peer: str = ""
    since: float = 0.0
    restarts: int = 0
    ip: str = ""


class Reflection(Row, frozen=True):
    """One reflector at one peer.

    Attributes:
        reflector: its name.
        waiting: keys in its queue.
        busy: keys that are worked on.
        oldest: seconds that the oldest waiting key is overdue.
        done: objects written and removed since the start.
        failed: failures since the start.
        error: the last failure; empty after a later success.
    """

    peer: str
    reflector: str
    waiting: int = 0
    busy: int = 0
    oldest: float = 0.0
    done: int = 0
    failed: int = 0
    error: str = ""


class EventRow(Row, frozen=True):
    """One decision of a component.

    Attributes:
        sequence: rises by one with each event of a daemon's life.
        at: its time.
        topic: its topic, dotted, such as ``peer.link``.
        peer: the peer that it is about, if any.
        facts: JSON values.
    """

    sequence: int
    at: float
    topic: str
    peer: str = ""
    facts: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """``name=value`` of each fact, in the order in which the event has them.

        It may have words of others: callers make it fit for a terminal (:mod:`liqod.model.text`).
        """
        found = self.facts.items()
        return " ".join(f"{name}={_text(value)}" for name, value in found if value not in NOTHING)

    @property
    def is_bad(self) -> bool:
        """True if it reports a failure."""
        return any(self.facts.get(name) for name in BAD) and self.facts.get("up") is not True


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


class Line(Row, frozen=True):
    """One line of the daemon's log.

    Attributes:
        at: its time.
        level: ``debug``, ``info``, ``warning``, ``error`` or ``critical``.
        text: the sentence with its data; tracebacks are left in the log itself.
        peer: the peer that it is about, if any.
        logger: the part of the program that wrote it.
    """

    at: float
    level: str
    text: str
    peer: str = ""
    logger: str = ""


class Task(Row, frozen=True):
    """One task of the daemon.

    Attributes:
        depth: 0 for the root; a child follows its parent and is one deeper.
        peer: the peer that it works for, if any.
        waits: the function it waits in, such as ``KeyedQueue._next``; empty while it runs.
        where: file and line of that in liqod's own code.
        age: seconds since the first look at the tasks that saw it; None when this is the first.
        waiting: seconds that it has been seen at that same place.
        children: tasks below it.
    """

    name: str
    depth: int
    peer: str = ""
    waits: str = ""
    where: str = ""
    age: float | None = None
    waiting: float | None = None
    children: int = 0


class Queue(Row, frozen=True):
    """One queue: keys that wait, are worked on, and seconds that the oldest is overdue."""

    name: str
    peer: str = ""
    waiting: int = 0
    busy: int = 0
    oldest: float = 0.0


class Watching(Row, frozen=True):
    """One watch.

    Attributes:
        kind: the watched kind.
        namespace: its namespace; empty for all.
        server: its API server.
        objects: number of objects that it holds.
        heard: seconds since the last byte; None before the first.
        problem: the reason why it does not follow changes.
        suspect: the reason why a list of it is not believed.
    """

    kind: str
    namespace: str = ""
    server: str = ""
    objects: int = 0
    heard: float | None = None
    problem: str = ""
    suspect: str = ""


class Traffic(Row, frozen=True):
    """Requests to one API server: under way, waiting for a connection, since the start."""

    server: str
    active: int = 0
    waiting: int = 0
    total: int = 0
