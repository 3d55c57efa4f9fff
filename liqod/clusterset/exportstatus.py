"""Says on this cluster's own ServiceExports what has become of them."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.meta import Partial
from liqod.cluster.tenancy import tenant_of
from liqod.clusterset.exchanges import FAILED, TAKEN
from liqod.clusterset.ownexports import OwnExports
from liqod.clusterset.sharing import Sharing
from liqod.kube import times
from liqod.kube.cache.store import Index, Key
from liqod.kube.client import Client
from liqod.kube.watched import Watched
from liqod.model.clusterset import verdicts
from liqod.model.clusterset.exchange import mark
from liqod.model.clusterset.exports import Export, Refusal
from liqod.model.clusterset.merging import Merged
from liqod.model.objects.conditions import all_dated
from liqod.model.objects.patches import exact_patch
from liqod.resources.multicluster import ServiceExport, ServiceImport

_TENANTS: Final = "tenants"


def _is_tenant(found: Partial) -> Iterator[str]:
    if tenant_of(found) is not None:
        yield _TENANTS


INDEXES: Final[dict[str, Index]] = {_TENANTS: _is_tenant}
"""The indexes that the watch of namespaces needs."""


class ExportStatus:
    """The conditions of the ServiceExports.

    Args:
        client: this cluster's.
        kind: of ServiceExports, in the version that this cluster serves.
        own: the exports.
        namespaces: all namespaces, with :data:`INDEXES`.
        sharing: the peers that Services are shared with.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind,
        own: OwnExports[Key],
        namespaces: Watched[Key],
        sharing: Sharing,
    ) -> None:
        self._client = client
        self._kind = kind
        self._own = own
        self._namespaces = namespaces
        self._sharing = sharing

    async def tell(
        self, key: Key, found: Export | Refusal | None, merged: Merged | None, *, complete: bool
    ) -> None:
        """Say on the ServiceExport of a name what has become of it.

        Args:
            key: namespace and name.
            found: the export, or the reason why there is none; None without a ServiceExport.
            merged: the import; None where there is none.
            complete: whether it is of all exports.
        """
        live = self._own.read(key)
        if found is None or live is None or live.metadata.deletion_timestamp is not None:
            return
        before = msgspec.to_builtins(live.status.conditions)
        said = [verdicts.valid(found)]
        ready = self._delivery(key, found)
        said += [ready] if ready is not None else _of_type(before, verdicts.READY)
        differs = verdicts.conflict(merged, complete=complete) if merged is not None else None
        if isinstance(found, Export):
            said += [differs] if differs is not None else _of_type(before, verdicts.CONFLICT)
        written = await write_status(self._client, self._kind, key, live, {"conditions": said})
        self._own.echoes.note(live.metadata.resource_version, written)

    def _delivery(self, key: Key, found: Export | Refusal) -> dict[str, Any] | None:
        """The condition Ready of an export; None while some peer's part in it is not known."""
        if isinstance(found, Refusal):
            return verdicts.ready(found, (), ())
        states: dict[str, str | None] = {}
        word = mark(found)
        for tenant in self._namespaces.store.indexed(_TENANTS, _TENANTS):
            namespace = self._namespaces.store.decode(tenant, Partial)
            peer = tenant_of(namespace) if namespace is not None else None
            if peer is not None:
                sharing = self._sharing.peers.get(peer)
                states[peer] = sharing.delivery(key, word) if sharing is not None else None
        if None in states.values():
            return None
        entitled = [peer for peer, state in states.items() if state]
        taken = [peer for peer, state in states.items() if state == TAKEN]
        failed = {
            peer: self._sharing.peers[peer].left_out(key)
            for peer, state in states.items()
            if state == FAILED
        }
        passed: dict[tuple[str, str], bool | None] = {}
        for peer, sharing in self._sharing.peers.items():
            passed |= {
                (other, peer): is_taken
                for other, is_taken in sharing.passed_on(key, word).items()
                if peer in taken
            }
        return verdicts.ready(found, entitled, taken, failed, passed)


async def write_status(
    client: Client,
    kind: Kind,
    key: Key,
    live: ServiceExport | ServiceImport,
    status: dict[str, Any],
) -> Partial | None:
    """Write the status of an export or an import, where it differs from what is there.

    Args:
        client: this cluster's.
        kind: the object's.
        key: its namespace and name.
        live: the object as it is.
        status: as it is to be; its conditions have no times yet.

    Returns:
        The metadata after the write; None where nothing is written.
    """
    # As the API has it: a tuple is no list, and would be patched each time.
    before = msgspec.json.decode(msgspec.json.encode(live.status))
    status["conditions"] = all_dated(status["conditions"], before.get("conditions"), times.now())
    patch = exact_patch(before, status)
    if not patch:
        return None
    return await client.patch(kind, key[1], {"status": patch}, key[0], subresource="status")


def _of_type(conditions: list[dict[str, Any]], type_: str) -> list[dict[str, Any]]:
    return [each for each in conditions if each["type"] == type_]
