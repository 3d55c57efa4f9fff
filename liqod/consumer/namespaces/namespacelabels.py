"""Labels namespaces so that the webhook is called for their pods, and takes those labels off."""

import contextlib
from typing import Any

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.consumer.namespaces import offloadplan
from liqod.errors import NotFound
from liqod.kube.cache.store import IndexedStore
from liqod.model.objects import webhook
from liqod.resources import NamespaceOffloading


class NamespaceLabels:
    """The labels of this cluster's namespaces.

    Args:
        namespaces: all namespaces, as they are watched.
    """

    def __init__(self, context: ClusterContext, namespaces: IndexedStore) -> None:
        self._context = context
        self._client = context.client
        self._namespaces = namespaces

    async def put_on(self, offloading: NamespaceOffloading) -> None:
        """Label an offloaded namespace, so that the webhook is called for its pods."""
        namespace = offloading.namespace
        found = self._namespaces.decode(("", namespace), Partial)
        if found is None or found.metadata.deletion_timestamp is not None:
            return
        closed = offloadplan.fails_closed(offloading, self._context.config.webhook)
        wanted = dict.fromkeys(webhook.CHOSEN if closed else webhook.CHOSEN[:1], labels.TRUE)
        if {
            each: n for each, n in found.metadata.labels.items() if each in webhook.CHOSEN
        } == wanted:
            return
        if not closed and labels.FAIL_CLOSED in found.metadata.labels:
            await self._take_off(namespace, labels.FAIL_CLOSED)
        # The UID keeps an apply from creating the namespace anew where it was deleted meanwhile.
        metadata = {
            "name": namespace,
            "uid": found.metadata.uid,
            "labels": wanted,
        }
        await self._client.apply(NAMESPACES, {"metadata": metadata}, manager=labels.FIELD_MANAGER)

    async def take_off(self, namespace: str) -> None:
        """Take all of them off: nothing of the namespace is offloaded any more."""
        found = self._namespaces.decode(("", namespace), Partial)
        if found is not None and any(each in found.metadata.labels for each in webhook.CHOSEN):
            await self._take_off(namespace, *webhook.CHOSEN)

    async def _take_off(self, namespace: str, *keys: str) -> None:
        patch: dict[str, Any] = {"metadata": {"labels": dict.fromkeys(keys)}}
        with contextlib.suppress(NotFound):
            await self._client.patch(NAMESPACES, namespace, patch)
