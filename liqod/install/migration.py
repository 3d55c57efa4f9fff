"""Moving a cluster from Liqo to liqod, and back, while pods run at peers and those of peers here.

Liqo's own uninstaller refuses while there are peerings. The migration takes out instead Liqo's
programs, all that they need to run, and the objects that they have written for each other about
this cluster's own nodes. Objects of peerings stay, and liqod goes on with them
(docs/how-to/migration.md): custom resources, joined networks, tenant and mapped namespaces, pods,
credentials, the cluster's id and key. Objects that both have under the same name stay too, so that
no peer loses a right for a moment. Each step can be repeated: one that was broken off is continued
by doing it again, from what is then still there.
"""

from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    ADMISSION_POLICIES,
    ADMISSION_POLICY_BINDINGS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
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
from liqod.apimachinery.meta import Partial
from liqod.cluster.ownid import own_cluster_id
from liqod.errors import ConfigError, NotFound
from liqod.install import clustersetdns, dnsserver
from liqod.install.manifests import HELM, OF_LIQO, OF_LIQOD, SELECTOR, Options, manifests
from liqod.install.overlayremoval import overlay_down
from liqod.install.removal import daemon_stopped
from liqod.install.verbs import POLL
from liqod.kube.client import Client
from liqod.kube.deletion import set_finalizers
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.network.gateway import gatewayplan
from liqod.network.gateway.gatewayobjects import Object
from liqod.network.gateway.gatewayplan import LocalFacts
from liqod.network.gateway.keysecrets import KeySecret
from liqod.network.orders.tunnels import Listening
from liqod.procedures.networkobjects import WIREGUARD
from liqod.provider.workloads import directpods
from liqod.resources import NAMESPACE_OFFLOADINGS, VIRTUAL_NODES
from liqod.resources.fabric import (
    FIREWALL_CONFIGURATIONS,
    GENEVE_TUNNELS,
    INTERNAL_FABRICS,
    INTERNAL_NODES,
    ROUTE_CONFIGURATIONS,
)
from liqod.resources.ipam import IPS, NETWORKS
from liqod.resources.networking import (
    GATEWAY_CLIENTS,
    GATEWAY_SERVERS,
    WG_GATEWAY_CLIENTS,
    WG_GATEWAY_SERVERS,
    GatewayClient,
    GatewayServer,
)
from liqod.runtime.polling import poll_until
from liqod.runtime.progress import Progress, Step

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
KUBELETS: Final = f"{labels.OFFLOADING_COMPONENT}={labels.VIRTUAL_KUBELET}"
"""Selects the Deployments of virtual kubelets, and their pods."""
OF_KUBELETS: Final = f"{labels.APP_MANAGED_BY}={labels.APP_LIQO}"
"""Selects the ClusterRoleBindings of virtual kubelets."""
KUBELET_BINDING: Final = "liqo-node-"
"""Prefix of their names; the bindings of peers have the same label."""
RELEASE: Final = "owner=helm,name=liqo"
"""Selects Helm's records of its release; without them nothing removes what liqod has taken over."""
STOPPED_WITHIN: Final = 120.0
"""Seconds that Liqo's pods may take to end."""
HOOKS: Final = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, API_SERVICES)
"""These go first: nobody's write is to wait for a program that has ended."""
PROGRAMS: Final = (CRON_JOBS, DAEMON_SETS, DEPLOYMENTS)
"""Those in Liqo's own namespace go next, for they make others: one for each virtual node and each
gateway, in the namespaces of peers, again and again."""
NODES_OWN: Final = (
    FIREWALL_CONFIGURATIONS,
    ROUTE_CONFIGURATIONS,
    GENEVE_TUNNELS,
    INTERNAL_FABRICS,
    INTERNAL_NODES,
    WG_GATEWAY_SERVERS,
    WG_GATEWAY_CLIENTS,
)
"""Kinds that Liqo's programs write for each other about this cluster's own nodes and pods."""
NOT_OURS: Final = f"{labels.MANAGED_BY_LIQOD}!={labels.TRUE}"
OF_GATEWAYS: Final = f"{OF_KUBELETS},{labels.GATEWAY_NAME}"
"""Selects the ClusterRoleBindings of gateways."""
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
"""Kinds that only the programs need, in the order in which they are deleted."""
SHARED: Final = (
    (CLUSTER_ROLES, labels.CONTROL_PLANE_ROLE),
    (CLUSTER_ROLES, labels.REMOTE_ROLE),
    (CLUSTER_ROLES, labels.CLUSTER_WIDE_ROLE),
    (CLUSTER_ROLES, "liqo-peering-user-tenant-ns"),
    (ROLES, "liqo-peering-user-liqo-ns"),
    (RUNTIME_CLASSES, labels.RUNTIME_CLASS),
    (CONFIG_MAPS, labels.CLUSTER_ID_CONFIG_MAP),
)
"""Objects that liqod and Liqo both have under the same name."""
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


