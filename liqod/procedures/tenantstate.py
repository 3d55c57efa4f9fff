"""Cordons, drains and uncordons a tenant, by hand of a provider's operator."""

from typing import Any

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, Kind
from liqod.apimachinery.meta import Partial
from liqod.cluster.tenancy import replicas_of
from liqod.errors import ConfigError
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.resources import NAMESPACE_MAPS, QUOTAS, RESOURCE_SLICES, TENANTS
from liqod.runtime.polling import poll_until
from liqod.runtime.progress import Progress

REPLICAS = f"{labels.REPLICATED}={labels.TRUE}"
"""Selects the objects that a consumer replicates to this cluster."""


async def lent_to(client: Client, consumer: str, namespace: str) -> list[str]:
    """A consumer's slices and namespaces in this cluster, each in a few words."""
    slices = await client.list(
        RESOURCE_SLICES, Selection(namespace, labels=REPLICAS), decode=Partial
    )
    mapped = await client.list(
        NAMESPACES, Selection(labels=f"{labels.REMOTE_CLUSTER_ID}={consumer}"), decode=Partial
    )
    return [
        *(f"the slice {each.metadata.name}" for each in slices),
        *(
            f"the namespace {each.metadata.name} with every pod in it"
            for each in mapped
            if each.metadata.name != namespace
        ),
    ]


async def set_condition(client: Client, tenant: dict[str, Any], condition: str) -> None:
    """Set a tenant to ``Active``, ``Cordoned`` or ``Drained``."""
    meta = tenant["metadata"]
    patch = {"spec": {"tenantCondition": condition}}
    await client.patch(TENANTS, meta["name"], patch, meta["namespace"])


async def find_tenant(client: Client, name: str) -> dict[str, Any]:
    """The Tenant of a consumer. Raises ConfigError where there is none."""
    found = await client.list(TENANTS)
    for tenant in found:
        if tenant["spec"].get("clusterID") == name:
            return tenant
    known = ", ".join(sorted(t["spec"].get("clusterID", "") for t in found))
    others = f"tenants are {known}" if known else "nobody borrows from this cluster"
    raise ConfigError(f"there is no tenant {name} here; {others}")


async def set_state(client: Client, name: str, condition: str, progress: Progress) -> None:
    """Set the tenant of a consumer to ``Active`` or ``Cordoned``; ends when it has that state.

    Raises:
        ConfigError: there is no such tenant.
    """
    tenant = await find_tenant(client, name)
    progress(f"set the tenant {name} to {condition}")
    await set_condition(client, tenant, condition)
    if condition == "Cordoned":
        progress("wait until this cluster's daemon accepts no more pods of it")
        await _until_cordoned(client, tenant["metadata"]["namespace"])


async def _until_cordoned(client: Client, namespace: str, name: str = "") -> None:
    """Wait until one of liqod's Quotas of a consumer, or each of them, admits nothing more."""
    ours = Selection(namespace, labels=f"{labels.MANAGED}={labels.TRUE}")

    async def cordoned() -> bool:
        quotas = await client.list(QUOTAS, ours)
        concerned = (each for each in quotas if name in ("", each["metadata"]["name"]))
        return all(each["spec"].get("cordoned") for each in concerned)

    await poll_until(cordoned)


async def drain(client: Client, name: str, progress: Progress) -> None:
    """Evict a consumer's pods; ends when they are gone.

    Raises:
        ConfigError: there is no such tenant.
    """
    tenant = await find_tenant(client, name)
    namespace = tenant["metadata"]["namespace"]
    progress(f"drain {name}")
    await set_condition(client, tenant, "Drained")
    progress(f"wait until {name} has moved its pods, and its slices are gone")
    for kind in (RESOURCE_SLICES, NAMESPACE_MAPS):
        await wait_until_none(client, kind, namespace)


async def wait_until_none(client: Client, kind: Kind, namespace: str) -> None:
    async def none() -> bool:
        return not await client.list(kind, Selection(namespace, labels=REPLICAS), decode=Partial)

    await poll_until(none)


async def cordon_slice(
    client: Client, name: str, consumer: str, cordoned: bool, progress: Progress
) -> None:
    """Cordon a slice of a consumer, or accept new pods on it again; ends when that is done.

    Raises:
        ConfigError: there is no such slice.
    """
    progress(f"find the slice {name} of {consumer}")
    found = await client.list(
        RESOURCE_SLICES, Selection(labels=replicas_of(consumer)), decode=Partial
    )
    for each in found:
        if each.metadata.name == name:
            mark = {labels.CORDON: labels.TRUE if cordoned else None}
            patch = {"metadata": {"annotations": mark}}
            namespace = each.metadata.namespace
            await client.patch(RESOURCE_SLICES, name, patch, namespace)
            if cordoned:
                progress("wait until this cluster's daemon accepts no more pods on it")
                await _until_cordoned(client, namespace, ids.slice_user(name, consumer))
            return
    known = ", ".join(sorted(each.metadata.name for each in found))
    others = f"its slices are {known}" if known else "nothing is lent to it"
    raise ConfigError(f"{consumer} has no slice {name} here; {others}")
