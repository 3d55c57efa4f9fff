"""Moving a cluster from Liqo to liqod, and back, while pods run at peers and those of peers here.

Liqo's own uninstaller refuses while there are peerings. What is done here instead is to take out
Liqo's programs and all that they need to run, and nothing of what they have made: custom resources,
tenant and mapped namespaces, pods, credentials, the cluster's id and key stay, and liqod goes on
with them (docs/migration.md). What both have under the same name stays too, so that no peer loses a
right for a moment. Each step can be repeated: one that was broken off is continued by doing it
again, from what is then still there.
"""

from typing import Any, Final

import msgspec

from liqod.errors import ConfigError, NotFound
from liqod.install.manifests import INSTALLER, Options, manifests
from liqod.install.removal import daemon_stopped
from liqod.install.verbs import POLL, SELECTOR, Progress
from liqod.kube.client import Client
from liqod.kube.kinds import (
    ADMISSION_POLICIES,
    ADMISSION_POLICY_BINDINGS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    ROLES,
    RUNTIME_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Kind,
)
from liqod.kube.meta import Partial
from liqod.kube.selection import Selection
from liqod.model import labels
from liqod.ownid import own_cluster_id
from liqod.polling import poll_until
from liqod.resources import NAMESPACE_OFFLOADINGS, VIRTUAL_NODES
from liqod.resources.networking import GATEWAY_CLIENTS, GATEWAY_SERVERS

VALIDATING_WEBHOOKS: Final = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
API_SERVICES: Final = Kind(
    "apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False
)
CRON_JOBS: Final = Kind("batch", "v1", "CronJob", "cronjobs")
OF_LIQO: Final = f"{labels.APP_PART_OF}={labels.APP_LIQO},{labels.APP_MANAGED_BY}!={INSTALLER}"
"""Selects what Liqo's chart has made."""
KUBELETS: Final = f"{labels.OFFLOADING_COMPONENT}={labels.VIRTUAL_KUBELET}"
"""Selects the Deployments of virtual kubelets, and their pods."""
OF_KUBELETS: Final = f"{labels.APP_MANAGED_BY}={labels.APP_LIQO}"
"""Selects the ClusterRoleBindings of virtual kubelets."""
KUBELET_BINDING: Final = "liqo-node-"
"""What their names begin with; those of peers have the same label."""
RELEASE: Final = "owner=helm,name=liqo"
"""Selects Helm's records of its release; without them nothing removes what liqod has taken over."""
STOPPED_WITHIN: Final = 120.0
"""Seconds that Liqo's pods may take to end."""
HOOKS: Final = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, API_SERVICES)
"""These go first: nobody's write is to wait for a program that has ended."""
PROGRAMS: Final = (CRON_JOBS, DAEMON_SETS, DEPLOYMENTS)
NEEDED: Final = (
    SERVICES,
    CLUSTER_ROLE_BINDINGS,
    ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLES,
    SERVICE_ACCOUNTS,
    CONFIG_MAPS,
    SECRETS,
)
"""What only the programs need, in the order in which it goes."""
SHARED: Final = (
    (CLUSTER_ROLES, labels.CONTROL_PLANE_ROLE),
    (CLUSTER_ROLES, labels.REMOTE_ROLE),
    (CLUSTER_ROLES, labels.CLUSTER_WIDE_ROLE),
    (CLUSTER_ROLES, "liqo-peering-user-tenant-ns"),
    (ROLES, "liqo-peering-user-liqo-ns"),
    (RUNTIME_CLASSES, labels.RUNTIME_CLASS),
    (CONFIG_MAPS, labels.CLUSTER_ID_CONFIG_MAP),
)
"""What both have under the same name."""
OURS: Final = (
    ADMISSION_POLICY_BINDINGS,
    ADMISSION_POLICIES,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    SERVICES,
    SERVICE_ACCOUNTS,
    CONFIG_MAPS,
)
"""Kinds of which the way back takes out what the installation made."""


class Doomed(msgspec.Struct, frozen=True):
    """An object that goes."""

    kind: Kind
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind.name} {where}{self.name}"


class Found(msgspec.Struct, frozen=True):
    """What Liqo has in a cluster.

    Attributes:
        cluster_id: the cluster's id.
        doomed: what goes, in that order.
        nodes: the virtual nodes, which liqod goes on with.
        offloaded: how many pods are on them.
        guests: how many pods of peers are here.
        network: the peers with whom Liqo's network is set up, as ``<namespace>/<gateway>``.
    """

    cluster_id: str
    doomed: tuple[Doomed, ...]
    nodes: tuple[str, ...] = ()
    offloaded: int = 0
    guests: int = 0
    network: tuple[str, ...] = ()


