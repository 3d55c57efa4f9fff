"""Makes the ServiceImports of this cluster, of its own exports and of those that peers tell it.

Each cluster does so for itself. An import has a Service without a selector, whose address is the
import's, and the EndpointSlices of all exporters. Of a peer that cannot be judged yet everything
stays as it is.
"""

from collections.abc import Iterator, Mapping
from time import thread_time
from typing import Any, Final, NoReturn

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ENDPOINT_SLICES, NAMESPACES, SERVICES
from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.cluster.context import ClusterContext
from liqod.cluster.tenancy import tenant_of
from liqod.clusterset import exportstatus
from liqod.clusterset.echoes import Echoes, version_of
from liqod.clusterset.exportstatus import ExportStatus, write_status
from liqod.clusterset.ownexports import OwnExports
from liqod.clusterset.preferences import Preferences
from liqod.clusterset.reach import BY_IMPORT, Reach, import_of, source_of
from liqod.clusterset.sharing import MADE_HERE, Kinds, Sharing
from liqod.clusterset.toldexports import INDEXES, Confirmations, Heard, ToldExports, news
from liqod.clusterset.withdrawal import withdraw
from liqod.errors import AlreadyExists, PermanentError
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.controller import Controller
from liqod.kube.deletion import delete_all
from liqod.kube.ensure import change, ensure, stamped
from liqod.kube.http.cpubudget import Metered
from liqod.kube.selection import Selection
from liqod.kube.watched import DOUBT, Watched
from liqod.model.clusterset import byway, since, verdicts
from liqod.model.clusterset.choosing import Choice
from liqod.model.clusterset.exports import Export
from liqod.model.clusterset.importing import (
    derived_name,
    derived_service,
    import_manifest,
    owned_by,
    slice_manifests,
    without_address,
)
from liqod.model.clusterset.merging import Merged, merge
from liqod.resources.exchanges import SERVICE_EXCHANGES
from liqod.resources.multicluster import SERVICE_NAME, ServiceImport
from liqod.telemetry.events import ServiceImported

WORKERS: Final = 4
PEERS_FIRST: Final = 0.05
"""Seconds that this cluster's own import of a change waits: peers are told first, whose way is
longer, and all of it takes the same processors."""


async def run(context: ClusterContext, sharing: Sharing | None) -> NoReturn:
    """Keep this cluster's imports until cancelled, once the kinds are there.

    Args:
        sharing: the peers that Services are shared with; None where they are with none: then what
            is left of imports is removed.
    """
    if sharing is None:
        await withdraw(context)
        await trio.sleep_forever()
    await Imports(context, sharing, await sharing.kinds()).run()
    raise AssertionError("controllers end by cancellation only")


