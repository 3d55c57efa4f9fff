"""The state that the parts of one peer's reflection share, and the inputs of one reconciliation.

A :class:`Context` is the memory of one engine: the mapped namespaces, the open stores, and the
dependencies. The engine alone changes it; workers read it. A :class:`Work` lives for one turn.
"""

from typing import Final, NamedTuple

import msgspec
import trio

from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.meta import Partial
from liqod.cluster.ownnetworks import OwnNetworks
from liqod.consumer.link import ProviderPeer
from liqod.consumer.remotes import Remotes
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.store import IndexedStore
from liqod.kube.client import Client
from liqod.kube.http.cpubudget import CpuBudget
from liqod.model.crossing.overrides import Override
from liqod.model.network.apiaddress import remapped_api_server
from liqod.plugins.contracts import (
    Absence,
    Json,
    Names,
    Policy,
    Reason,
    Reflector,
    RemoteKind,
    Scope,
    VirtualNode,
)
from liqod.plugins.host import PluginHost
from liqod.reflection import topology
from liqod.reflection.eventwriter import ORDINARY, EventLimits, EventWriter
from liqod.reflection.mappednamespace import MappedNamespace
from liqod.reflection.overrides import OverrideProblems, PoliciesInForce
from liqod.reflection.ownership import TOKENS
from liqod.reflection.remotecache import Source, Stamps
from liqod.reflection.statusarbitration import StatusArbiter
from liqod.reflection.thirdendpoints import ThirdEndpoints
from liqod.reflection.timings import ReflectionTimings
from liqod.reflection.topology import NamespaceMapping
from liqod.reflection.view import Dependencies, Key, Needs, ReflectedObject
from liqod.runtime.log import Seldom
from liqod.telemetry.events import KindRead, Reflected

SHARE: Final = 0.01
"""Part of the time that reading a peer's Events may take in the long run, beside the other reads
of that peer: a flood of them holds up no pod."""
SAID_FOR: Final = 86400.0
"""Seconds between two reports that they cannot be read."""


class PeerEvents:
    """The writer, the budget and the log of one peer's Event watches.

    Args:
        client: of this cluster.
        peer: the peer's id.
        which: the setting ``reflection.events``.
        limits: of the writes of them.

    Attributes:
        writer: writes them to this cluster.
        which: the setting.
        budget: the time for reading them.
        seldom: limits the reports that they cannot be read.
    """

    def __init__(
        self, client: Client, peer: str, which: str, limits: EventLimits = ORDINARY
    ) -> None:
        self.writer = EventWriter(client, peer, limits)
        self.which = which
        self.budget = CpuBudget(share=SHARE)
        self.seldom = Seldom(SAID_FOR)


TELL_EVERY = 30.0
"""Seconds between two reports that a kind at the peer cannot be read."""

Version = tuple[str, str]
"""UID and resourceVersion."""