class LiqoSurvey(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of Liqo in a cluster.

    Attributes:
        cluster_id: the cluster's id.
        namespace: Liqo's own.
        doomed: what goes, in that order.
        nodes: the virtual nodes, which liqod goes on with.
        offloaded: how many pods are on them.
        guests: how many pods of peers are here.
        joined: the gateways that liqod goes on with, as ``<kind> <namespace>/<name>``.
        ends: those with which it does not, by the same, and why, a clause.
    """

    cluster_id: str
    namespace: str
    doomed: tuple[Doomed, ...]
    nodes: tuple[str, ...] = ()
    offloaded: int = 0
    guests: int = 0
    joined: tuple[str, ...] = ()
    ends: tuple[tuple[str, str], ...] = ()


async def survey(client: Client, namespace: str) -> LiqoSurvey:
    """Finds the objects of Liqo here, and selects those that are to go.

    Args:
        client: an administrator's.
        namespace: Liqo's own.

    Raises:
        ConfigError: the cluster has no id.
    """
    cluster_id = await own_cluster_id(client, namespace)
    kept = {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"])
        for one in manifests(Options(cluster_id=cluster_id, namespace=namespace), [])
        if one["kind"] != DEPLOYMENTS.name
    }
    kept.add((SECRETS.name, namespace, labels.KEYS_SECRET))
    doomed: list[Doomed] = []
    for kind in HOOKS:
        doomed += await _find(client, kind, OF_LIQO)
    doomed += await _programs(client)
    for kind in NEEDED:
        doomed += await _find(client, kind, OF_LIQO)
    bindings = await _find(client, CLUSTER_ROLE_BINDINGS, OF_KUBELETS)
    doomed += [one for one in bindings if one.name.startswith(KUBELET_BINDING)]
    doomed += await _find(client, CLUSTER_ROLE_BINDINGS, OF_GATEWAYS)
    doomed += await _of_kubelets(client)
    doomed += await _leases(client, namespace)
    for kind in NODES_OWN:
        doomed += await _find(client, kind, NOT_OURS)
    doomed += await _own_addresses(client)
    doomed += await _find(client, SECRETS, RELEASE, namespace)
    nodes = await _find(client, NODES, f"{labels.TYPE}={labels.VIRTUAL_NODE_TYPE}")
    names = tuple(node.name for node in nodes)
    guests = await _find(client, PODS, labels.GUEST_PODS)
    joined, ends = await _networks(client, namespace)
    return LiqoSurvey(
        cluster_id=cluster_id,
        namespace=namespace,
        doomed=tuple(
            dict.fromkeys(
                one for one in doomed if (one.kind.name, one.namespace, one.name) not in kept
            )
        ),
        nodes=names,
        offloaded=await _offloaded(client, names),
        guests=len(guests),
        joined=joined,
        ends=ends,
    )


async def take_out(client: Client, namespace: str, progress: Progress) -> None:
    """Take out what :func:`survey` finds; what has gone meanwhile is no error.

    Programs that make Deployments end before those go, and are looked for again after each step:
    until then the Deployments are made anew.

    Args:
        client: an administrator's.
        namespace: Liqo's own.
        progress: told what goes, and what is waited for.

    Raises:
        ConfigError: a program of Liqo's does not end.
    """

    async def take(*kinds: Kind, within: str | None = None) -> None:
        for one in (await survey(client, namespace)).doomed:
            if one.kind in kinds and within in (None, one.namespace):
                progress(f"removing {one}")
                await _delete(client, one)

    await take(*HOOKS)
    await take(*PROGRAMS, within=namespace)
    await _ended(client, namespace, progress)
    await take(*PROGRAMS)
    await _ended(client, None, progress)
    for kind in (*NODES_OWN, IPS, NETWORKS):
        await _free(client, kind, _is_liqos)
    for one in (await survey(client, namespace)).doomed:
        progress(f"removing {one}")
        await _delete(client, one)


async def give_back(client: Client, namespace: str, progress: Progress) -> str:
    """Take out liqod's program and what it needs, so that Liqo can be installed; returns the id.

    Peerings, namespaces, pods and credentials stay. Objects that Liqo has under the same name are
    handed over to Helm as they are.

    Raises:
        ConfigError: the daemon still runs, or has not taken over pods that Liqo would not know; or
            CoreDNS would lose what it reads.
    """
    cluster_id = await own_cluster_id(client, namespace)
    if await client.find(MUTATING_WEBHOOKS, directpods.WEBHOOK, decode=Partial) is not None:
        raise ConfigError(
            "pods of peers are here, or were, that have no ShadowPod: run the daemon of this "
            "version until it has taken them over, then this again"
        )
    await clustersetdns.take_back(client, progress)
    await dnsserver.take_away(client, namespace)
    progress("stopping the daemon")
    for one in await _find(client, DEPLOYMENTS, SELECTOR, namespace):
        await _delete(client, one)
    await daemon_stopped(client, namespace, progress)
    progress("withdrawing the webhook")
    for one in await _find(client, MUTATING_WEBHOOKS, OF_LIQOD):
        await _delete(client, one)
    progress("handing over joined networks")
    await _hand_over_networks(client, namespace, progress)
    progress("taking off liqod's finalizers")
    await _free(client, VIRTUAL_NODES, lambda each: each == labels.HOLD_VIRTUAL_NODE)
    await _free(
        client, NAMESPACE_OFFLOADINGS, lambda each: each == labels.HOLD_NAMESPACE_OFFLOADING
    )
    progress("handing over what both have")
    for kind, name in SHARED:
        await _hand_over(client, kind, name, namespace)
    progress("removing liqod's roles and policies")
    for kind in OURS:
        for one in await _find(client, kind, SELECTOR):
            await _delete(client, one)
    for selector in (SELECTOR, OF_LIQOD):
        for one in await _find(client, SECRETS, selector, namespace):
            if one.name != labels.KEYS_SECRET:
                await _delete(client, one)
    for one in await _find(client, RESOURCE_QUOTAS, f"{labels.MANAGED}={labels.TRUE}"):
        if one.name.startswith("liqod-"):
            await _delete(client, one)
    await client.delete(LEASES, labels.LEADER_LEASE, namespace)
    return cluster_id


async def _hand_over_networks(client: Client, namespace: str, progress: Progress) -> None:
    """Have Liqo find gateways as it makes them: with their keys, and with no stand-ins."""
    ours = OF_LIQOD
    silent = await overlay_down(client, progress)
    for name in silent:
        progress(
            f"the node {name} did not answer: what is left there ends when it is started again"
        )
    for one in await _find(client, DAEMON_SETS, SELECTOR):
        await _delete(client, one)
    for one in await _find(client, NAMESPACES, SELECTOR):
        if one.name == ids.nodes_namespace(namespace):
            await _delete(client, one)
    for kind in (INTERNAL_NODES, IPS):
        for one in await _find(client, kind, ours):
            await _delete(client, one)
    for kind in (DEPLOYMENTS, SERVICES, ENDPOINT_SLICES):
        for one in await _find(client, kind, f"{labels.STAND_IN}={labels.TRUE}"):
            await _delete(client, one)
    tunnels = Selection(namespace, labels=f"{labels.TUNNEL}={labels.TRUE}")
    for kept in await client.list(SECRETS, tunnels, decode=KeySecret):
        peer = kept.metadata.labels.get(labels.REMOTE_CLUSTER_ID, "")
        shown = f"{labels.GATEWAY_RESOURCE}={labels.TRUE},{labels.REMOTE_CLUSTER_ID}={peer}"
        for one in await _find(client, SECRETS, shown):
            key = {labels.PRIVATE_KEY_FIELD: b64encode(kept.private).decode()}
            await client.patch(SECRETS, one.name, {"data": key}, one.namespace)


async def _programs(client: Client) -> list[Doomed]:
    """Liqo's programs, first those that make others."""
    found = [one for kind in PROGRAMS for one in await _find(client, kind, OF_LIQO)]
    return [*found, *await _find(client, DEPLOYMENTS, KUBELETS)]


async def _own_addresses(client: Client) -> list[Doomed]:
    """The IPs that Liqo has made of itself: of pods, of what a peer cannot tell, of API servers.

    liqod needs none of them, and would lend these addresses to peers.
    """
    try:
        found = await client.list(IPS, Selection(labels=NOT_OURS), decode=Partial)
    except NotFound:
        return []
    types = (labels.API_SERVER_TYPE, labels.API_SERVER_PROXY)
    return [
        _doomed(IPS, one)
        for one in found
        if one.metadata.labels.get(labels.IP_TYPE) in types
        or any(owner.kind in ("Pod", "Configuration") for owner in one.metadata.owner_references)
    ]


async def _networks(
    client: Client, namespace: str
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """The gateways with which liqod goes on, and the others with the reason."""
    here = LocalFacts(namespace=namespace, backends={WIREGUARD: Listening()})
    by_peer: dict[tuple[str, str], list[Object]] = {}
    found: list[Object] = []
    with suppress(NotFound):  # Liqo without its network
        found += await client.list(GATEWAY_SERVERS, decode=GatewayServer)
        found += await client.list(GATEWAY_CLIENTS, decode=GatewayClient)
    for one in found:
        peer = one.metadata.labels.get(labels.REMOTE_CLUSTER_ID, "")
        by_peer.setdefault((one.namespace, peer), []).append(one)
    joined, ends = [], []
    for (_, peer), gateways in sorted(by_peer.items()):
        chosen, refused = gatewayplan.judged(gateways, peer, here)
        if chosen is not None:  # another one to the same peer carries nothing
            joined.append(_shown(chosen))
        else:
            ends += [(_shown(one), refused[one.metadata.uid].message) for one in gateways]
    return tuple(joined), tuple(ends)


def _shown(one: Object) -> str:
    return f"{one.KIND.name} {one.namespace}/{one.name}"


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


async def _ended(client: Client, namespace: str | None, progress: Progress) -> None:
    """Wait until no program of Liqo's runs any more, in one namespace or in all.

    Raises:
        ConfigError: one does not end.
    """
    left: list[Doomed] = []

    async def ended() -> bool:
        nonlocal left
        left = [
            one
            for which in (OF_LIQO, KUBELETS)
            for one in await _find(client, PODS, which, namespace)
        ]
        if left:
            progress(Step("waiting for Liqo's programs to end", str(left[0])))
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
            "labels": {labels.APP_MANAGED_BY: HELM, labels.MANAGED_BY_LIQOD: None},
            "annotations": {
                "meta.helm.sh/release-name": labels.APP_LIQO,
                "meta.helm.sh/release-namespace": namespace,
            },
        }
    }
    if "aggregationRule" in live:
        patch["aggregationRule"] = None  # its rules stay as they are summed up now
    await client.patch(kind, name, patch, where)


async def _free(client: Client, kind: Kind, which: Callable[[str], bool]) -> None:
    """Take finalizers off all objects of a kind."""
    try:
        found = await client.list(kind, decode=Partial)
    except NotFound:
        return
    for one in found:
        meta = one.metadata
        held = [each for each in meta.finalizers if which(each)]
        await set_finalizers(client, kind, meta, remove=held)


def _is_liqos(finalizer: str) -> bool:
    """True if a finalizer waits for one of Liqo's programs."""
    return finalizer.partition("/")[0].endswith(".liqo.io")


async def _delete(client: Client, one: Doomed) -> None:
    await client.delete(one.kind, one.name, one.namespace or None, uid=one.uid)


async def _find(
    client: Client, kind: Kind, selector: str, namespace: str | None = None
) -> list[Doomed]:
    """The selected objects; none where there is no such kind."""
    try:
        found = await client.list(kind, Selection(namespace, labels=selector), decode=Partial)
    except NotFound:
        return []
    return [_doomed(kind, one) for one in found]


def _doomed(kind: Kind, found: Partial) -> Doomed:
    meta = found.metadata
    return Doomed(kind, meta.namespace, meta.name, meta.uid)
