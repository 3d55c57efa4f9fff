"""The provider's verbs: cordon, drain and activate a tenant; cordon one of its slices."""

from typing import Annotated

import typer

from liqod.cli import common, completing, presence, terminal
from liqod.consumer.procedures.slicerequest import poll
from liqod.errors import ConfigError
from liqod.kube.client import Client
from liqod.kube.kinds import Kind
from liqod.model import labels
from liqod.provider.tenants.conditions import REPLICAS, find_tenant, lent_to, set_condition
from liqod.resources import NAMESPACE_MAPS, RESOURCE_SLICES
from liqod.tenancy import replicas_of

TenantName = Annotated[
    str,
    typer.Argument(
        metavar="PEER", help="The consumer's cluster id.", autocompletion=completing.tenants
    ),
]
SliceName = Annotated[
    str,
    typer.Argument(metavar="SLICE", help="The resource slice.", autocompletion=completing.slices),
]
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
    terminal.say(f"{name} is cordoned: what runs stays, nothing new is accepted")


def uncordon_tenant(
    name: TenantName,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 30.0,
) -> None:
    """Accept new work from a cordoned consumer again."""
    _set_condition(name, "Active", kubeconfig, context, timeout)
    terminal.say(f"{name} is active")


def activate_tenant(
    name: TenantName,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 30.0,
) -> None:
    """Accept a drained consumer again."""
    _set_condition(name, "Active", kubeconfig, context, timeout)
    terminal.say(f"{name} is active")


def drain_tenant(
    name: TenantName,
    yes: common.Yes = False,
    liqo_namespace: common.LiqoNamespace = labels.LIQO_NAMESPACE,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 300.0,
) -> None:
    """Send a consumer's work away and withdraw its rights, but stay peered.

    A consumer's daemon moves its pods first, in steps and within their disruption budgets, for no
    longer than provider.drain_timeout. `liqod revoke` does not wait.

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
            progress(f"wait until {name} has moved its pods, and its slices are gone")
            await _until_none(client, RESOURCE_SLICES, namespace, REPLICAS)
            await _until_none(client, NAMESPACE_MAPS, namespace, REPLICAS)

    common.run(main, timeout=timeout)
    terminal.say(f"{name} is drained; `liqod activate tenant {name}` takes it back")


async def _until_none(client: Client, kind: Kind, namespace: str, selector: str) -> None:
    async def look() -> bool:
        return not await client.list(kind, namespace, labels=selector)

    await poll(look)


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
    terminal.say(f"{name} of {remote_cluster_id} is cordoned")


def uncordon_slice(
    name: SliceName,
    remote_cluster_id: RemoteId,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 30.0,
) -> None:
    """Accept new pods on a cordoned slice again."""
    _annotate_slice(name, remote_cluster_id, None, kubeconfig, context, timeout)
    terminal.say(f"{name} of {remote_cluster_id} accepts pods again")


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
