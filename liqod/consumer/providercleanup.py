"""Removes this cluster's objects at a provider that is left, when it answers; nothing waits.

A user who unpeers deletes the objects of the peering and marks the tenant namespace
(:data:`liqod.apimachinery.labels.TOMBSTONE`); when nothing is left in it, it is deleted here.

The tombstone is the kubeconfig Secret of a control plane whose Identity is gone (the ForeignCluster
shows it, annotated with the objects to remove there). It ends when the provider confirms that all
is gone, when it refuses us, when the certificate has expired, or when a user deletes the Secret
(``liqod unpeer --forget``). The Secret of a slice ends with its virtual node.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, SECRETS, Kind
from liqod.apimachinery.meta import Partial
from liqod.cluster.tenancy import replicas_of
from liqod.consumer.link import ProviderPeer
from liqod.consumer.remote import KubeconfigSecret, Remote
from liqod.consumer.remotes import Remotes
from liqod.errors import Conflict, Forbidden, LiqodError, NotFound, Unauthorized
from liqod.kube.cache.store import StoreChange
from liqod.kube.controller import Controller
from liqod.kube.definitions import is_defined
from liqod.kube.deletion import delete_all
from liqod.kube.selection import Selection
from liqod.kube.watched import DOUBT, Watched, by_name
from liqod.model import ids
from liqod.resources import (
    IDENTITIES,
    NAMESPACE_MAPS,
    RENEWS,
    RESOURCE_SLICES,
    TENANTS,
    VIRTUAL_NODES,
)
from liqod.resources.exchanges import SERVICE_EXCHANGES
from liqod.runtime.observable import Notifier
from liqod.telemetry.events import IdentityChanged, PeeringEnds

KINDS: tuple[Kind, ...] = (RESOURCE_SLICES, NAMESPACE_MAPS, RENEWS)
"""Kinds of this cluster's objects at a provider; namespaces and pods go with the NamespaceMaps."""
CHECK_AGAIN = 0.2
"""Seconds until the provider is checked again for the end of all."""
REFUSED_FOR = 8.0
"""Seconds for which the provider must refuse to be believed: an API server that has just started
has no rights and no custom resources for a moment."""
NAMESPACE = "."
"""Key of the tenant namespace in the queue; no Secret can be named so."""


class Tombstone(msgspec.Struct, frozen=True, rename="camel"):
    """The objects that are still to be removed at a provider.

    Attributes:
        server: its API server.
        namespace: this cluster's tenant namespace there.
        remove: kinds and the selector of our objects.
        expires: epoch second at which the certificate ends and with it the duty.
    """

    server: str
    namespace: str
    remove: str
    expires: float


def _kubeconfig_of(change: StoreChange) -> tuple[str]:
    """The Secret that is made of an Identity."""
    return (ids.kubeconfig_secret(change.key[1]),)


