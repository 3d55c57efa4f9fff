"""The key that this cluster had before: destroyed when no peer identifies this cluster by it.

It is kept beside the present one (:func:`~.keys.succeed`), since the certificates of a provider are
for one of the two; each provider follows for itself, when its daemon runs, and one that runs Liqo
or an older liqod never does.
"""

import logging
from collections.abc import Iterable
from typing import TypeVar

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import Kind
from liqod.cluster.context import ClusterContext
from liqod.consumer.identities.clusterkeys import ClusterKeys, CurrentKeys, forget_former
from liqod.consumer.slices.sliceobjects import is_source
from liqod.consumer.timings import ORDINARY, ConsumerTimings
from liqod.errors import ConfigError
from liqod.identity import keys
from liqod.kube.client import Client
from liqod.kube.controller import Controller
from liqod.kube.http import proxies
from liqod.kube.watched import DOUBT, Watched, always
from liqod.resources import (
    IDENTITIES,
    RENEWS,
    RESOURCE_SLICES,
    TENANTS,
    Identity,
    Renew,
    Resource,
    ResourceSlice,
    Tenant,
)

KEY = "former key"

R = TypeVar("R", bound=Resource)

log = logging.getLogger(__name__)


class Bound(msgspec.Struct, frozen=True):
    """The objects of this cluster that may be bound to a key of its own: all of each kind."""

    identities: tuple[Identity, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    tenants: tuple[Tenant, ...] = ()
    renews: tuple[Renew, ...] = ()


async def bound(client: Client) -> Bound:
    """The same objects as the API server has them now."""

    async def read(kind: Kind, decode: type[R]) -> tuple[R, ...]:
        return tuple(await client.list(kind, decode=decode))

    return Bound(
        await read(IDENTITIES, Identity),
        await read(RESOURCE_SLICES, ResourceSlice),
        await read(TENANTS, Tenant),
        await read(RENEWS, Renew),
    )


def needing(own: ClusterKeys, found: Bound) -> frozenset[str]:
    """The peers that identify this cluster by its former key. Pure."""
    return providers_needing(own, found.identities, found.slices) | consumers_needing(
        own, found.tenants, found.renews
    )


def consumers_needing(
    own: ClusterKeys, tenants: Iterable[Tenant], renews: Iterable[Renew]
) -> frozenset[str]:
    """The consumers that come by a channel to the former key, and have not recorded the other."""
    if own.former is None:
        return frozenset()
    present = keys.print_of(own.public)
    told = {
        each.namespace
        for each in renews
        if each.metadata.annotations.get(labels.PROVIDER_KEY) == present
    }
    return frozenset(
        each.spec.cluster_id
        for each in tenants
        if listener_of(each.spec.proxy_url) not in ("", present) and each.namespace not in told
    )


def listener_of(proxy: str) -> str:
    """The key that a consumer's channel leads to; empty for none."""
    try:
        proxies.check(proxy, "proxyURL", channels=True)
    except ConfigError:
        return ""
    return proxies.listener_of(proxy)[0] if proxy.startswith(proxies.CHANNEL) else ""


def providers_needing(
    own: ClusterKeys, identities: Iterable[Identity], slices: Iterable[ResourceSlice]
) -> frozenset[str]:
    """The providers that identify this cluster by its former key. Pure."""
    if own.former is None:
        return frozenset()
    given = (
        each.spec.cluster_id
        for each in identities
        if own.of(each.spec.auth_params.signed_crt) is own.former
    )
    asked = (
        each.spec.provider_cluster_id
        for each in slices
        if is_source(each.metadata.labels, each.spec.provider_cluster_id)
        and own.requested_with(each.spec.csr) is own.former
    )
    return frozenset((*given, *asked))


class FormerKey(Controller[str]):
    """Destroys the former key in time.

    Attributes:
        providers: those that identify this cluster by its former key alone.
    """

    def __init__(self, context: ClusterContext, timings: ConsumerTimings = ORDINARY) -> None:
        self._context, self._timings = context, timings
        self._own = CurrentKeys(context, KEY)
        self._identities = Watched(IDENTITIES, always(KEY))
        self._slices = Watched(RESOURCE_SLICES, always(KEY))
        self._tenants = Watched(TENANTS, always(KEY))
        self._renews = Watched(RENEWS, always(KEY))
        self.providers: frozenset[str] = frozenset()
        self._idle: tuple[bytes, float] | None = None
        """The former key, and since when no peer has needed it."""
        super().__init__(
            *(context, "formerkey", self._own.watched, self._identities, self._slices),
            *(self._tenants, self._renews),
            first=(KEY,),
        )

    async def reconcile(self, key: str) -> float | None:
        """Wait for the last provider, and a while more; then let the former key go."""
        own, client = await self._own.now(), self._context.client
        who = self.providers = needing(own, self._bound())
        if own.former is None:
            self._idle = None
            return None
        if any(each.doubtful for each in (self._identities, self._slices, self._tenants)):
            return DOUBT
        if who:
            self._idle = None
            return None
        now = trio.current_time()
        if self._idle is None or self._idle[0] != own.former.private:
            self._idle = own.former.private, now
        left = self._idle[1] + self._timings.former_key_kept - now
        if left > 0:
            return left
        # No old list is trusted where something is destroyed.
        if needing(own, await bound(client)):
            return DOUBT
        await forget_former(client, self._context.namespace, own.former)
        log.info("the former key of this cluster is destroyed: no peer knows it by that any more")
        return None

    def _bound(self) -> Bound:
        return Bound(
            tuple(self._identities.store.values(Identity)),
            tuple(self._slices.store.values(ResourceSlice)),
            tuple(self._tenants.store.values(Tenant)),
            tuple(self._renews.store.values(Renew)),
        )
