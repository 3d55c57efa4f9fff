"""The bounds on a consumer's objects: ResourceQuotas in its namespaces here.

In each mapped namespace one bounds the number of objects, to a share of the consumer's bounds
(:mod:`liqod.provider.slices.sharedquotas`), and one allows no pod whose affinity
names other namespaces: with anti-affinity to all pods a guest would keep them off its
node. In the tenant namespace one bounds the objects of the consumer's control plane and its
peering user.

Kubernetes' quota controller reads the kinds every 30 s. A bound on a kind that is new to it
has no known use, so that the API server refuses every object of it, and that stays so until the
controller's next full round, five minutes later (seen with Kubernetes 1.35). So bounds on custom
resources wait until their definition is old enough, which is no proof: the controller may have
been unable to read it meanwhile. So they are checked soon after they were set, and less and less
until their use is known, and one that is stuck is taken back for a while.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CUSTOM_RESOURCES, RESOURCE_QUOTAS
from liqod.apimachinery.meta import Partial
from liqod.errors import Conflict
from liqod.kube import times
from liqod.kube.client import Client
from liqod.kube.watched import RESYNC
from liqod.model.objects import quantities
from liqod.model.objects.patches import exact_patch
from liqod.provider.namespaces import mapping
from liqod.provider.slices.sharedquotas import ConsumerQuotas
from liqod.resources.exchanges import MOST_NAMESPACES

Json = dict[str, Any]
SETTLE: Final = 75.0
"""Seconds after which the quota controller has a new kind: two of its rounds, and some."""
PROVED: Final = 2.0
"""Seconds until the first check of bounds whose use is not known yet: meanwhile perhaps no one
can make anything of their kind."""
_COUNT: Final = "count/"
AFFINITY_QUOTA: Final = "liqod-affinity"
TENANT_QUOTA: Final = "liqod-tenant"
MOST_EXCHANGES: Final = 2 * MOST_NAMESPACES
"""ServiceExchanges with one peer: this cluster's own have as much room as the peer's."""


def tenant_bounds(max_slices: int, *, shares: bool = False) -> dict[str, str]:
    """The object quota of a tenant namespace; this cluster's own requests of the peer count too.

    Args:
        max_slices: of one consumer.
        shares: whether Services are shared with peers.
    """
    slices = str(4 * max_slices)
    networking = ("configurations", "gatewayclients", "gatewayservers", "publickeies")
    return {
        "count/resourceslices.authentication.liqo.io": slices,
        "count/renews.authentication.liqo.io": slices,
        "count/namespacemaps.offloading.liqo.io": "16",
        "count/tenants.authentication.liqo.io": "4",
        "count/ips.ipam.liqo.io": "500",
        **{f"count/{each}.networking.liqo.io": "16" for each in networking},
        **({"count/serviceexchanges.peering.liqod.io": str(MOST_EXCHANGES)} if shares else {}),
    }


class ObjectQuotas:
    """The ResourceQuotas in one consumer's namespaces.

    Args:
        client: this cluster's.
        peer: the consumer's id.
        hard: the bounds, as the configuration has them.
        name: of the ResourceQuotas.
        granted: the bounds on packages' kinds, where the configuration has none of them.
        shared: whether the bounds are for all namespaces together.

    Attributes:
        shared: the shares of the namespaces, where they have shares.
    """

    def __init__(
        self,
        client: Client,
        peer: str,
        hard: Mapping[str, str],
        name: str = mapping.QUOTA_NAME,
        granted: Callable[[], Mapping[str, str]] = dict,
        *,
        shared: bool = False,
    ) -> None:
        self._client = client
        self._peer = peer
        self._hard = hard
        self._name = name
        self._granted = granted
        self.shared = ConsumerQuotas(self._bounds) if shared else None
        self._settled: dict[str, float] = {}
        self._unproved: dict[str, float] = {}
        """Since when the use of some bound is not known, by namespace."""

    async def keep(self, namespace: str) -> float:
        """Make the quota of a namespace right; seconds until the next check.

        Raises:
            Conflict: the one of that name is not ours.
        """
        if self.shared is None:
            return await self._keep(namespace)
        async with self.shared.lock:
            return await self._keep(namespace)

    async def _keep(self, namespace: str) -> float:
        live = await self._client.find(RESOURCE_QUOTAS, self._name, namespace)
        if live is not None and _owner(live) != self._peer:
            raise Conflict(f"the ResourceQuota {namespace}/{self._name} is not liqod's")
        there = ((live or {}).get("spec") or {}).get("hard") or {}
        present = set(there)
        for key in stuck(live):
            self._settled[key] = trio.current_time() + SETTLE
            present.discard(key)
        bounds = self._bounds()
        # A bound that is there and works stays, however young a clock makes its kind look.
        waits = {key: 0.0 if key in present else await self._wait(key) for key in bounds}
        hard = {key: bound for key, bound in bounds.items() if not waits[key]}
        if self.shared is not None:
            hard = self.shared.within(namespace, there, hard)
        if live is None:
            if hard:
                wanted = mapping.quota(self._name, namespace, self._peer, hard)
                made = await self._client.create(RESOURCE_QUOTAS, wanted, namespace)
                self._wrote(namespace, made)
        else:
            patch = change(live, hard)
            if patch:
                body = {"spec": {"hard": patch}}
                made = await self._client.patch(RESOURCE_QUOTAS, self._name, body, namespace)
                self._wrote(namespace, made)
        looks = [*filter(None, waits.values()), self._prove(namespace, live, hard)]
        return min(looks)

    def _wrote(self, namespace: str, made: Partial) -> None:
        if self.shared is not None:
            self.shared.confirm_write(namespace, made.metadata)

    def _bounds(self) -> dict[str, str]:
        return {**self._granted(), **self._hard}

    def forget(self, namespace: str) -> None:
        """Drop the records of a namespace that is gone."""
        self._unproved.pop(namespace, None)

    def _prove(self, namespace: str, live: Json | None, hard: Mapping[str, str]) -> float:
        """Seconds until another check that the use of all bounds is known."""
        used = ((live or {}).get("status") or {}).get("used") or {}
        if all(key in used for key in hard if custom(key)):
            self._unproved.pop(namespace, None)
            return RESYNC
        now = trio.current_time()
        return min(max(PROVED, now - self._unproved.setdefault(namespace, now)), RESYNC)

    async def forbid_affinity(self, namespace: str) -> None:
        """Allow no affinity across namespaces, unless an administrator has written other bounds."""
        if await self._client.find(RESOURCE_QUOTAS, AFFINITY_QUOTA, namespace) is not None:
            return
        wanted = mapping.quota(AFFINITY_QUOTA, namespace, self._peer, {"pods": "0"})
        across = {"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}
        wanted["spec"]["scopeSelector"] = {"matchExpressions": [across]}
        await self._client.create(RESOURCE_QUOTAS, wanted, namespace)

    async def _wait(self, key: str) -> float:
        """Seconds until a bound can be set, 0 where that is now."""
        name = custom(key)
        if not name:
            return 0.0
        if key not in self._settled:
            found = await self._client.find(CUSTOM_RESOURCES, name, decode=Partial)
            created = None if found is None else found.metadata.creation_timestamp
            age = SETTLE if created is None else times.age(created)
            # Not by adding and taking away SETTLE: a rounded result would count as a wait.
            left = SETTLE - max(age, 0.0)
            self._settled[key] = trio.current_time() + left if left > 0.0 else 0.0
        return max(0.0, self._settled[key] - trio.current_time())


def custom(key: str) -> str:
    """The definition that a bound such as ``count/shadowpods.offloading.liqo.io`` refers to."""
    name = key.removeprefix(_COUNT)
    return name if key.startswith(_COUNT) and "." in name else ""


def stuck(live: Mapping[str, Any] | None) -> list[str]:
    """Bounds on custom resources of which the quota controller does not know the use."""
    status = (live or {}).get("status") or {}
    used = status.get("used") or {}
    return [key for key in status.get("hard") or () if custom(key) and key not in used]


def change(live: Mapping[str, Any], hard: Mapping[str, str]) -> dict[str, str | None]:
    """The merge patch of the bounds; amounts are compared by their value."""
    there = live.get("spec", {}).get("hard") or {}
    patch = exact_patch(there, hard)
    return {
        key: bound
        for key, bound in patch.items()
        if bound is None or not quantities.equal(there.get(key), bound)
    }


def _owner(live: Mapping[str, Any]) -> str:
    found = live["metadata"].get("labels") or {}
    return str(found.get(labels.REMOTE_CLUSTER_ID, ""))