class ProviderCleanup(Controller[str]):
    """Ends identities that are no longer wanted.

    Args:
        peer: the provider.
        remotes: the identities there.

    Attributes:
        tombstone: the objects to remove there; None unless this cluster is leaving.
    """

    def __init__(self, peer: ProviderPeer, remotes: Remotes) -> None:
        self._peer = peer
        self._client = peer.context.client
        self._remotes = remotes
        self._news = Notifier()
        self.tombstone: Tombstone | None = None
        self._refused_since: float | None = None
        within = (peer.tenant_namespace,)
        self._identities = Watched(IDENTITIES, _kubeconfig_of, within=within)
        self._secrets = Watched(SECRETS, by_name, Selection(peer.tenant_namespace))
        self._nodes = Watched(VIRTUAL_NODES, self._without_node, within=within)
        self._namespaces = Watched(NAMESPACES, self._marked)
        self._renews = Watched[str](RENEWS)
        others = (RESOURCE_SLICES, NAMESPACE_MAPS, TENANTS)
        self._others = [self._renews, *(Watched[str](kind) for kind in others)]
        watches = (
            self._identities,
            self._secrets,
            self._namespaces,
            *self._others,
            self._nodes,
        )
        answers = partial(self.whenever, peer.link.wait_changed, self._when_it_answers)
        super().__init__(peer, "leaving", *watches, tasks=[answers])

    @property
    def now(self) -> bool:
        """True if this cluster is leaving the provider."""
        return self.tombstone is not None

    async def changed(self) -> None:
        """Wait until :attr:`tombstone` changes."""
        await self._news.wait()

    def _marked(self, change: StoreChange) -> Iterator[str]:
        """The keys of the Secrets and of the tenant namespace, once that is to go."""
        if change.key[1] == self._peer.tenant_namespace and self._is_marked():
            yield from self._all()
            yield NAMESPACE

    def _is_marked(self) -> bool:
        """True if the user wants the tenant namespace to be removed when it is empty."""
        found = self._namespaces.store.decode(("", self._peer.tenant_namespace), Partial)
        return found is not None and labels.TOMBSTONE in found.metadata.annotations

    def _without_node(self, change: StoreChange) -> Iterator[str]:
        """Yield all keys when a virtual node is gone: an identity kept for it may end."""
        if change.new is None:
            yield from self._all()

    def _when_it_answers(self) -> Iterator[str]:
        """Yield all keys when the peer answers again: none waits for the end of a pause."""
        if self._peer.link.up and self.now:
            yield from self._all()

    def _all(self) -> Iterator[str]:
        for _, name in self._secrets.store.indexed("namespace", self._peer.tenant_namespace):
            yield name

    async def reconcile(self, name: str) -> float | None:
        """End one identity, if its time has come; or the tenant namespace."""
        if name == NAMESPACE:
            return await self._end_namespace()
        key = (self._peer.tenant_namespace, name)
        secret = self._secrets.store.decode(key, KubeconfigSecret)
        if secret is None or not self._is_abandoned(secret):
            if name == ids.kubeconfig_secret(ids.control_plane_identity(self._peer.id)):
                self._bury(None)
            return None
        if self._identities.doubtful or await self._identity_exists(name):
            return CHECK_AGAIN
        if not await is_defined(self._client, IDENTITIES):
            return DOUBT
        if secret.slice:
            if self._has_nodes(secret.slice):
                return None
            await self._delete(secret)
            return None
        remote = self._remotes.by_secret(name)
        self._bury(remote)
        if self._has_nodes(None):
            return None
        if remote is None or remote.expired or await self._cleared(remote):
            await self._delete(secret)
            return None
        return CHECK_AGAIN

    def _is_abandoned(self, secret: KubeconfigSecret) -> bool:
        """True if a Secret is one that we made, and the Identity it was made from is gone."""
        meta = secret.metadata
        ours = meta.labels.get(labels.MANAGED_BY_LIQOD) == labels.TRUE
        if not secret.type or meta.deletion_timestamp or not (ours or self._is_marked()):
            return False
        identity = meta.name.removeprefix(ids.kubeconfig_secret(""))
        found = self._identities.store.decode((meta.namespace, identity), Partial)
        return found is None or found.metadata.deletion_timestamp is not None

    async def _end_namespace(self) -> float | None:
        """Delete the tenant namespace once nothing of the peering is left in it."""
        namespace = self._peer.tenant_namespace
        found = self._namespaces.store.decode(("", namespace), Partial)
        if found is None or not self._is_marked() or found.metadata.deletion_timestamp:
            return None
        listed = [self._identities, *self._others]
        if any(each.doubtful for each in listed):
            return CHECK_AGAIN
        if any(each.store.indexed("namespace", namespace) for each in (*listed, self._nodes)):
            await self._end_renews()
            return CHECK_AGAIN
        for key in self._secrets.store.indexed("namespace", namespace):
            secret = self._secrets.store.decode(key, KubeconfigSecret)
            if secret is not None and secret.type:
                return CHECK_AGAIN
        await self._client.delete(NAMESPACES, namespace, uid=found.metadata.uid)
        self._peer.report(PeeringEnds(namespace=namespace, did="deleted"))
        return None

    async def _end_renews(self) -> None:
        """Delete the requests of ours whose Identity is gone.

        The garbage collector would, too; but it has a kind only after it has read which there
        are, which it does every 30 s: the first peering of a new installation would wait for that.
        """
        namespace = self._peer.tenant_namespace
        for key in self._renews.store.indexed("namespace", namespace):
            renew = self._renews.store.decode(key, Partial)
            ours = (
                renew is not None and renew.metadata.labels.get(labels.REPLICATION) == labels.TRUE
            )
            if renew is None or not ours or key in self._identities.store:
                continue
            if not await self._identity_exists(ids.kubeconfig_secret(key[1])):
                with suppress(Conflict):
                    await self._client.delete(RENEWS, key[1], namespace, uid=renew.metadata.uid)

    async def _identity_exists(self, secret: str) -> bool:
        """Read from the API server itself before anything is destroyed (rule 3)."""
        identity = secret.removeprefix(ids.kubeconfig_secret(""))
        namespace = self._peer.tenant_namespace
        live = await self._client.find(IDENTITIES, identity, namespace, decode=Partial)
        return live is not None and live.metadata.deletion_timestamp is None

    def _has_nodes(self, slice_name: str | None) -> bool:
        """True if a virtual node of that slice, or of any slice of this peer, still exists."""
        for key in self._nodes.store.indexed("namespace", self._peer.tenant_namespace):
            node = self._nodes.store.decode(key, Partial)
            if node is None:
                continue
            named = node.metadata.labels.get(labels.RESOURCE_SLICE_NAME, key[1])
            if slice_name is None or named == slice_name:
                return True
        return False

    async def _cleared(self, remote: Remote) -> bool:
        """Delete our objects at the provider; True if none is left, or none may be deleted."""
        selector = replicas_of(self._peer.context.cluster_id)
        left = 0
        try:
            for kind in KINDS:
                found = await remote.client.list(
                    kind, Selection(remote.namespace, labels=selector), decode=Partial
                )
                left += len(found)
                for each in found:
                    with suppress(Conflict):  # it was replaced; the next try finds it
                        await delete_all(remote.client, kind, [each])
            left += await self._delete_exchanges(remote, selector)
        except (Forbidden, Unauthorized, NotFound) as error:
            return self._is_refused(error)
        except LiqodError:
            self._refused_since = None
            raise
        self._refused_since = None
        return left == 0

    async def _delete_exchanges(self, remote: Remote, selector: str) -> int:
        """Delete our ServiceExchanges at the provider; their number."""
        if self._peer.context.config.services.enabled:
            with suppress(Forbidden, NotFound):  # a provider that shares no Services
                there = Selection(remote.namespace, labels=selector)
                return await remote.client.delete_selected(SERVICE_EXCHANGES, there)
        return 0

    def _is_refused(self, error: Exception) -> bool:
        """True if a refusal is the peer's decision, not that of a server that has just started."""
        now = trio.current_time()
        if self._refused_since is None:
            self._refused_since = now
        if now - self._refused_since < REFUSED_FOR:
            return False
        self._peer.report(PeeringEnds(ended=f"the peer refuses us: {error}"))
        return True

    async def _delete(self, secret: KubeconfigSecret) -> None:
        meta = secret.metadata
        await self._client.delete(SECRETS, meta.name, meta.namespace, uid=meta.uid)
        self._peer.report(IdentityChanged(secret=meta.name, did="deleted"))

    def _bury(self, remote: Remote | None) -> None:
        """Set the tombstone, or remove it."""
        tombstone = None
        if remote is not None:
            kinds = ",".join(kind.plural for kind in KINDS)
            tombstone = Tombstone(
                remote.credentials.server,
                remote.namespace,
                f"{kinds} with {labels.ORIGIN_ID}={self._peer.context.cluster_id}",
                remote.expires,
            )
        if tombstone == self.tombstone:
            return
        self.tombstone = tombstone
        self._peer.report(PeeringEnds(leaving=self.now))
        self._news.notify()
