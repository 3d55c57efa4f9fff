"""The provider's verbs: cordon, drain and activate a tenant; cordon one of its slices."""

import sys
from typing import Annotated

import trio
import typer

from liqod.cli import common, presence
from liqod.errors import ConfigError
from liqod.kube.client import Client
from liqod.kube.kinds import Kind
from liqod.model import labels
from liqod.provider.conditions import REPLICAS, find_tenant, lent_to, set_condition
from liqod.resources import NAMESPACE_MAPS, RESOURCE_SLICES
from liqod.tenancy import replicas_of

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
    """Keep what a consumer runs here, and accept nothing new from it.

    \b
    Examples:
      liqod cordon tenant rome
    """
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
    liqo_namespace: common.LiqoNamespace = labels.LIQO_NAMESPACE,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 120.0,
) -> None:
    """Send a consumer's work away and withdraw its rights, but stay peered.

    \b
    Examples:
      liqod drain tenant rome --yes
    """

    async def look(progress: common.Progress) -> list[str]:
        async with await common.connect(kubeconfig, context) as client:
            tenant = await find_tenant(client, name)
            return await lent_to(client, name, tenant["metadata"]["namespace"])

    lent = ", ".join(common.run(look, timeout=timeout)) or "nothing, since nothing is lent"
    common.confirm(f"deletes {lent}", yes=yes)

    async def main(progress: common.Progress) -> None:
        async with (
            await common.connect(kubeconfig, context) as client,
            presence.daemon(client, liqo_namespace, progress),
        ):
            tenant = await find_tenant(client, name)
            namespace = tenant["metadata"]["namespace"]
            progress(f"drain {name}")
            await set_condition(client, tenant, "Drained")
            progress(f"wait until the slices and namespaces of {name} are gone")
            await _until_none(client, RESOURCE_SLICES, namespace, REPLICAS)
            await _until_none(client, NAMESPACE_MAPS, namespace, REPLICAS)

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
    """Accept no new pods on one slice.

    \b
    Examples:
      liqod cordon resourceslice milan --remote-cluster-id rome
    """
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
            await set_condition(client, await find_tenant(client, name), condition)

    common.run(main, timeout=timeout)


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
            found = await client.list(RESOURCE_SLICES, labels=replicas_of(peer))
            for item in found:
                if item["metadata"]["name"] == name:
                    patch = {"metadata": {"annotations": {labels.CORDON: value}}}
                    await client.patch(RESOURCE_SLICES, name, patch, item["metadata"]["namespace"])
                    return
            known = ", ".join(sorted(i["metadata"]["name"] for i in found))
            others = f"its slices are {known}" if known else "nothing is lent to it"
            raise ConfigError(f"{peer} has no slice {name} here; {others}")

    common.run(main, timeout=timeout)