class Context:
    """The shared state of one peer's reflection.

    Args:
        remotes: the identities that it gave us.
        grace: seconds a namespace must be off the map before its pods are given up.
        problems: told what of policies cannot be applied.

    Attributes:
        needs: the answers that were fetched for reflectors.
        dependencies: the objects that each decision read.
        reflectors: those that run, by name.
        namespaces: the mapped namespaces that are followed, by their local names.
        wide: the informers of kinds that are watched in all namespaces, once they are open.
        opened: set once the objects on nodes are known, by their kind.
        mapping: the namespaces as they are mapped.
        nodes: the peer's virtual nodes by name.
        third: the endpoints at other peers.
        own: this cluster's own networks, once they are known.
        events: the peer's Events about local objects.
        policies: the OverridePolicies in force.
        unmapped: since when (Trio time) namespaces are off the map, where one was looked up.
    """

    def __init__(
        self,
        peer: ProviderPeer,
        remotes: Remotes,
        plugins: PluginHost,
        arbiter: StatusArbiter,
        timings: ReflectionTimings,
        events: EventLimits,
        problems: OverrideProblems,
    ) -> None:
        self.peer = peer
        self.remotes = remotes
        self.plugins = plugins
        self.arbiter = arbiter
        self.timings = timings
        self.needs = Needs()
        self.dependencies = Dependencies()
        self.reflectors: dict[str, Reflector] = {}
        self.namespaces: dict[str, MappedNamespace] = {}
        self.wide: dict[Kind, SharedInformer] = {}
        self.opened: dict[Kind, trio.Event] = {}
        self.mapping = NamespaceMapping()
        self.nodes: dict[str, VirtualNode] = {}
        self.third = ThirdEndpoints(peer)
        self.own: OwnNetworks | None = None
        context = peer.context
        which = context.config.reflection.events
        self.events = PeerEvents(context.client, peer.id, which, events)
        self.policies = PoliciesInForce(context.namespace, peer.id)
        self.problems = problems
        self._names: dict[str, Names] = {}
        self._unreadable: dict[Kind, float] = {}
        self.unmapped: dict[str, float] = {}

    def names(self, namespace: str) -> Names:
        """Names and settings as they are for a namespace."""
        known = self._names.get(namespace)
        if known is not None and known.absence is Absence.MAPPED:
            return known  # only how long a namespace has been off the map is a matter of time
        unmapped_for = self._unmapped_for(namespace)
        absence = topology.absence(self.mapping, namespace, unmapped_for, self.timings.grace)
        if known is not None and known.absence is absence:
            return known
        context, settings = self.peer.context, self.peer.context.config.consumer
        own_cidrs = self.own.pod_cidrs if self.own else frozenset()
        settings_of_peer = self.peer.settings
        ranges = self.peer.network.ranges if settings_of_peer.pod_network == "tunnel" else None
        made = self._names[namespace] = Names(
            consumer=context.cluster_id,
            peer=self.peer.id,
            namespace=namespace,
            remote_namespace=self.mapping.accepted.get(namespace, ""),
            absence=absence,
            nodes=dict(self.nodes),
            pod_network=settings_of_peer.pod_network,
            ranges=ranges,
            pod_cidrs=tuple(sorted({*context.addressing.pod_cidrs, *own_cidrs})),
            service_cidrs=context.addressing.service_cidrs,
            peer_cidrs=settings_of_peer.pod_cidrs,
            node_address=context.node_address,
            node_addresses=self.own.addresses if self.own else frozenset(),
            elsewhere=self.third.nodes,
            labels_not_reflected=frozenset(settings.labels_not_reflected),
            annotations_not_reflected=frozenset(settings.annotations_not_reflected),
            home_api=remapped_api_server(
                # A pod that mounts an object that none brings would not start.
                settings_of_peer.api_server if TOKENS in self.reflectors else "none",
                context.config.api_server.for_pods,
                ranges,
                begun=self.peer.pod_network == "tunnel",
            ),
            storage=context.config.storage.enabled,
            unreachable=self.peer.reach.now,
            returns=settings.returns,
        )
        return made

    def renamed(self) -> None:
        """Note that names or settings of translations have changed."""
        self._names.clear()

    def _unmapped_for(self, namespace: str) -> float | None:
        """Seconds since a namespace was first seen off a map that is known."""
        current = self.mapping
        claimed = (current.accepted, current.desired, current.withdrawn)
        if not current.known or any(namespace in each for each in claimed):
            self.unmapped.pop(namespace, None)
            return None
        now = trio.current_time()
        return now - self.unmapped.setdefault(namespace, now)

    def store(self, kind: Kind, namespace: str) -> IndexedStore | None:
        """The local store in which objects of a kind and namespace are."""
        informer = self.wide.get(kind)
        if informer is None and (mapped := self.namespaces.get(namespace)) is not None:
            informer = mapped.local(kind)
        return None if informer is None else informer.store

    def local(self, reflector: Reflector, mapped: MappedNamespace | None) -> SharedInformer | None:
        """The informer of a reflector's own objects, once it is open."""
        if reflector.scope is Scope.NODE:
            return self.wide.get(reflector.kind)
        return None if mapped is None else mapped.local(reflector.kind, reflector.selector)

    def policy(self, reflector: str) -> Policy:
        """The effective policy of a reflector; one that is always on cannot be configured."""
        found = self.reflectors.get(reflector)
        default = Policy.DENY_LIST if found is None else found.policy
        if default is Policy.ALWAYS:
            return default
        configured = self.peer.context.config.reflection.policies.get(reflector)
        return default if configured is None else Policy(configured)

    def unreadable(self, kind: Kind, reason: str) -> None:
        """Publish that a kind at the peer cannot be read, but not at each try."""
        now = trio.current_time()
        if now - self._unreadable.get(kind, -TELL_EVERY) >= TELL_EVERY:
            self._unreadable[kind] = now
            self.peer.report(KindRead(kind=kind.plural, problem=reason))

    def readable(self, kind: Kind) -> None:
        """Publish that a kind at the peer can be read again."""
        if self._unreadable.pop(kind, None) is not None:
            self.peer.report(KindRead(kind=kind.plural, problem=""))

    def publish(
        self, subject: ReflectedObject, action: str, reason: str = "", *, kind: str = ""
    ) -> None:
        """Report to the hub the action taken on an object, with its reasons."""
        self.peer.report(
            Reflected(
                reflector=subject.reflector,
                namespace=subject.namespace,
                name=subject.name,
                action=action,
                reason=reason,
                kind=kind,
            )
        )


