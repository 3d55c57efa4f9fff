"""Reflection for one peer: follows its namespace map and virtual nodes, and runs the reflectors.

Every peer has its own queues and bounds, and an engine of its own; what is watched in this cluster
is shared by all of them. A change of the map starts and ends sessions, a change of the nodes or
of the link has everything looked at again. Everything that lasts is in resources: an engine that
is killed is begun anew from what the two clusters hold.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn, TypeVar

import trio

from liqod.consumer.namespaces import staying
from liqod.consumer.namespaces.staying import Staying
from liqod.consumer.remotes import Remotes
from liqod.kube import times
from liqod.kube.cache.informer import Informer
from liqod.kube.cache.store import Change, Store
from liqod.kube.client import Client
from liqod.kube.kinds import NAMESPACES, NODES, Kind
from liqod.kube.queue import KeyedQueue
from liqod.ownnetworks import OwnNetworks, own_networks
from liqod.peer import Peer
from liqod.plugins.contracts import Names, Policy, Reason, Reflector, Scope, VirtualNode
from liqod.reflection import topology
from liqod.reflection.attention import Attention
from liqod.reflection.needs import Needs
from liqod.reflection.session import Ears, Session
from liqod.reflection.topology import GRACE, NamespaceMapping, Node
from liqod.reflection.view import Dependencies, Key, Subject
from liqod.reflection.wide import Wide
from liqod.reflection.worker import Worker
from liqod.resources import NAMESPACE_MAPS, VIRTUAL_NODES
from liqod.resources.offloading import NamespaceMap

T = TypeVar("T")

TELL_EVERY = 30.0
"""Seconds between two reports that a kind at the peer cannot be read."""


class Engine:
    """Reflection for one peer.

    Args:
        peer: the peer.
        remotes: the identities that it gave us.
        grace: seconds a namespace must be off the map before its pods are given up.

    Attributes:
        reflectors: those that run, in the order in which they were loaded.
    """

    def __init__(self, peer: Peer, remotes: Remotes, *, grace: float = GRACE) -> None:
        self.peer = peer
        self.remotes = remotes
        self.needs = Needs()
        self.dependencies = Dependencies()
        disabled = peer.home.config.reflection.disabled
        found = peer.home.plugins.reflectors
        self.reflectors = tuple(each for each in found if each.name not in disabled or each.always)
        self._only = {each.name: each.always for each in self.reflectors if each.name in disabled}
        """The names that a disabled reflector reflects all the same: twins cannot do without."""
        self._workers = {each.name: Worker(each, self) for each in self.reflectors}
        self.grace = grace
        self._mapping = NamespaceMapping()
        self._nodes: dict[str, VirtualNode] = {}
        self._names: dict[str, Names] = {}
        self._elsewhere: frozenset[str] = frozenset()
        self._unmapped: dict[str, float] = {}
        self._sessions: dict[str, tuple[Session, trio.CancelScope]] = {}
        self._wide = Wide(self.reflectors, self._enqueue, self._object_changed)
        self._borrows = False
        """Whether this peer lends us anything: what is watched everywhere is watched from then."""
        self._attention = Attention(
            peer.link, self._running, self._workers.values(), self._look_again
        )
        self._troubled: dict[Kind, float] = {}
        self._own: OwnNetworks | None = None
        self._changed = trio.Event()

    @property
    def queues(self) -> dict[str, KeyedQueue[Key]]:
        """The queue of each reflector, for those who look."""
        return {name: worker.queue for name, worker in self._workers.items()}

    def told(self) -> Iterator[tuple[Subject, Reason]]:
        """Why objects are not as they are to be, for those who look."""
        for worker in self._workers.values():
            yield from worker.told()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the peer's virtual nodes, for those who look."""
        return tuple(self._nodes)

    @property
    def mapping(self) -> NamespaceMapping:
        """The namespaces as they are mapped, for those who look."""
        return self._mapping

    # What workers are given

    def session(self, namespace: str) -> Session | None:
        """The session of a mapped namespace."""
        found = self._sessions.get(namespace)
        return None if found is None else found[0]

    def names(self, namespace: str) -> Names:
        """Names and settings as they are for a namespace."""
        unmapped_for = self._unmapped_for(namespace)
        absence = topology.absence(self._mapping, namespace, unmapped_for, self.grace)
        known = self._names.get(namespace)
        if known is not None and known.absence is absence:
            return known
        home = self.peer.home
        settings = home.config.consumer
        own_cidrs = self._own.pod_cidrs if self._own else frozenset()
        made = self._names[namespace] = Names(
            consumer=home.cluster_id,
            peer=self.peer.id,
            namespace=namespace,
            remote_namespace=self._mapping.accepted.get(namespace, ""),
            absence=absence,
            nodes=dict(self._nodes),
            pod_network=self.peer.settings.pod_network,
            pod_cidrs=tuple(sorted({*home.addressing.pod_cidrs, *own_cidrs})),
            service_cidrs=home.addressing.service_cidrs,
            peer_cidrs=self.peer.settings.pod_cidrs,
            node_address=home.node_address,
            node_addresses=self._own.addresses if self._own else frozenset(),
            elsewhere=self._elsewhere,
            labels_not_reflected=frozenset(settings.labels_not_reflected),
            annotations_not_reflected=frozenset(settings.annotations_not_reflected),
        )
        return made

    def store(self, kind: Kind, namespace: str) -> Store | None:
        """The local store in which objects of a kind and namespace are."""
        wide = self._wide.informer(kind)
        if wide is not None:
            return wide.store
        session = self.session(namespace)
        return None if session is None else session.store(kind)

    def placed(self, kind: Kind) -> Informer | None:
        """The cluster-wide informer of a kind whose objects are on nodes."""
        return self._wide.informer(kind)

    def policy(self, reflector: str) -> Policy:
        """The policy in force for a reflector; one that is always on cannot be configured."""
        worker = self._workers.get(reflector)
        default = Policy.DENY_LIST if worker is None else worker.reflector.policy
        if default is Policy.ALWAYS:
            return default
        configured = self.peer.home.config.reflection.policies.get(reflector)
        return default if configured is None else Policy(configured)

    def ask_again(self, subject: Subject) -> None:
        """Have an object looked at, whatever it was left with."""
        worker = self._workers.get(subject.reflector)
        if worker is not None:
            worker.ask_again((subject.namespace, subject.name))

    def settings(self, reflector: str) -> Any:
        """The settings of a reflector, as its own type has them."""
        return self.peer.home.plugins.settings.get(("reflector", reflector))

    def now(self) -> str:
        """RFC 3339 time, to the second as Kubernetes writes it."""
        return times.now()

    # Running

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Reflect until cancelled; started once map and nodes have been read."""
        share = self.peer.home.informers.share
        async with (
            share(NAMESPACE_MAPS) as maps,
            share(VIRTUAL_NODES) as nodes,
            share(NODES) as real,
            share(NAMESPACES) as namespaces,
            trio.open_nursery() as nursery,
        ):
            tenant = self.peer.tenant_namespace
            self._staying = Staying(self.peer.home.namespace, namespaces.store)
            stops = [each.subscribe(self._stir, namespace=tenant) for each in (maps, nodes)]
            stops.append(namespaces.subscribe(self._stir_if_tenants))
            stops.append(nodes.subscribe(self._on_node))
            self._own = own_networks(real)
            try:
                self._read(maps, nodes)
                for worker in self._workers.values():
                    await nursery.start(worker.run)
                nursery.start_soon(self._follow_remotes)
                nursery.start_soon(self._follow_link)
                nursery.start_soon(self._follow_networks, self._own)
                nursery.start_soon(self._attention.run)
                task_status.started()
                while True:
                    self._changed = trio.Event()
                    self._read(maps, nodes)
                    if not self._borrows and (self._nodes or self._mapping.known):
                        self._borrows = True
                        nursery.start_soon(self._wide.run, share)
                    self._adjust(nursery)
                    await self._changed.wait()
            finally:
                for stop in stops:
                    stop()
        raise AssertionError("an engine runs until it is cancelled")

    def _stir(self, change: Change) -> None:
        self._changed.set()

    def _stir_if_tenants(self, change: Change) -> None:
        if staying.concerns(change):
            self._changed.set()

    def _on_node(self, change: Change) -> None:
        """A virtual node of another peer comes or goes."""
        namespace, name = change.key
        found = self._elsewhere | {name} if change.new is not None else self._elsewhere - {name}
        if namespace != self.peer.tenant_namespace and found != self._elsewhere:
            self._elsewhere = found
            self._renamed()

    def _read(self, maps: Informer, nodes: Informer) -> None:
        """Take in what the map and the nodes say, and have looked at again what that concerns."""
        before = (self._mapping, self._nodes)
        tenant = self.peer.tenant_namespace
        # Of this one alone, whatever the peer has put beside it.
        found, stays = maps.store.decode((tenant, self.peer.id), NamespaceMap), self._staying
        wanted = () if found is None else (found,)
        self._mapping = topology.mapping(wanted, self.peer.id, stays.problem)
        self._nodes = topology.virtual_nodes(_in(nodes.store, tenant, Node), self.peer.id)
        if before != (self._mapping, self._nodes):
            self._wide.follow(self._nodes)
            if self._unmapped:
                held = {key[0] for reflector in self.reflectors for key in self._keys(reflector)}
                off = held - self._mapping.accepted.keys() if self._mapping.known else ()
                self._unmapped = {each: at for each, at in self._unmapped.items() if each in off}
            self._renamed()

    async def _follow_networks(self, own: OwnNetworks) -> NoReturn:
        """What a peer's pod may claim as its address has changed."""
        while True:
            await own.changed()
            self._renamed()

    def _renamed(self) -> None:
        """The names and settings of translations have changed."""
        self._names.clear()
        self._look_again()

    def _unmapped_for(self, namespace: str) -> float | None:
        """Seconds since a namespace was first seen off a map that is known."""
        current = self._mapping
        claimed = (current.accepted, current.desired, current.withdrawn)
        if not current.known or any(namespace in each for each in claimed):
            self._unmapped.pop(namespace, None)
            return None
        now = trio.current_time()
        return now - self._unmapped.setdefault(namespace, now)

    # Sessions

    def _adjust(self, nursery: trio.Nursery) -> None:
        """End the sessions that are no longer due, and start those that are."""
        remote = self.remotes.any_slice()
        due = dict(self._mapping.accepted) if remote is not None else {}
        for namespace, (session, scope) in list(self._sessions.items()):
            same = remote is not None and session.client is remote.client
            if due.get(namespace) != session.remote_namespace or not same:
                scope.cancel()
                del self._sessions[namespace]
                self.peer.report("namespace", namespace=namespace, state="ended")
        for namespace, remote_namespace in due.items():
            if namespace not in self._sessions and remote is not None:
                self._start(nursery, namespace, remote_namespace, remote.client)
        if self._mapping.known:
            # What is asked for and not there (yet) may come; what is not asked for is over.
            voices, concerned = self.peer.home.voices, {*self._mapping.accepted}
            concerned |= self._mapping.desired
            voices.end(self.peer.id, voices.namespaces(self.peer.id) - concerned)

    def _start(
        self, nursery: trio.Nursery, namespace: str, remote_namespace: str, client: Client
    ) -> None:
        session = Session(
            namespace,
            remote_namespace,
            client=client,
            owners=(self.peer.home.cluster_id, self.peer.id),
            reflectors=self.reflectors,
            ears=Ears(
                self._enqueue, self._object_changed, self._look_at_namespace, self._tell_problem
            ),
        )
        scope = trio.CancelScope()
        self._sessions[namespace] = (session, scope)
        self.peer.report("namespace", namespace=namespace, state="started")
        nursery.start_soon(self._run_session, session, scope)

    async def _run_session(self, session: Session, scope: trio.CancelScope) -> None:
        with scope:
            await session.run(self.peer.home.informers, self._wide.placed)
        if session.namespace not in self._sessions:
            for worker in self._workers.values():
                worker.leave(session.namespace)
        self._look_again(session.namespace)

    def _running(self) -> list[Session]:
        return [session for session, _ in self._sessions.values()]

    # Telling the workers

    def _enqueue(self, subject: Subject, late: float = 0.0) -> None:
        worker = self._workers.get(subject.reflector)
        if worker is not None and subject.name in self._only.get(
            subject.reflector, (subject.name,)
        ):
            worker.look((subject.namespace, subject.name), late)

    def _object_changed(self, kind: Kind, key: Key) -> None:
        for subject in self.dependencies.readers(kind, key):
            self._enqueue(subject)

    def _look_again(self, only: str | None = None) -> None:
        """Have everything looked at again, here and there, or everything of one namespace."""
        for worker in self._workers.values():
            worker.unsettle()
        for reflector in self.reflectors:
            self._look_at_namespace(reflector, only)
        for namespace, (session, _) in self._sessions.items():
            if only in (None, namespace):
                session.look_again()

    def _look_at_namespace(self, reflector: Reflector, only: str | None) -> None:
        for key in self._keys(reflector):
            if only in (None, key[0]):
                self._enqueue(Subject(reflector.name, *key))

    def _keys(self, reflector: Reflector) -> Iterable[Key]:
        """Its objects that there are, and those that went while nothing could be done about it."""
        keys = self._workers[reflector.name].remembered
        if reflector.scope is Scope.NODE:
            return keys.union(self._wide.keys(reflector, self._nodes))
        for session, _ in self._sessions.values():
            informer = session.local(reflector.kind, reflector.selector)
            keys.update(() if informer is None else informer.store.keys())
        return keys

    async def _follow_remotes(self) -> NoReturn:
        while True:
            await self.remotes.changed()
            self._changed.set()
            self._look_again()

    async def _follow_link(self) -> NoReturn:
        """What waits for a peer that does not answer is looked at as soon as it does."""
        link = self.peer.link
        lost = link.lost
        while True:
            await link.wait_changed()
            if link.up:
                self._wake(anew=link.lost != lost)
                lost = link.lost
                self._look_again()

    def _wake(self, *, anew: bool) -> None:
        # Not in a loop of a task that waits next: that would hold the last session after its end.
        for session in self._running():
            if anew:
                session.restart()
            session.wake()

    def _tell_problem(self, kind: Kind, reason: str | None) -> None:
        """Publish that a kind at the peer cannot be read, but not at each try."""
        now = trio.current_time()
        if reason is None:
            if self._troubled.pop(kind, None) is not None:
                self.peer.report("kind", kind=kind.plural, problem="")
        elif now - self._troubled.get(kind, -TELL_EVERY) >= TELL_EVERY:
            self._troubled[kind] = now
            self.peer.report("kind", kind=kind.plural, problem=reason)


def _in(store: Store, namespace: str, kind: type[T]) -> list[T]:
    """The objects of a namespace, decoded."""
    found = (store.decode(key, kind) for key in store.indexed("namespace", namespace))
    return [each for each in found if each is not None]