async def survey(client: Client, namespace: str) -> Found:
    """What Liqo has here, and what of it is to go.

    Args:
        client: an administrator's.
        namespace: Liqo's own.

    Raises:
        ConfigError: the cluster has no id.
        LiqodError: as the client raises.
    """
    cluster_id = await own_cluster_id(client, namespace)
    kept = {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"])
        for one in manifests(Options(cluster_id=cluster_id, namespace=namespace), [])
        if one["kind"] != DEPLOYMENTS.name
    }
    kept.add((SECRETS.name, namespace, labels.KEYS_SECRET))
    doomed: list[Doomed] = []
    for kind in (*HOOKS, *PROGRAMS):
        doomed += await _find(client, kind, OF_LIQO)
    doomed += await _find(client, DEPLOYMENTS, KUBELETS)
    for kind in NEEDED:
        doomed += await _find(client, kind, OF_LIQO)
    bindings = await _find(client, CLUSTER_ROLE_BINDINGS, OF_KUBELETS)
    doomed += [one for one in bindings if one.name.startswith(KUBELET_BINDING)]
    doomed += await _of_kubelets(client)
    doomed += await _leases(client, namespace)
    doomed += await _find(client, SECRETS, RELEASE, namespace)
    nodes = await _find(client, NODES, f"{labels.TYPE}={labels.VIRTUAL_NODE_TYPE}")
    names = tuple(node.name for node in nodes)
    guests = await _find(client, PODS, labels.GUEST_PODS)
    gateways = [
        *await _find(client, GATEWAY_SERVERS, ""),
        *await _find(client, GATEWAY_CLIENTS, ""),
    ]
    return Found(
        cluster_id,
        tuple(
            dict.fromkeys(
                one for one in doomed if (one.kind.name, one.namespace, one.name) not in kept
            )
        ),
        names,
        await _offloaded(client, names),
        len(guests),
        tuple(f"{one.namespace}/{one.name}" for one in gateways),
    )


async def take_out(client: Client, found: Found, progress: Progress) -> None:
    """Take out what :func:`look` has found; what has gone meanwhile is no error.

    Raises:
        ConfigError: a program of Liqo's does not end.
    """
    for one in found.doomed:
        if one.kind in (*HOOKS, *PROGRAMS):
            progress(f"removing {one}")
            await _delete(client, one)
    await _ended(client, progress)
    for one in found.doomed:
        if one.kind not in (*HOOKS, *PROGRAMS):
            progress(f"removing {one}")
            await _delete(client, one)


async def give_back(client: Client, namespace: str, progress: Progress) -> str:
    """Take out liqod's program and what it needs, so that Liqo can be installed; returns the id.

    Peerings, namespaces, pods and credentials stay. What Liqo has under the same name is handed
    over to Helm as it is.

    Raises:
        ConfigError: the daemon still runs, or pods are here that Liqo would not know as a guest's.
    """
    cluster_id = await own_cluster_id(client, namespace)
    direct = await _find(client, PODS, f"{labels.MANAGED_BY}={labels.MANAGED_BY_CONSUMER}")
    if direct:
        raise ConfigError(
            f"{len(direct)} pods of peers have no ShadowPod ({direct[0]}): turn off "
            "provider.direct_pods, restart the daemon, and run this again once they have theirs"
        )
    progress("stopping the daemon")
    for one in await _find(client, DEPLOYMENTS, SELECTOR, namespace):
        await _delete(client, one)
    await daemon_stopped(client, namespace, progress)
    progress("withdrawing the webhook")
    for one in await _find(client, MUTATING_WEBHOOKS, f"{labels.MANAGED_BY_LIQOD}={labels.TRUE}"):
        await _delete(client, one)
    progress("taking off liqod's finalizers")
    await _free(client, VIRTUAL_NODES, labels.HOLD_VIRTUAL_NODE)
    await _free(client, NAMESPACE_OFFLOADINGS, labels.HOLD_NAMESPACE_OFFLOADING)
    progress("handing over what both have")
    for kind, name in SHARED:
        await _hand_over(client, kind, name, namespace)
    progress("removing liqod's roles and policies")
    for kind in OURS:
        for one in await _find(client, kind, SELECTOR):
            await _delete(client, one)
    for selector in (SELECTOR, f"{labels.MANAGED_BY_LIQOD}={labels.TRUE}"):
        for one in await _find(client, SECRETS, selector, namespace):
            if one.name != labels.KEYS_SECRET:
                await _delete(client, one)
    for one in await _find(client, RESOURCE_QUOTAS, f"{labels.MANAGED}={labels.TRUE}"):
        if one.name.startswith("liqod-"):
            await _delete(client, one)
    await client.delete(LEASES, labels.LEADER_LEASE, namespace)
    return cluster_id


