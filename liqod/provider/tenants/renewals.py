"""Renewal of control planes: a consumer's Renew is answered with its newest certificate.

The certificate itself is issued anew by :mod:`liqod.provider.tenants.tenants`, in place and for the
same request; the consumer's standing Renew carries it to the consumer.
"""

from collections.abc import Iterator

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SECRETS
from liqod.cluster.ownid import PublicKeys
from liqod.cluster.tenancy import is_from
from liqod.kube.cache.store import StoreChange
from liqod.kube.controller import Controller
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched, by_name
from liqod.model.objects.patches import exact_patch
from liqod.peers.peer import Peer
from liqod.provider.tenants import keysuccession
from liqod.provider.tenants.tenants import accepted_tenant
from liqod.resources import RENEWS, TENANTS, Renew, Tenant
from liqod.resources.authentication import CONTROL_PLANE, DRAINED, RenewStatus
from liqod.telemetry.events import RenewalAnswered


class Renewals(Controller[str]):
    """Answers the Renews of one peer.

    Args:
        peer: the consumer.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        within = (peer.tenant_namespace,)
        self._renews = Watched(RENEWS, by_name, within=within)
        self._tenants = Watched(TENANTS, self._every_renew, within=within)
        fields = f"metadata.name={labels.KEYS_SECRET}"
        place = Selection(peer.context.namespace, fields=fields)
        self._keys = Watched(SECRETS, self._every_renew, place)
        super().__init__(peer, "renewal", self._renews, self._tenants, self._keys)

    def _every_renew(self, change: StoreChange) -> Iterator[str]:
        for _, name in self._renews.store.indexed("namespace", self._peer.tenant_namespace):
            yield name

    async def reconcile(self, name: str) -> None:
        """Put the newest certificate into a Renew that requests it."""
        peer, namespace = self._peer.id, self._peer.tenant_namespace
        renew = self._renews.store.decode((namespace, name), Renew)
        tenant = accepted_tenant(self._tenants.store, self._peer)
        if renew is None or renew.leaving or tenant is None:
            return
        asked = renew.spec.identity_type == CONTROL_PLANE and renew.spec.consumer_cluster_id == peer
        if not asked or not is_from(renew.metadata.labels, peer):
            return
        if tenant.spec.tenant_condition == DRAINED:
            return
        wanted = RenewStatus(tenant.status.auth_params)
        patch = exact_patch(msgspec.to_builtins(renew.status), msgspec.to_builtins(wanted))
        if patch:
            await self._peer.context.client.patch(
                RENEWS, name, {"status": patch}, namespace, subresource="status"
            )
            self._peer.report(RenewalAnswered(renew=name))
        await self._report_key(renew, tenant)

    async def _report_key(self, renew: Renew, tenant: Tenant) -> None:
        """Report the key that identifies the consumer, so that its next one would be followed, and
        the key of this cluster."""
        place = (self._peer.context.namespace, labels.KEYS_SECRET)
        own = self._keys.store.decode(place, PublicKeys) or PublicKeys()
        notes = keysuccession.key_notes(renew, tenant, own)
        if notes:
            note = {"metadata": {"annotations": notes}}
            await self._peer.context.client.patch(RENEWS, renew.name, note, renew.namespace)
