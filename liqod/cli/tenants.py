"""The provider's verbs: cordon, drain and activate a tenant; cordon one of its slices."""

import sys
from typing import Annotated, Any

import trio
import typer

from liqod.cli import common
from liqod.errors import ConfigError
from liqod.kube.client import Client
from liqod.kube.kinds import Kind
from liqod.model import labels
from liqod.resources import NAMESPACE_MAPS, RESOURCE_SLICES, TENANTS

POLL = 0.2

TenantName = Annotated[str, typer.Argument(help="The consumer's cluster id.")]
SliceName = Annotated[str, typer.Argument(help="The resource slice.")]
RemoteId = Annotated[str, typer.Option(help="The consumer whose slice it is.")]


def cordon_tenant(
    name: TenantName,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 30.0,
) -> None:
    """Keep what a consumer runs here, and accept nothing new from it."""
    _set_condition(name, "Cordoned", kubeconfig, context, timeout)
    sys.stdout.write(f"{name} is cordoned: what runs stays, nothing new is accepted\n")


def uncordon_tenant(
    name: TenantName,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 30.0,
) -> None:
    """Accept new work from a cordoned consumer again."""
    _set_condition(name, "Active", kubeconfig, context, timeout)
    sys.stdout.write(f"{name} is active\n")


def activate_tenant(
    name: TenantName,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 30.0,
) -> None:
    """Accept a drained consumer again."""
    _set_condition(name, "Active", kubeconfig, context, timeout)
    sys.stdout.write(f"{name} is active\n")


def drain_tenant(
    name: TenantName,
    yes: common.Yes = False,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 120.0,
) -> None:
    """Send a consumer's work away and withdraw its rights, but stay peered."""
    common.confirm(
        f"deletes the resource slices and namespaces of {name} here, with every pod in them",
        yes=yes,
    )

    async def main(progress: common.Progress) -> None:
        async with await common.connect(kubeconfig, context) as client:
            tenant = await _tenant(client, name)
            namespace = tenant["metadata"]["namespace"]
            progress(f"drain {name}")
            await _patch_condition(client, tenant, "Drained")
            progress(f"the slices and namespaces of {name} go")
            replicas = f"{labels.REPLICATED}=true"
            await _until_none(client, RESOURCE_SLICES, namespace, replicas)
            await _until_none(client, NAMESPACE_MAPS, namespace, replicas)

    common.run(main, timeout=timeout)
    sys.stdout.write(f"{name} is drained; `liqod activate tenant {name}` takes it back\n")


async def _until_none(client: Client, kind: Kind, namespace: str, selector: str) -> None:
    while True:
        if not await client.list(kind, namespace, labels=selector):
            return
        await trio.sleep(POLL)


def cordon_slice(
    name: SliceName,
    remote_cluster_id: RemoteId,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 30.0,
) -> None:
    """Accept no new pods on one slice."""
    _annotate_slice(name, remote_cluster_id, "true", kubeconfig, context, timeout)
    sys.stdout.write(f"{name} of {remote_cluster_id} is cordoned\n")


def uncordon_slice(
    name: SliceName,
    remote_cluster_id: RemoteId,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 30.0,
) -> None:
    """Accept new pods on a cordoned slice again."""
    _annotate_slice(name, remote_cluster_id, None, kubeconfig, context, timeout)
    sys.stdout.write(f"{name} of {remote_cluster_id} accepts pods again\n")


def _set_condition(
    name: str, condition: str, kubeconfig: common.Kubeconfig, context: str, timeout: float
) -> None:
    async def main(progress: common.Progress) -> None:
        async with await common.connect(kubeconfig, context) as client:
            progress(f"set the tenant {name} to {condition}")
            await _patch_condition(client, await _tenant(client, name), condition)

    common.run(main, timeout=timeout)


async def _patch_condition(client: Client, tenant: dict[str, Any], condition: str) -> None:
    meta = tenant["metadata"]
    patch = {"spec": {"tenantCondition": condition}}
    await client.patch(TENANTS, meta["name"], patch, meta["namespace"])


async def _tenant(client: Client, name: str) -> dict[str, Any]:
    found = await client.list(TENANTS)
    for tenant in found:
        if tenant["spec"].get("clusterID") == name:
            return tenant
    known = ", ".join(sorted(t["spec"].get("clusterID", "") for t in found)) or "nobody"
    raise ConfigError(f"there is no tenant {name} here; tenants are {known}")


def _annotate_slice(
    name: str,
    peer: str,
    value: str | None,
    kubeconfig: common.Kubeconfig,
    context: str,
    timeout: float,
) -> None:
    async def main(progress: common.Progress) -> None:
        async with await common.connect(kubeconfig, context) as client:
            progress(f"find the slice {name} of {peer}")
            selector = f"{labels.REPLICATED}=true,{labels.ORIGIN_ID}={peer}"
            found = await client.list(RESOURCE_SLICES, labels=selector)
            for item in found:
                if item["metadata"]["name"] == name:
                    patch = {"metadata": {"annotations": {labels.CORDON: value}}}
                    await client.patch(RESOURCE_SLICES, name, patch, item["metadata"]["namespace"])
                    return
            known = ", ".join(sorted(i["metadata"]["name"] for i in found)) or "none"
            raise ConfigError(f"{peer} has no slice {name} here; its slices are {known}")

    common.run(main, timeout=timeout)
