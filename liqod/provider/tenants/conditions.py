"""Cordoning, draining and accepting a tenant again: what a provider's operator decides by hand."""

from typing import Any

from liqod.errors import ConfigError
from liqod.kube.client import Client
from liqod.kube.kinds import NAMESPACES
from liqod.kube.meta import Partial
from liqod.model import labels
from liqod.resources import RESOURCE_SLICES, TENANTS

REPLICAS = f"{labels.REPLICATED}={labels.TRUE}"
"""Selects what a consumer replicates to here."""


async def lent_to(client: Client, consumer: str, namespace: str) -> list[str]:
    """What a consumer has here: its slices and its namespaces, each in a few words."""
    slices = await client.list(RESOURCE_SLICES, namespace, labels=REPLICAS, decode=Partial)
    mapped = await client.list(
        NAMESPACES, labels=f"{labels.REMOTE_CLUSTER_ID}={consumer}", decode=Partial
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
