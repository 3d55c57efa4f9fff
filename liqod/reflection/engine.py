"""Reflection for one peer: follows its namespace map and virtual nodes, and runs the reflectors.

Every peer has its own queues and bounds, and an engine of its own; the watches in this cluster
are shared by all of them. A change of the map starts and ends sessions, a change of the nodes or
of the link has everything reconciled again. Everything that lasts is in resources: an engine that
is killed is begun anew from what the two clusters hold.

The path of an event: a watch notifies :meth:`Worker.enqueue` of an object (a pod through
:mod:`liqod.kube.cache.nodeindex`, an object at the peer through
:mod:`liqod.reflection.remotecache`), its key waits in the worker's queue, and the worker decides
and has it written.
"""

from collections.abc import Callable, Iterator
from typing import NoReturn, TypeVar

import trio

from liqod.apimachinery.kinds import ENDPOINT_SLICES, NAMESPACES, NODES, PODS, Kind
from liqod.cluster.ownnetworks import OwnNetworks, own_networks
from liqod.consumer.link import ProviderPeer
from liqod.consumer.namespaces import unoffloadable
from liqod.consumer.namespaces.unoffloadable import UnoffloadableNamespaces
from liqod.consumer.remotes import Remotes
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.nodeindex import node_index
from liqod.kube.cache.store import IndexedStore, StoreChange
from liqod.kube.client import Client
from liqod.kube.queue import KeyedQueue
from liqod.kube.selection import EVERY, Selection
from liqod.model.network.ranges import PeerRanges, translating
from liqod.plugins.contracts import Names, Reason, Scope
from liqod.plugins.host import PluginHost
from liqod.reflection import eventwriter, topology
from liqod.reflection.eventwriter import EventLimits
from liqod.reflection.healthcheck import HealthCheck
from liqod.reflection.namespacereflection import NamespaceReflection
from liqod.reflection.overrides import OverrideProblems
from liqod.reflection.reflectioncontext import Context
from liqod.reflection.statusarbitration import StatusArbiter
from liqod.reflection.timings import ORDINARY, ReflectionTimings
from liqod.reflection.topology import NamespaceMapping, PartialVirtualNode
from liqod.reflection.view import Key, ReflectedObject
from liqod.reflection.withdrawals import Withdrawals
from liqod.reflection.worker import Worker
from liqod.reflection.workers import Workers
from liqod.resources import NAMESPACE_MAPS, OVERRIDE_POLICIES, VIRTUAL_NODES
from liqod.resources.offloading import NamespaceMap
from liqod.telemetry.events import NamespaceSession

T = TypeVar("T")