class Imports(Controller[Key]):
    """The ServiceImports of this cluster; a key is namespace and name, as of the Service.

    Args:
        sharing: the peers that Services are shared with.
        kinds: the kinds that this cluster serves.
    """

    def __init__(self, context: ClusterContext, sharing: Sharing, kinds: Kinds) -> None:
        self._context = context
        self._client = context.client
        self._sharing = sharing
        self._kinds = kinds
        self._own = OwnExports[Key](
            context.cluster_id, kinds.exports, lambda key: key, after=PEERS_FIRST
        )
        self._imports = Watched(kinds.imports, self._on_import)
        self._echoes = Echoes()
        """Writes of imports and their slices."""
        self._exchanges = Watched(SERVICE_EXCHANGES, self._on_exchange, indexes=INDEXES)
        self._made = Watched(
            ENDPOINT_SLICES,
            self._on_made,
            Selection(labels=MADE_HERE),
            indexes={BY_IMPORT: import_of},
        )
        self._namespaces: Watched[Key] = Watched(NAMESPACES, indexes=exportstatus.INDEXES)
        self._preferences = Preferences(context.cluster_id, self._own, self._every)
        self._reach = Reach(context.cluster_id, sharing, self._own, self._made)
        self._told = ToldExports(self._exchanges, self._namespaces, sharing)
        self._status = ExportStatus(
            self._client, kinds.exports, self._own, self._namespaces, sharing
        )
        self._confirmations = Confirmations(self._own.has_mark)
        self._causes: dict[Key, str] = {}
        """The peer that has changed an export since its import was made last."""
        self._reported: dict[Key, tuple[str, ...]] = {}
        super().__init__(
            context,
            "imports",
            *self._own.watches,
            *(self._namespaces, self._imports, self._made, self._exchanges),
            self._preferences.nodes,
            name="imports of services",
            tasks=(self._follow_peers, self._follow_bounds, sharing.renew_daily),
            concurrency=WORKERS,
        )

    # --- changes --------------------------------------------------------------------------------

    def _on_exchange(self, change: StoreChange) -> Iterator[Key]:
        """Have the imports of changed exports made, when the peer's work may be done.

        The exporter takes changes of endpoints together, so these are not waited for once more. A
        confirmation of what this cluster exports now follows from its own work, and waits not.
        """
        namespace = self._namespaces.store.decode(("", change.key[0]), Partial)
        peer = tenant_of(namespace) if namespace is not None else None
        sharing = self._sharing.peers.get(peer or "")
        began = thread_time()
        found = news(change, self._context.cluster_id)
        taken = self._confirmations.new(peer or "", found.confirmed)
        if sharing is not None and not found.own:
            sharing.charge(thread_time() - began)  # also where nothing follows from it
        pause = sharing.debt() if sharing is not None else 0.0
        for key in found.keys - taken:
            self._causes[key] = peer or ""
            self.queue.add(key, after=pause)
        yield from taken

    def _on_import(self, change: StoreChange) -> Iterator[Key]:
        if not self._echoes.has(change):
            yield change.key

    def _on_made(self, change: StoreChange) -> Iterator[Key]:
        if self._echoes.has(change):
            return
        body = change.new if change.new is not None else change.old
        assert body is not None
        meta = msgspec.json.decode(body, type=Partial).metadata
        yield meta.namespace, meta.labels.get(SERVICE_NAME, "")

    def _every(self) -> Iterator[Key]:
        keys = self._told.keys() | set(self._imports.store) | set(self._own.exports.store)
        yield from sorted(keys)  # those of one exchange together

    async def _follow_peers(self) -> NoReturn:
        await self.whenever(self._sharing.wait_changed, self._every, debounce=0.1)

    async def _follow_bounds(self) -> NoReturn:
        await self.whenever(self._sharing.wait_bounds, self._sharing.take_bounds)

    # --- reconciling ----------------------------------------------------------------------------

    async def reconcile(self, key: Key) -> float | None:
        """Have the import of one name made, at the expense of the peer that has changed it."""
        cause = self._causes.pop(key, "")
        metered = Metered(self._import(key))
        try:
            return await metered
        finally:
            sharing = self._sharing.peers.get(cause)
            if sharing is not None:
                sharing.charge(metered.used)

    async def _import(self, key: Key) -> float | None:
        """Have the import of one name, and what is said of it, as the exports make it."""
        found = self._own.of(key)
        if not isinstance(found, Export):
            self._confirmations.forget(key)
        before = self._imports.store.decode(key, ServiceImport)
        importing = {each.cluster for each in before.status.clusters} if before else set()
        known = self._told.of(key, found, importing, _since(before), _ways(before))
        self._report(key, known.refused)
        doubtful = await self._lacking(key, importing, known, _ways(before))
        merged = merge(known.exports)
        again: float | None = None
        refused: PermanentError | None = None
        if merged is not None:
            again, refused = await self._make(key, merged, known)
        elif not known.kept:
            await self._remove(key)
        again = DOUBT if doubtful else again
        await self._status.tell(key, found, merged, complete=not known.kept)
        if refused is not None:
            raise refused  # the key is tried again
        return again

    async def _lacking(
        self, key: Key, importing: set[str], known: Heard, ways: Mapping[str, str]
    ) -> bool:
        """Have the endpoints kept of clusters that export no more, unless that is certain.

        Returns:
            True if it is not for any.
        """
        there = importing | {source_of(each) for each in self._reach.slices(key).values()}
        found = known.kept | {each.cluster for each in known.exports}
        own = self._context.cluster_id
        for cluster in sorted(there - found):
            if cluster == own:
                ended = await self._own.surely_ended(key)
            else:
                hub = ways.get(cluster)
                who = (hub, own, cluster) if hub else (cluster, own)
                ended = await self._told.surely_ended(self._client, key, *who)
            if not ended:
                known.kept.add(cluster)
                known.by_way.update({cluster: ways[cluster]} if cluster in ways else {})
        return not known.kept <= found

    async def _make(
        self, key: Key, merged: Merged, known: Heard
    ) -> tuple[float | None, PermanentError | None]:
        """Have the objects of an import; when to look again, and why its Service is refused."""
        families = self._families(key)
        live = self._imports.store.decode(key, ServiceImport)
        meta = live.metadata if live is not None else None
        ips = self._ips(key, merged) or (live.spec.ips if live is not None else ())
        noted = since.noted(known.exports, _since(live), self._context.cluster_id)
        kept = since.render(noted)
        notes = {labels.EXPORTED_SINCE: kept, labels.BY_WAY: byway.render(known.by_way)}
        wanted = import_manifest(merged, families, ips, notes=notes)
        meta = await self._write(wanted, self._imports.store.get(key), meta)
        if meta is None:
            return DOUBT, None
        owner = owned_by(self._kinds.imports, meta)
        refused: PermanentError | None = None
        try:
            given = await self._serve(key, merged, families, owner, ips)
        except PermanentError as error:
            refused = error  # clients of the address that there is still need its endpoints
            given = self._ips(key, merged)
        choice = self._choose(key, merged, known)
        reached, last = self._reach.of(key, choice.exports, known.kept, known.by_way)
        count, again = await self._place(key, merged, known, choice, reached, families, owner)
        if given and not ips:  # its Service is new: one look is enough for all of an import
            made = msgspec.json.encode(stamped(self._kinds.imports, wanted))
            wanted = import_manifest(merged, families, given, notes=notes)
            meta = await self._write(wanted, made, meta) or meta
        said = str(refused) if refused is not None else ""
        asked = choice.verdict.condition() if choice.verdict is not None else None
        also = [each for each in (asked, last) if each is not None]
        status = verdicts.import_status(merged, families, given, count, said, also)
        before = live or ServiceImport(metadata=meta)
        if not isinstance(refused, AlreadyExists):  # one that its watch has yet to show is no fault
            told = await write_status(self._client, self._kinds.imports, key, before, status)
            self._echoes.note(meta.resource_version, told)
        return again, refused

    async def _write(
        self, wanted: dict[str, Any], live: bytes | None, meta: ObjectMeta | None
    ) -> ObjectMeta | None:
        """Have the ServiceImport as wanted; its metadata then, or None where it is to go first."""
        written = await ensure(self._client, self._kinds.imports, wanted, live=live)
        self._echoes.note(meta.resource_version if meta is not None else "", written.partial)
        if written.outcome == "terminating":
            return None
        return written.partial.metadata if written.partial is not None else meta

    def _ips(self, key: Key, merged: Merged) -> tuple[str, ...]:
        """The addresses of the derived Service; none where there is none."""
        return () if merged.headless else self._own.addresses((key[0], derived_name(key)))

    def _families(self, key: Key) -> list[str]:
        networks = self._context.addressing.service_cidrs
        return self._own.families(networks, self._own.addresses((key[0], derived_name(key))))

    async def _serve(
        self,
        key: Key,
        merged: Merged,
        families: list[str],
        owner: dict[str, Any],
        ips: tuple[str, ...],
    ) -> tuple[str, ...]:
        """Have the Service that has the import's address, or none where it has no address; returns
        the addresses."""
        raw = self._own.service((key[0], derived_name(key)))
        wanted = derived_service(merged, families, owner, ips)
        if wanted is None:
            if raw is not None:
                await self._delete_service(raw)
            return ()
        if raw is None:
            made = await self._client.create_full(SERVICES, stamped(SERVICES, wanted))
            return self._own.made(made)
        # The address that the server has given it since it was made so is no change.
        if change(SERVICES, without_address(wanted), msgspec.json.decode(raw)) is not None:
            await ensure(self._client, SERVICES, wanted, live=raw, recreate=True)
        return self._ips(key, merged)

    async def _delete_service(self, raw: bytes) -> None:
        found = msgspec.json.decode(raw, type=Partial)
        if found.metadata.labels.get(labels.MANAGED_BY_LIQOD) == labels.TRUE:
            await delete_all(self._client, SERVICES, [found])

    def _choose(self, key: Key, merged: Merged, known: Heard) -> Choice:
        """The endpoints that the Service of that name wants to be used in this cluster."""
        by_cluster = {each.cluster: each for each in known.exports}
        ordered = [by_cluster[each] for each in merged.clusters]
        ways = known.by_way
        reached = [each for each in merged.clusters if self._reach.reached(each, ways) is not False]
        return self._preferences.choose(key, ordered, reached)

    async def _place(
        self,
        key: Key,
        merged: Merged,
        known: Heard,
        choice: Choice,
        reach: dict[str, bool | None],
        families: list[str],
        owner: dict[str, Any],
    ) -> tuple[int, float | None]:
        """Have the EndpointSlices; their number, and when to look at them again."""
        kept = set() if choice.alone else set(known.kept)
        wanted: dict[str, dict[str, Any]] = {}
        there = self._reach.slices(key)
        sources = {source_of(each) for each in there.values()}
        for export in (each for each in choice.exports if each.cluster not in known.kept):
            reached = reach[export.cluster]
            if reached is None and export.cluster in sources:
                kept.add(export.cluster)
                continue
            may = reached is not False
            way = known.by_way.get(export.cluster, "")
            manifests = slice_manifests(
                merged, export, families, owner, choice.hinted, reached=may, by_way=way
            )
            wanted |= {each["metadata"]["name"]: each for each in manifests}
        for name, manifest in wanted.items():
            raw = self._made.store.get((key[0], name))
            made = await ensure(self._client, ENDPOINT_SLICES, manifest, live=raw, recreate=True)
            self._echoes.note(version_of(raw), made.partial)
        gone = [
            each
            for name, each in there.items()
            if name not in wanted and source_of(each) not in kept
        ]
        if gone and (self._exchanges.doubtful or self._own.doubtful):
            return len(there), DOUBT
        await delete_all(self._client, ENDPOINT_SLICES, gone)
        stays = [each for each in there.values() if source_of(each) in kept]
        return len(wanted) + len(stays), None

    async def _remove(self, key: Key) -> None:
        """End an import that certainly no cluster exports any more; what it owns goes with it."""
        live = self._imports.store.decode(key, Partial)
        if live is None or live.metadata.labels.get(labels.MANAGED_BY_LIQOD) != labels.TRUE:
            return
        await delete_all(self._client, ENDPOINT_SLICES, self._reach.slices(key).values())
        raw = self._own.service((key[0], derived_name(key)))
        if raw is not None:
            await self._delete_service(raw)
        await delete_all(self._client, self._kinds.imports, [live])

    # --- what is said ---------------------------------------------------------------------------

    def _report(self, key: Key, refused: list[str]) -> None:
        """Publish what is refused of the peers' words, once for each new reason."""
        told = tuple(refused)
        if self._reported.get(key, ()) == told:
            return
        self._reported.pop(key, None)
        if told:
            self._reported[key] = told
        self._context.hub.publish(
            ServiceImported(namespace=key[0], name=key[1], refused="; ".join(told))
        )


def _since(found: ServiceImport | None) -> dict[str, str]:
    return since.read(found.metadata.annotations) if found is not None else {}


def _ways(found: ServiceImport | None) -> dict[str, str]:
    return byway.read(found.metadata.annotations) if found is not None else {}
