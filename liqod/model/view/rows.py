"""Rows that the inspector shows: of the daemon, its peers, and the objects between them.

Rows that ``liqod status`` has too extend its structs. Values that change each second
(:class:`Pulse`) are apart from those that change with an event (:class:`Peer`), so that a hundred
peers at rest cost a viewer little. Times are Unix seconds; a value that is unknown is None.
"""

from typing import Any, Literal

import msgspec

from liqod.model.view.detail import ConditionRow, SliceRow
from liqod.model.view.snapshot import Pod

Verdict = Literal["ok", "failing", "unknown", "skipped"]
"""``unknown``: not found out yet; ``skipped``: a layer below fails, or the check does not apply."""
GLYPHS: dict[Verdict, str] = {"ok": "✓", "failing": "✗", "unknown": "?", "skipped": "·"}
"""How a verdict is drawn."""


class PeerRow(msgspec.Struct, frozen=True):
    """One peer. ``certificate_days`` is None where this cluster holds no certificate of it;
    ``daemon`` is ``up``, why it seems not to run, or ``-`` where the peer does not show it; ``met``
    how the two have met (:mod:`liqod.model.view.requests`), ``words`` what both sides have shown
    then.
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
    """One virtual node: whose it is, whether it is ready, what it offers and what runs there."""

    name: str
    peer: str
    ready: bool
    message: str
    resources: dict[str, str]
    pods: int
    pods_ready: int


class NamespaceRow(msgspec.Struct, frozen=True):
    """One offloaded namespace; ``clusters`` holds what is true of each selected peer."""

    name: str
    strategy: str
    phase: str
    remote_name: str
    clusters: dict[str, str]


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value of the tree."""


class Amount(Row, frozen=True):
    """One resource borrowed from a peer: quantities as Kubernetes writes them, and their ratio.

    Attributes:
        granted: what the peer granted, summed over slices.
        used: what pods on its virtual nodes request.
        part: used of granted, None where nothing was granted.
    """

    granted: str = "0"
    used: str = "0"
    part: float | None = None


class Peer(PeerRow, frozen=True, omit_defaults=True):
    """One peer, beyond what ``liqod status`` has of it.

    Attributes:
        server: URL of its API server; empty where nothing is borrowed.
        tenant_namespace: its namespace here.
        link: ``up``, ``down``, or ``idle`` where nothing is borrowed and nobody is asked.
        since: when ``link`` last changed.
        reason: why the link is as it is, in one clause.
        version: version of its API server.
        layer: the first failing layer by the doctor; empty when all is well.
        verdict: that layer's evidence in one sentence.
        layer_since: since when it fails.
        failure: why its task does not run, where it does not.
        retry_at: when that is tried again.
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
        heard: when something last came back from it.
        rtt: seconds of the newest round trip to its API server.
        p50: median of the round trips in the last ten minutes.
        p95: 95th percentile of them.
        jitter: mean difference between one round trip and the next.
        loss: part of the last hundred probes without an answer in time, 0 to 1.
        lag: seconds from a change here to its write there, worst of the last minute.
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


class Check(Row, frozen=True):
    """The doctor's finding in one layer.

    Attributes:
        layer: its name, such as ``api``; unique within a ladder.
        title: the same in a few words.
        verdict: whether it works.
        since: since when the verdict is this one.
        evidence: what was seen, with figures.
        remedy: what to do about it; empty unless it fails.
        at: when it was last checked.
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
    checks: tuple[Check, ...] = ()


class Slice(SliceRow, frozen=True, omit_defaults=True):
    """One slice of resources, with the peer it is shared with and its namespace here."""

    peer: str = ""
    namespace: str = ""


class PodRow(Pod, frozen=True, omit_defaults=True):
    """One pod of this cluster that is on a virtual node.

    Attributes:
        peer: whose node that is.
        since: when it was created.
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
        peer: the peer.
        reflector: its name.
        waiting: keys in its queue.
        busy: keys that are worked on.
        oldest: seconds that the oldest waiting key is overdue.
        done: what it wrote and removed since the start.
        failed: how often it failed since the start.
        error: why it last failed; empty once something has succeeded since.
    """

    peer: str
    reflector: str
    waiting: int = 0
    busy: int = 0
    oldest: float = 0.0
    done: int = 0
    failed: int = 0
    error: str = ""


class Event(Row, frozen=True):
    """One thing that a component decided.

    Attributes:
        sequence: rises by one with each event of a daemon's life.
        at: when.
        topic: what it is about, dotted, such as ``peer.link``.
        peer: whom it concerns, if anybody.
        facts: JSON values.
    """

    sequence: int
    at: float
    topic: str
    peer: str = ""
    facts: dict[str, Any] = {}


class Line(Row, frozen=True):
    """One line of the daemon's log.

    Attributes:
        at: when.
        level: ``debug``, ``info``, ``warning``, ``error`` or ``critical``.
        text: the sentence with its data; tracebacks are left in the log itself.
        peer: whom it concerns, if anybody.
        logger: which part of the program speaks.
    """

    at: float
    level: str
    text: str
    peer: str = ""
    logger: str = ""