class State(NamedTuple):
    """All that a decision about one object depends on, where it reads nothing else.

    Attributes:
        mapped: its namespace; None where that is not mapped.
        names: names and settings.
        policies: those that change what is written at the peer.
        source: the version of the object, None where it is missing.
        remote: the state of its objects at the peer, for each kind that the reflector declares.
    """

    mapped: MappedNamespace | None
    names: Names
    policies: tuple[Override, ...]
    source: Version | None
    remote: tuple[Stamps, ...]


# Read at each event of an object, so these are no Partial, which takes a quarter longer.
class _VersionMeta(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct):
    metadata: _VersionMeta = msgspec.field(default_factory=_VersionMeta)


_object = msgspec.json.Decoder(_Object)


def version_of(body: bytes) -> Version:
    """The version of an object, given as JSON."""
    meta = _object.decode(body).metadata
    return meta.uid, meta.resource_version


class Work(msgspec.Struct):
    """One turn at one object.

    Attributes:
        subject: the object.
        mapped: its namespace; None where that is not mapped.
        source: the object; None where it is gone or not the peer's concern.
        names: names and settings.
        blind: the objects at the peer are unknown, since they have not been read yet.
        hold: it no longer concerns the peer, but its objects there are not to be touched yet.
        pauses: seconds after which it is to be reconciled again.
        reasons: those found in this turn.
        gone: the objects deleted at the peer since the last plan was carried out, as JSON, by kind.
        passages: the endpoints at other peers that a way through this cluster was asked to.
        settled: whether all is as wanted, and stays so until a part of its :class:`State`
            changes.
        written: the version that our own write of a status left.
    """

    subject: ReflectedObject
    mapped: MappedNamespace | None
    source: Json | None
    names: Names
    blind: bool = False
    hold: bool = False
    pauses: list[float] = msgspec.field(default_factory=list)
    reasons: list[Reason] = msgspec.field(default_factory=list)
    gone: dict[Kind, bytes] = msgspec.field(default_factory=dict)
    passages: set[tuple[str, str]] = msgspec.field(default_factory=set)
    settled: bool = True
    written: Version | None = None

    @property
    def key(self) -> Key:
        """Namespace and name of the object."""
        return self.subject.namespace, self.subject.name

    @property
    def origin(self) -> Source:
        """The mark on objects that were made from the object: reflector and name."""
        return self.subject.reflector, self.subject.name

    def has(self, reflector: Reflector) -> list[tuple[RemoteKind, Partial]]:
        """The object's reflections at the peer, of all kinds that the reflector declares."""
        if self.mapped is None:
            return []
        return [
            (remote, live)
            for remote in reflector.remote
            for live in self.mapped.caches[remote.kind].of(self.origin)
        ]

    def judged(self) -> None:
        """Drop the objects that were deleted at the peer: their end has had its effect."""
        if self.mapped is not None:
            for kind, body in self.gone.items():
                self.mapped.caches[kind].judged(self.origin, body)


def bare(source: Json) -> Json:
    """An object without its status: decisions are not to depend on the status before."""
    return {name: value for name, value in source.items() if name != "status"}
