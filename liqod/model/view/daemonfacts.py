"""Facts that only a running daemon has about itself, in the form that viewers get. Pure.

They are part of the facts about its cluster and its peers (:mod:`liqod.model.view.facts`). Times
are Unix seconds.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from liqod.telemetry.histogram import Histogram

LEADING: Final = "leading"
"""The state of a daemon that leads."""
LEFT_OUT: Final = "left out"
"""The state of a plugin that could not be loaded."""
PLUGIN_FAILS: Final = "PluginFails"
"""Code of a reason of an object at which a plugin fails: it is reported as the plugin's problem."""


class ProcessFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The process itself.

    Attributes:
        cluster_id: this cluster's id.
        version: liqod's.
        kubernetes: version of this cluster's API server.
        state: ``starting``, ``leading``, ``standing by; NAME leads``, ``stopping``.
        pid: its process id.
        started: time of its start.
        webhook: the verdict on the webhook's path: empty if unknown, ``reachable``, or the reason.
        cpu: share of one core, over the last second.
        rss: resident bytes.
        lag: seconds by which the event loop was late, the worst of the last second.
        tasks: Trio tasks.
        viewers: clients of the inspector that watch.
        key: SHA-256 of this cluster's public key, in hex; empty while it is unknown.
        met_at: endpoint of this daemon's handshake, as ``host:port``; empty for none.
        services: it shares Services with peers; None: an older one, which does not say.
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
    services: bool | None = None

    @property
    def leading(self) -> bool:
        """True if the daemon leads."""
        return self.state == LEADING


class PluginFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """One plugin, or one object it provides; attributes as in ``liqod plugins``.

    Attributes:
        kind: ``reflector``, ``discovery``, ``network``, ``check`` or ``plugin``.
        version: of the package that brings it.
        package: name of that package.
        state: ``active``, ``blocked`` or ``left out``.
        why: one sentence where it is not active.
        failure: the reason why it does not run now, though active.
        retry_at: time of the next try.
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


class ClientFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of one client of an API server, counted since the start.

    Attributes:
        answers: number of answers by (verb, kind, HTTP status); 0 for those that never came.
        took: how long they took to begin, by verb.
        sent: bytes sent, without TLS's own.
        received: bytes received, likewise.
    """

    answers: Mapping[tuple[str, str, int], int] = {}
    took: Mapping[str, Histogram] = {}
    sent: int = 0
    received: int = 0


class MeetingFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The handshakes with other daemons, and the channels to them.

    Attributes:
        requests: number of requests to borrow by phase, of others (``in``), and this cluster's.
        answers: number of answers to requests, by answer.
        refused: handshakes that this daemon has ended, by the handshake's code.
        channels: open channels by cluster id.
        streams: streams that are open in them.
        received: bytes received on all channels since the start.
        sent: bytes sent on them.
    """

    requests: Mapping[str, Mapping[str, int]] = {}
    answers: Mapping[str, int] = {}
    refused: Mapping[str, int] = {}
    channels: Mapping[str, int] = {}
    streams: Mapping[str, int] = {}
    received: int = 0
    sent: int = 0


class WriteCounts(msgspec.Struct):
    """Counts of one reflector's writes at one peer, and in this cluster.

    Attributes:
        done: objects written and removed since the start.
        failed: failures since the start.
        error: the last failure; empty after a later success.
    """

    done: int = 0
    failed: int = 0
    error: str = ""

    def succeed(self) -> None:
        """It wrote something."""
        self.done += 1
        self.error = ""

    def fail(self, why: str) -> None:
        """It did not come to that."""
        self.failed += 1
        self.error = why


class ReasonFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reflector's reason why objects are not as wanted at a peer, or in this cluster.

    Attributes:
        code: the reason in a word.
        message: the reason in a sentence.
        objects: number of objects with it.
        example: one of them.
    """

    peer: str
    reflector: str
    code: str
    message: str
    objects: int = 1
    example: str = ""


class SightingFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """A cluster as one source of a discovery plugin shows it.

    Attributes:
        cluster_id: its id.
        plugin: the plugin that sees it.
        seen: time when the source first showed it.
        peered: whether it is a peer already.
        kubeconfig: whether the sighting brings credentials to peer with.
        waits: whether it could be peered with, if the operator decided so.
        step: the present step of peering with it, while that is under way.
        problem: the reason why peering with it does not succeed.
        retry_at: time of the next try.
        where: the plugin's source, such as the name of a service or of an object.
        addresses: ``host:port`` at which its daemon takes the handshake.
        key: SHA-256 of the key that has signed its advert, in hex; empty without a signature, or
            with a bad one.
        unverified: the reason why its advert is not valid.
        proof: the proof of the source, such as ``DNSSEC``.
        conflict: whether different keys are shown for this id.
        own: whether it is this cluster's own id, shown by another cluster.
        free: the resources that it could lend, as quantities, where it announces them.
        capabilities: the functions of its daemon, by name.
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