async def _of_kubelets(client: Client) -> list[Doomed]:
    """The accounts of virtual kubelets, which have no label but the name of their virtual node."""
    found: list[Doomed] = []
    for node in await _find(client, VIRTUAL_NODES, ""):
        for name in (node.name, f"vk-{node.name}"):
            live = await client.find(SERVICE_ACCOUNTS, name, node.namespace, decode=Partial)
            if live is not None:
                found.append(_doomed(SERVICE_ACCOUNTS, live))
    return found


async def _leases(client: Client, namespace: str) -> list[Doomed]:
    """By what Liqo's programs have elected; virtual nodes have theirs elsewhere."""
    tenants = await _find(client, NAMESPACES, f"{labels.TENANT_NAMESPACE}={labels.TRUE}")
    found = []
    for where in (namespace, *(one.name for one in tenants)):
        found += await _find(client, LEASES, f"!{labels.STANDBY}", where)
    return [one for one in found if one.name != labels.LEADER_LEASE]


async def _offloaded(client: Client, nodes: tuple[str, ...]) -> int:
    count = 0
    for node in nodes:
        on = f"spec.nodeName={node}"
        count += len(await client.list(PODS, Selection(fields=on), decode=Partial))
    return count


async def _ended(client: Client, progress: Progress) -> None:
    """Wait until no program of Liqo's runs any more.

    Raises:
        ConfigError: one does not end.
    """
    left: list[Doomed] = []

    async def ended() -> bool:
        nonlocal left
        left = [*await _find(client, PODS, OF_LIQO), *await _find(client, PODS, KUBELETS)]
        if left:
            progress(f"waiting for Liqo's programs to end: {left[0]}")
        return not left

    await poll_until(
        ended,
        longest_pause=POLL,
        within=STOPPED_WITHIN,
        failing=lambda: ConfigError(
            f"{left[0]} does not end: see `kubectl describe` of it, and run this again"
        ),
    )


async def _hand_over(client: Client, kind: Kind, name: str, namespace: str) -> None:
    """Have Helm take something over as it is, which it does for what carries its marks."""
    where = namespace if kind.namespaced else None
    live = await client.find(kind, name, where)
    if live is None:
        return
    patch: dict[str, Any] = {
        "metadata": {
            "labels": {labels.APP_MANAGED_BY: "Helm", labels.MANAGED_BY_LIQOD: None},
            "annotations": {
                "meta.helm.sh/release-name": labels.APP_LIQO,
                "meta.helm.sh/release-namespace": namespace,
            },
        }
    }
    if "aggregationRule" in live:
        patch["aggregationRule"] = None  # its rules stay as they are summed up now
    await client.patch(kind, name, patch, where)


async def _free(client: Client, kind: Kind, finalizer: str) -> None:
    try:
        found = await client.list(kind, decode=Partial)
    except NotFound:
        return
    for one in found:
        meta = one.metadata
        if finalizer in meta.finalizers:
            left = [each for each in meta.finalizers if each != finalizer]
            await client.patch(
                kind, meta.name, {"metadata": {"finalizers": left}}, meta.namespace or None
            )


async def _delete(client: Client, one: Doomed) -> None:
    await client.delete(one.kind, one.name, one.namespace or None, uid=one.uid)


async def _find(
    client: Client, kind: Kind, selector: str, namespace: str | None = None
) -> list[Doomed]:
    """What is selected; nothing where there is no such kind."""
    try:
        found = await client.list(kind, Selection(namespace, labels=selector), decode=Partial)
    except NotFound:
        return []
    return [_doomed(kind, one) for one in found]


def _doomed(kind: Kind, found: Partial) -> Doomed:
    meta = found.metadata
    return Doomed(kind, meta.namespace, meta.name, meta.uid)