class Engine:
    """Reflection for one peer.

    Args:
        remotes: the identities that it gave us.
        events: bounds of what is written of the peer's Events.
        problems: told what of OverridePolicies cannot be applied.

    Attributes:
        reflectors: those that run, in the order in which they were loaded.
        workers: one for each of them.
    """

    def __init__(
        self,
        peer: ProviderPeer,
        remotes: Remotes,
        plugins: PluginHost,
        arbiter: StatusArbiter,
        *,
        timings: ReflectionTimings = ORDINARY,
        events: EventLimits = eventwriter.ORDINARY,
        problems: OverrideProblems | None = None,
    ) -> None:
        self.peer = peer
        self.remotes = remotes
        told = (events, problems or OverrideProblems())
        self.context = Context(peer, remotes, plugins, arbiter, timings, *told)
        disabled = topology.disabled(peer.context.config)
        found = plugins.loaded.reflectors
        self.reflectors = tuple(each for each in found if each.name not in disabled or each.always)
        self.workers = Workers(self.context.dependencies)
        for each in self.reflectors:
            self.context.reflectors[each.name] = each
            # What a disabled reflector reflects all the same: objects that pods at the peer need.
            only = each.always if each.name in disabled else None
            self.workers[each.name] = Worker(each, self.context, only)
            if each.scope is Scope.NODE:
                self.context.opened[each.kind] = trio.Event()
        self._sessions: dict[str, NamespaceReflection] = {}
        """The reflection of each namespace, by its local name."""
        self._scopes: dict[str, trio.CancelScope] = {}
        """The cancel scope of each of them."""
        self._followed: dict[tuple[str, str], Callable[[], None]] = {}
        """The function that ends following a virtual node, by reflector and node."""
        self._borrows = False
        """True once this peer lends us anything: cluster-wide watches start only then."""
        self._changed = trio.Event()
        self._withdrawals = Withdrawals(self.context)

    # For inspection

    @property
    def queues(self) -> dict[str, KeyedQueue[Key]]:
        """The queue of each reflector."""
        return {name: worker.queue for name, worker in self.workers.items()}

    def reasons(self) -> Iterator[tuple[ReflectedObject, Reason]]:
        """The reasons why objects are not as they are to be."""
        for worker in self.workers.values():
            yield from worker.reasons()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the peer's virtual nodes."""
        return tuple(self.context.nodes)

    @property
    def mapping(self) -> NamespaceMapping:
        """The namespaces as they are mapped."""
        return self.context.mapping

    def names(self, namespace: str) -> Names:
        """Names and settings as they are for a namespace."""
        return self.context.names(namespace)

    # Running

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Reflect until cancelled; started once map and nodes have been read."""
        share, context = self.peer.context.informers.share, self.context
        async with (
            share(NAMESPACE_MAPS) as maps,
            share(VIRTUAL_NODES) as nodes,
            share(NODES) as real,
            share(NAMESPACES) as namespaces,
            share(OVERRIDE_POLICIES) as policies,
            trio.open_nursery() as nursery,
        ):
            tenant = self.peer.tenant_namespace
            where = self.peer.context.namespace
            self._unoffloadable = UnoffloadableNamespaces(where, namespaces.store)
            stops = [each.subscribe(self._stir, namespace=tenant) for each in (maps, nodes)]
            stops.append(namespaces.subscribe(self._stir_if_tenants))
            stops.append(nodes.subscribe(self._on_node))
            context.policies.read(policies.store)
            stops.append(policies.subscribe(self._on_policy))
            own = context.own = own_networks(real)
            ranges = self.peer.network.ranges
            try:
                self._read(maps, nodes)
                for worker in self.workers.values():
                    await nursery.start(worker.run)
                nursery.start_soon(self._follow_remotes)
                nursery.start_soon(self._follow_link)
                nursery.start_soon(self._follow_networks, own)
                nursery.start_soon(self._follow_ranges, ranges)
                nursery.start_soon(context.third.follow, self._renamed)
                nursery.start_soon(context.third.follow_addresses, self._readdressed)
                nursery.start_soon(context.third.settle, self._gone_through)
                check = HealthCheck(context, self.workers, self._requeue_all, context.timings)
                nursery.start_soon(check.run)
                nursery.start_soon(context.events.writer.run)
                nursery.start_soon(self._withdrawals.run)
                task_status.started()
                while True:
                    # Made before reading: what changes while this round goes on begins another.
                    self._changed = trio.Event()
                    self._read(maps, nodes)
                    if not self._borrows and (context.nodes or context.mapping.known):
                        self._borrows = True
                        for kind in self._wide_kinds():
                            nursery.start_soon(self._watch_everywhere, kind)
                    self._adjust(nursery)
                    await self._changed.wait()
            finally:
                for stop in stops:
                    stop()
                context.problems.forget(self.peer.id)
        raise AssertionError("an engine runs until it is cancelled")

    def _stir(self, change: StoreChange) -> None:
        self._changed.set()

    def _stir_if_tenants(self, change: StoreChange) -> None:
        if unoffloadable.concerns(change):
            self._changed.set()

    def _on_node(self, change: StoreChange) -> None:
        """A virtual node of another peer comes or goes."""
        if self.context.third.on_node(change):
            self._renamed()

    def _on_policy(self, change: StoreChange) -> None:
        """Reconcile the objects that a policy concerns: their manifests may be others now."""
        namespace = self.context.policies.changed(change.key)
        for worker in self.workers.values():
            worker.enqueue_all(namespace)

    def _read(self, maps: SharedInformer, nodes: SharedInformer) -> None:
        """Read the map and the nodes, and have everything reconciled again that they concern."""
        context, tenant = self.context, self.peer.tenant_namespace
        before = (context.mapping, context.nodes)
        # Of this one alone, no matter what the peer has put beside it.
        found, stays = maps.store.decode((tenant, self.peer.id), NamespaceMap), self._unoffloadable
        wanted = () if found is None else (found,)
        context.mapping = topology.mapping(wanted, self.peer.id, stays.problem)
        context.nodes = topology.virtual_nodes(
            _in(nodes.store, tenant, PartialVirtualNode), self.peer.id
        )
        self.peer.context.own_pods.need(context.nodes)
        if before != (context.mapping, context.nodes):
            self._follow_nodes()
            if context.mapping.known:
                current = context.mapping
                context.third.keep({*current.accepted, *current.desired, *current.withdrawn})
            if context.unmapped:
                # Of namespaces that hold something of ours; the others begin anew on request.
                held = {key[0] for worker in self.workers.values() for key in worker.objects()}
                off = held - context.mapping.accepted.keys() if context.mapping.known else ()
                context.unmapped = {ns: at for ns, at in context.unmapped.items() if ns in off}
            self._renamed()

    async def _follow_networks(self, own: OwnNetworks) -> NoReturn:
        """Reconcile all when this cluster's networks change: no peer's pod may claim these."""
        while True:
            await own.changed()
            self._renamed()

    async def _follow_ranges(self, ranges: PeerRanges | None) -> NoReturn:
        """Reconcile all when the ranges for translation change, also before this task ran first."""
        network = self.peer.network
        while True:
            # Endpoints at other peers translate nothing of what is reflected.
            if translating(network.ranges) != translating(ranges):
                self._renamed()
            ranges = network.ranges
            await network.wait_changed()

    def _gone_through(self) -> bool | None:
        """True if each EndpointSlice of the mapped namespaces was worked on, and none waits.

        None where there is no map.
        """
        mapping, mapped = self.context.mapping, self.context.namespaces
        workers = [each for each in self.workers.values() if each.reflector.kind == ENDPOINT_SLICES]
        ready = all(
            namespace in mapped and each.reflector.name in mapped[namespace].ready
            for each in workers
            for namespace in mapping.accepted
        )
        works = any(each.queue.waiting or each.queue.busy for each in workers)
        return ready and not works if mapping.known else None

    def _readdressed(self) -> None:
        """Reconcile the objects that ask for ways to endpoints at other peers."""
        for subject in self.context.third.published:
            self.workers[subject.reflector].requeue((subject.namespace, subject.name))

    def _renamed(self) -> None:
        """The names and settings of translations have changed."""
        self.context.renamed()
        self._requeue_all()

    # Watches in all namespaces

    def _wide_kinds(self) -> list[Kind]:
        """Kinds whose objects are on nodes, and those that reflectors read everywhere."""
        read = [
            reads.kind
            for reflector in self.reflectors
            for reads in reflector.reads
            if reads.everywhere or not reads.kind.namespaced
        ]
        return list(dict.fromkeys([*self.context.opened, *read]))

    async def _watch_everywhere(self, kind: Kind) -> NoReturn:
        """Watch a kind in all namespaces; peers and components share the informer."""
        own_pods = self.peer.context.own_pods
        is_read = any(reads.kind == kind for each in self.reflectors for reads in each.reads)
        if kind != PODS or is_read:  # where a reflector reads pods, it may read any of them
            await self._watch_selected(kind, EVERY, is_read)
        while True:
            # Ended before its successor begins: meanwhile its store stays, as it was.
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch_selected, kind, own_pods.selection, is_read)
                await own_pods.changed()
                nursery.cancel_scope.cancel()

    async def _watch_selected(self, kind: Kind, selection: Selection, is_read: bool) -> NoReturn:
        context = self.context
        async with self.peer.context.informers.share(kind, selection) as informer:
            anew = kind in context.wide
            context.wide[kind] = informer
            stop = None
            if is_read:
                changed = self.workers.read_changed
                stop = informer.subscribe(lambda change: changed(kind, change.key))
            try:
                if kind in context.opened:
                    context.opened[kind].set()
                    self._unfollow(kind)  # a node that came meanwhile is followed on the one before
                    self._follow_nodes()
                if anew:
                    self._requeue_all()  # neither watch has shown what went between the two
                self._withdrawals.look()
                await trio.sleep_forever()
            finally:
                if stop is not None:
                    stop()
                self._unfollow(kind)
        raise AssertionError("watching ends by cancellation only")

    def _kind(self, reflector: str) -> Kind:
        return self.workers[reflector].reflector.kind

    def _unfollow(self, kind: Kind) -> None:
        for followed in [each for each in self._followed if self._kind(each[0]) == kind]:
            self._followed.pop(followed)()

    def _follow_nodes(self) -> None:
        """Have workers notified of the objects on the peer's own virtual nodes, and no others."""
        workers = [
            worker for worker in self.workers.values() if worker.reflector.scope is Scope.NODE
        ]
        wanted = {(each.reflector.name, node) for each in workers for node in self.context.nodes}
        for gone in self._followed.keys() - wanted:
            self._followed.pop(gone)()
        for name, node in wanted - self._followed.keys():
            informer = self.context.wide.get(self._kind(name))
            if informer is not None:
                enqueue = self.workers[name].enqueue
                self._followed[name, node] = node_index(informer).follow(node, enqueue)

    # Sessions

    def _adjust(self, nursery: trio.Nursery) -> None:
        """End the sessions that are no longer due, and start those that are."""
        context, remote = self.context, self.remotes.any_slice()
        due = dict(context.mapping.accepted) if remote is not None else {}
        for namespace, session in list(self._sessions.items()):
            same = remote is not None and session.mapped.client is remote.client
            same = same and session.offered == self.workers.offered(context.nodes)
            if due.get(namespace) != session.mapped.remote_namespace or not same:
                self._scopes.pop(namespace).cancel()
                del self._sessions[namespace], context.namespaces[namespace]
                self.peer.report(NamespaceSession(namespace=namespace, state="ended"))
        for namespace, remote_namespace in due.items():
            if namespace not in self._sessions and remote is not None:
                self._start(nursery, namespace, remote_namespace, remote.client)
        if context.mapping.known:
            # A namespace that is desired but missing may still come; one no longer desired is over.
            arbiter, concerned = context.arbiter, {*context.mapping.accepted}
            concerned |= context.mapping.desired
            arbiter.end(self.peer.id, arbiter.namespaces(self.peer.id) - concerned)

    def _start(
        self, nursery: trio.Nursery, namespace: str, remote_namespace: str, client: Client
    ) -> None:
        session = NamespaceReflection(
            namespace, remote_namespace, client=client, context=self.context, workers=self.workers
        )
        scope = self._scopes[namespace] = trio.CancelScope()
        self._sessions[namespace] = session
        self.context.namespaces[namespace] = session.mapped
        self.peer.report(NamespaceSession(namespace=namespace, state="started"))
        nursery.start_soon(self._run_session, session, scope)

    async def _run_session(self, session: NamespaceReflection, scope: trio.CancelScope) -> None:
        with scope:
            await session.run()
        # Another one of the same namespace may have begun meanwhile: then nothing is left.
        namespace = session.mapped.namespace
        if namespace not in self._sessions:
            for worker in self.workers.values():
                worker.unmap(namespace)
        self._requeue_all(namespace)

    # Having everything reconciled

    def _requeue_all(self, only: str | None = None) -> None:
        """Have everything reconciled again in both clusters, or everything of one namespace."""
        for worker in self.workers.values():
            worker.unsettle()
        for worker in self.workers.values():
            worker.enqueue_all(only)
        for namespace, mapped in self.context.namespaces.items():
            if only in (None, namespace):
                mapped.enqueue_remote()

    async def _follow_remotes(self) -> NoReturn:
        while True:
            await self.remotes.changed()
            self._changed.set()
            self._requeue_all()

    async def _follow_link(self) -> NoReturn:
        """Reconcile all that waits for a peer that does not answer, as soon as it does."""
        link = self.peer.link
        lost = link.reconnections
        while True:
            await link.wait_changed()
            if link.up:
                self._wake(anew=link.reconnections != lost)
                lost = link.reconnections
                self._requeue_all()

    def _wake(self, *, anew: bool) -> None:
        # Not in a loop of a task that waits next: that would hold the last session after its end.
        for session in self._sessions.values():
            if anew:
                session.restart()
            session.wake()


def _in(store: IndexedStore, namespace: str, kind: type[T]) -> list[T]:
    """The objects of a namespace, decoded."""
    found = (store.decode(key, kind) for key in store.indexed("namespace", namespace))
    return [each for each in found if each is not None]
