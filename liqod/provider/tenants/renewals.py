"""Renewal of control planes: a consumer's Renew is answered with its newest certificate.

The certificate itself is issued anew by :mod:`liqod.provider.tenants.tenants`, in place and for the
same request; the consumer's standing Renew carries it home.
"""

from contextlib import AsyncExitStack
from typing import NoReturn

import msgspec
import trio

from liqod.kube.cache.store import Change
from liqod.kube.queue import KeyedQueue
from liqod.model.objects.merge import merge_patch
from liqod.peer import Peer
from liqod.provider.slices.slices import is_from
from liqod.provider.tenants.tenants import accepted
from liqod.resources import RENEWS, TENANTS, Renew, Tenant
from liqod.resources.authentication import CONTROL_PLANE, DRAINED, RenewStatus


class Renewals:
    """Answers the Renews of one peer.

    Args:
        peer: the consumer.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._queue: KeyedQueue[str] = KeyedQueue()

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Answer until cancelled."""
        namespace = self._peer.tenant_namespace
        informers = self._peer.home.informers
        async with AsyncExitStack() as stack:
            renews = await stack.enter_async_context(informers.share(RENEWS))
            tenants = await stack.enter_async_context(informers.share(TENANTS))
            self._renews, self._tenants = renews.store, tenants.store
            stack.callback(renews.subscribe(self._on_renew, namespace=namespace))
            stack.callback(tenants.subscribe(self._on_tenant, namespace=namespace))
            await self._queue.run(
                self._answer, on_error=self._peer.failures("renewal"), task_status=task_status
            )
        raise AssertionError("a queue never ends")

    def _on_renew(self, change: Change) -> None:
        self._queue.add(change.key[1])

    def _on_tenant(self, change: Change) -> None:
        for _, name in self._renews.indexed("namespace", self._peer.tenant_namespace):
            self._queue.add(name)

    async def _answer(self, name: str) -> None:
        peer, namespace = self._peer.id, self._peer.tenant_namespace
        renew = self._renews.decode((namespace, name), Renew)
        tenant = self._tenants.decode((namespace, peer), Tenant)
        if renew is None or renew.leaving or tenant is None:
            return
        asked = renew.spec.identity_type == CONTROL_PLANE and renew.spec.consumer_cluster_id == peer
        if not asked or not is_from(renew.metadata.labels, peer):
            return
        if tenant.spec.tenant_condition == DRAINED or not accepted(
            tenant, peer, self._peer.home.cluster_id, namespace
        ):
            return
        wanted = RenewStatus(tenant.status.auth_params)
        patch = merge_patch(msgspec.to_builtins(renew.status), msgspec.to_builtins(wanted))
        if patch:
            await self._peer.home.client.patch(
                RENEWS, name, {"status": patch}, namespace, subresource="status"
            )
            self._peer.report("renewal", renew=name)
