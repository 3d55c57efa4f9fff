"""Rows that the inspector shows: of the daemon, its peers, and the objects between them.

Rows that ``liqod status`` has too extend its structs. Values that change each second
(:class:`Pulse`) are apart from those that change with an event (:class:`Peer`), so that a hundred
peers at rest cost a viewer little. Times are Unix seconds; a value that is unknown is None.
"""

from typing import Any, Final, Literal

import msgspec

from liqod.model.view.detail import ConditionRow, SliceRow
from liqod.model.view.snapshot import Pod

Verdict = Literal["ok", "failing", "unknown", "skipped"]
"""``unknown``: not found out yet; ``skipped``: a layer below fails, or the check does not apply."""
GLYPHS: dict[Verdict, str] = {"ok": "✓", "failing": "✗", "unknown": "?", "skipped": "·"}
"""How a verdict is drawn."""


LEADING: Final = "leading"
"""The state of a daemon that leads."""


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


class Daemon(Row, frozen=True):
    """The process itself.

    Attributes:
        cluster_id: this cluster's id.
        version: liqod's.
        kubernetes: version of this cluster's API server.
        state: ``starting``, ``leading``, ``standing by; NAME leads``, ``stopping``.
        pid: its process id.
        started: when it started.
        webhook: the verdict on the webhook's path: empty when unknown, ``reachable``, or why not.
        cpu: share of one core, over the last second.
        rss: resident bytes.
        lag: seconds by which the event loop was late, the worst of the last second.
        tasks: Trio tasks.
        viewers: clients of the inspector that watch.
        key: SHA-256 of this cluster's public key, in hex; empty while it is not known.
        met_at: where others meet this daemon, as ``host:port``; empty where it is met nowhere.
    """

    cluster_id: str = ""
    version: str = ""
    kubernetes: str = ""
    state: str = "starting"
    pid: int = 0
    started: float = 0.0
    webhook: str = ""
    cpu: float = 0.0
    rss: int = 0
    lag: float = 0.0
    tasks: int = 0
    viewers: int = 0
    key: str = ""
    met_at: str = ""

    @property
    def leading(self) -> bool:
        """True if the daemon leads."""
        return self.state == LEADING


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


LEFT_OUT: Final = "left out"
"""The state of a plugin that could not be loaded."""


class Plugin(Row, frozen=True):
    """One plugin, or one thing it provides; attributes as in ``liqod plugins``.

    Attributes:
        name: its name.
        kind: ``reflector``, ``discovery``, ``network``, ``check`` or ``plugin``.
        version: of the package that brings it.
        package: name of that package.
        state: ``active``, ``blocked`` or ``left out``.
        why: one sentence where it is not active.
        failure: why it does not run now, though active.
        retry_at: when that is tried again.
    """

    name: str
    kind: str
    version: str = ""
    package: str = ""
    state: str = "active"
    why: str = ""
    failure: str = ""
    retry_at: float = 0.0

    @property
    def whole(self) -> str:
        """The plugin as a clause names it, with its kind."""
        kind = "plugin" if self.kind == "plugin" else f"{self.kind} plugin"
        return f"the {kind} {self.name}"


PLUGIN_FAILS: Final = "PluginFails"
"""Code of a reason of an object at which a plugin fails: it is reported as the plugin's problem."""


class Told(Row, frozen=True):
    """Why objects are not as they are to be at a peer, or here: a reason that a reflector gave.

    Attributes:
        peer: the peer.
        reflector: the reflector.
        code: the reason in a word.
        message: the reason in a sentence.
        objects: how many objects it is given for.
        example: one of them.
    """

    peer: str
    reflector: str
    code: str
    message: str
    objects: int = 1
    example: str = ""


class Sighting(Row, frozen=True):
    """A cluster as one source of a discovery plugin shows it.

    Attributes:
        cluster_id: its id.
        plugin: who sees it.
        seen: when it was first seen there.
        peered: whether it is a peer already.
        kubeconfig: whether the sighting brings credentials to peer with.
        waits: whether it could be peered with, if the operator said so.
        step: what peering with it is at, while that is under way.
        problem: why peering with it does not succeed.
        retry_at: when that is tried again.
        where: by which of its sources, such as the name of a service or of an object.
        addresses: ``host:port`` at which its daemon takes the handshake.
        key: SHA-256 of the key that has signed what it says of itself, in hex; empty where nothing
            is signed, or the signature does not hold.
        unverified: why what it says of itself does not hold.
        proof: what vouches for the source, such as ``DNSSEC``.
        conflict: whether different keys are shown for this id.
        own: whether it is this cluster's own id, shown by somebody else.
        free: what it could lend, as quantities by resource, where it says.
        capabilities: what its daemon can do, by name.
        named: whether the configuration names its key, so that no words are to be compared.
    """

    cluster_id: str
    plugin: str
    seen: float = 0.0
    peered: bool = False
    kubeconfig: bool = False
    waits: bool = False
    step: str = ""
    problem: str = ""
    retry_at: float = 0.0
    where: str = ""
    addresses: tuple[str, ...] = ()
    key: str = ""
    unverified: str = ""
    proof: str = ""
    conflict: bool = False
    own: bool = False
    free: dict[str, str] = {}
    capabilities: tuple[str, ...] = ()
    named: bool = False


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
