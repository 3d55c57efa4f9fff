"""``liqod uninstall``: take everything out again, and leave nothing.

It refuses while the cluster is peered, and says with whom; a peering ends by ``liqod unpeer``,
which also notifies the other side. Garbage of a killed daemon goes too: virtual nodes, namespaces
of former peers, labels on offloaded namespaces, finalizers that nobody would take off.
"""

from typing import Any, Final

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    ADMISSION_POLICIES,
    ADMISSION_POLICY_BINDINGS,
    CLAIMS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCES,
    DAEMON_SETS,
    DEPLOYMENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    ROLE_BINDINGS,
    ROLES,
    RUNTIME_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    SIGNING_REQUESTS,
    STORAGE_CLASSES,
    Kind,
)
from liqod.apimachinery.meta import Partial
from liqod.errors import ConfigError, NotFound
from liqod.identity import signingrequests
from liqod.install import clusterproperties, clustersetdns, refusals, rights
from liqod.install.manifests import OF_LIQOD, SELECTOR
from liqod.install.overlayremoval import overlay_down
from liqod.install.verbs import POLL
from liqod.kube.client import Client
from liqod.kube.leases import Lease
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.model.objects import webhook
from liqod.provider.workloads import directpods
from liqod.resources import (
    DEFINITIONS,
    FOREIGN_CLUSTERS,
    IDENTITIES,
    RESOURCE_SLICES,
    TENANTS,
    VIRTUAL_NODES,
)
from liqod.resources.networking import GATEWAY_CLIENTS, GATEWAY_SERVERS
from liqod.runtime.polling import poll_until
from liqod.runtime.progress import Progress

PEERED: Final = (
    *(TENANTS, IDENTITIES, RESOURCE_SLICES, VIRTUAL_NODES),
    *(GATEWAY_SERVERS, GATEWAY_CLIENTS),
)
"""Kinds by whose objects a peering, or a joined network, is known."""
STOPPED_WITHIN: Final = 30.0
"""Seconds that a daemon may take to release its Lease, or to be found dead."""
GONE_WITHIN: Final = 60.0
"""Seconds that namespaces may take to go."""
OURS: Final = (
    SELECTOR,
    f"{labels.MANAGED}={labels.TRUE}",
    OF_LIQOD,
    labels.PEERING_USER,
)
"""Selectors of what installation, daemon and ``generate peering-user`` make."""
_CLUSTER_WIDE: Final = (
    ADMISSION_POLICY_BINDINGS,
    ADMISSION_POLICIES,
    RUNTIME_CLASSES,
    STORAGE_CLASSES,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
)
_NAMESPACED: Final = (
    SERVICES,
    POD_DISRUPTION_BUDGETS,
    CONFIG_MAPS,
    SECRETS,
    ROLE_BINDINGS,
    ROLES,
    LEASES,
    SERVICE_ACCOUNTS,
)


async def uninstall(
    client: Client, namespace: str, *, purge: bool, forget: bool = False, progress: Progress
) -> list[str]:
    """Remove the installation whose namespace this is.

    Args:
        client: an administrator's.
        namespace: liqod's own.
        purge: remove the definitions of the custom resources too.
        forget: give up what peers that do not answer still have of this cluster.
        progress: told of each step.

    Returns:
        The names of nodes on which something may be left, since they did not answer.

    Raises:
        ConfigError: Helm has installed it, it has another namespace, the cluster is peered,
            CoreDNS would lose what it reads, the daemon still runs, or something does not go.
    """
    progress("looking for peers")
    await refuse(client, namespace, forget=forget)
    await clustersetdns.take_back(client, progress, purge=purge)
    await clusterproperties.take_back(client)
    progress("stopping the daemon")
    await _delete_all(client, DEPLOYMENTS, SELECTOR, namespace)
    await daemon_stopped(client, namespace, progress)
    silent = await overlay_down(client, progress)
    await _delete_all(client, DAEMON_SETS, SELECTOR)
    await directpods.take_over(client)
    progress("withdrawing the webhook")
    await _delete_all(client, MUTATING_WEBHOOKS, OF_LIQOD)
    progress("removing what is left in the custom resources")
    for definition in DEFINITIONS:
        await _clear(client, definition.resource.KIND)
    progress("removing virtual nodes and labels")
    await _remove_nodes(client)
    await _unlabel_namespaces(client)
    progress("removing certificates, roles and policies")
    for selector in (signingrequests.SELECTOR, labels.SERVING_REQUEST, labels.PEERING_USER):
        await _delete_all(client, SIGNING_REQUESTS, selector)
    for selector in OURS:
        for kind in _CLUSTER_WIDE:
            await _delete_all(client, kind, selector)
    await _remove_namespaces(client, namespace, progress)
    await _remove_sums(client)
    if purge:
        progress("removing the custom resource definitions")
        await _purge(client)
    return silent


async def peers_left(client: Client, tenants: list[dict[str, Any]] | None = None) -> list[str]:
    """The ids of the clusters that this one is peered with, sorted.

    Args:
        client: an administrator's.
        tenants: all Tenants, where they have been read.
    """
    found: set[str] = set()
    for kind in PEERED:
        known = tenants if kind == TENANTS else None
        for one in await _list(client, kind) if known is None else known:
            peer = one.get("spec", {}).get("clusterID") or (
                one["metadata"].get("labels", {}).get(labels.REMOTE_CLUSTER_ID)
            )
            found.add(str(peer or one["metadata"]["name"]))
    return sorted(found)


async def refuse(client: Client, namespace: str, *, forget: bool = False) -> None:
    """Make sure that this is the installation, not Helm's, and that nothing is lent or borrowed.

    Args:
        client: an administrator's.
        namespace: that of the installation.
        forget: go on although a peer has not confirmed that its peering has ended.

    Raises:
        ConfigError: it is Helm's, or in another namespace, or something is lent or borrowed, or a
            peer is still being left; with whom.
    """
    helms = await refusals.by_helm(client)
    if helms is not None:
        raise ConfigError(str(helms))
    # Else its roles would go, and its daemon would run on without them.
    accounts = await client.list(SERVICE_ACCOUNTS, Selection(labels=SELECTOR), decode=Partial)
    places = {x.metadata.namespace for x in accounts if x.metadata.name == rights.SERVICE_ACCOUNT}
    if places and namespace not in places:
        place = min(places)
        raise ConfigError(
            f"liqod is installed in the namespace {place}, and not in {namespace}: "
            f"`liqod uninstall --liqo-namespace {place}` takes it out"
        )
    peers = await peers_left(client)
    if peers:
        raise ConfigError(
            f"this cluster is peered with {', '.join(peers)}: end that first with"
            f" `liqod unpeer {peers[0]}`"
        )
    leaving = [
        str(one["metadata"]["name"])
        for one in await _list(client, FOREIGN_CLUSTERS)
        if labels.TOMBSTONE in one["metadata"].get("annotations", {})
    ]
    if leaving and not forget:
        raise ConfigError(
            f"{', '.join(leaving)} has not confirmed that the peering has ended: wait for it, or "
            "give up what it still has of this cluster with `liqod uninstall --forget`"
        )


async def daemon_stopped(client: Client, namespace: str, progress: Progress) -> None:
    """Wait until nobody holds the daemon's Lease, or its holder has been silent for too long.

    Raises:
        ConfigError: a daemon still renews it.
    """
    renewed: str | None = None
    holder: str | None = None
    silent_since = trio.current_time()

    async def stopped() -> bool:
        nonlocal renewed, holder, silent_since
        lease = await client.find(LEASES, labels.LEADER_LEASE, namespace, decode=Lease)
        holder = lease.spec.holder_identity if lease is not None else None
        if lease is None or not holder:
            return True
        now = trio.current_time()
        if lease.spec.renew_time != renewed:
            renewed, silent_since = lease.spec.renew_time, now
        if now - silent_since > (lease.spec.lease_duration_seconds or 15):
            return True
        progress(f"waiting for the daemon {holder} to stop")
        return False

    await poll_until(
        stopped,
        longest_pause=0.5,
        within=STOPPED_WITHIN,
        failing=lambda: ConfigError(f"the daemon {holder} still runs: stop it first"),
    )


async def _clear(client: Client, kind: Kind) -> None:
    """Delete all objects of a kind; finalizers go first, since nobody is left to take them off."""
    for one in await _list(client, kind):
        metadata = one["metadata"]
        namespace = metadata.get("namespace")
        try:
            if metadata.get("finalizers"):
                patch = {"metadata": {"finalizers": None}}
                await client.patch(kind, metadata["name"], patch, namespace)
        except NotFound:
            continue
        await client.delete(kind, metadata["name"], namespace, uid=metadata["uid"])


async def _remove_nodes(client: Client) -> None:
    for node in await _find(client, NODES, f"{labels.TYPE}={labels.VIRTUAL_NODE_TYPE}"):
        await client.delete(NODES, node.metadata.name, uid=node.metadata.uid)
        await client.delete(LEASES, node.metadata.name, rights.NODE_LEASES)


async def _unlabel_namespaces(client: Client) -> None:
    for one in await _find(client, NAMESPACES, labels.SCHEDULING_ENABLED):
        patch = {"metadata": {"labels": dict.fromkeys(webhook.CHOSEN)}}
        await client.patch(NAMESPACES, one.metadata.name, patch)


async def _remove_namespaces(client: Client, namespace: str, progress: Progress) -> None:
    """Tenant namespaces, what remains of mapped ones, and liqod's own; wait until they are gone.

    That of the real claims stays while there are some: they hold data.
    """
    for kind in (ROLE_BINDINGS, ROLES):
        await _delete_all(client, kind, SELECTOR, rights.NODE_LEASES)
    places = (namespace, ids.nodes_namespace(namespace))
    going: dict[str, str] = {}
    for one in await _find(client, NAMESPACES, ""):
        metadata = one.metadata
        tenant = metadata.labels.get(labels.TENANT_NAMESPACE) == labels.TRUE
        mapped = labels.MANAGED_BY_NAMESPACE_MAP in metadata.annotations
        own = metadata.name in places and labels.MANAGED_BY_LIQOD in metadata.labels
        if metadata.name == labels.STORAGE_NAMESPACE and labels.MANAGED_BY_LIQOD in metadata.labels:
            own = not await client.list(CLAIMS, Selection(metadata.name), decode=Partial)
        if tenant or mapped or own:
            going[metadata.name] = metadata.uid
    for name, uid in going.items():
        await _free_secrets(client, name)
        await client.delete(NAMESPACES, name, uid=uid)
    if namespace not in going:
        await _empty(client, namespace)
    waiting = dict(going)

    async def gone() -> bool:
        for name in list(waiting):
            progress(f"waiting for the namespace {name} to go")
            if await client.find(NAMESPACES, name, decode=Partial) is not None:
                return False
            del waiting[name]
        return True

    def stuck() -> ConfigError:
        name = next(iter(waiting))
        return ConfigError(
            f"the namespace {name} does not go: `kubectl get namespace {name} -o yaml` says why; "
            "run uninstall again afterwards"
        )

    await poll_until(gone, longest_pause=POLL, within=GONE_WITHIN, failing=stuck)


async def _remove_sums(client: Client) -> None:
    """Delete roles that the cluster has summed up once more, from parts that went after them.

    Its controller applies them, by which a role that has just gone is made anew, without labels.
    """
    for name in rights.SUMS:
        found = await client.find(CLUSTER_ROLES, name, decode=Partial)
        if found is not None and not found.metadata.labels:
            await client.delete(CLUSTER_ROLES, name, uid=found.metadata.uid)


async def _free_secrets(client: Client, namespace: str) -> None:
    """Take Liqo's finalizer off kubeconfig Secrets that a Liqo installation has left."""
    for secret in await _find(client, SECRETS, labels.IDENTITY_TYPE, namespace):
        if secret.metadata.finalizers:
            patch = {"metadata": {"finalizers": None}}
            await client.patch(SECRETS, secret.metadata.name, patch, namespace)


async def _empty(client: Client, namespace: str) -> None:
    """Remove what is ours from a namespace that others made, and so is not ours to delete."""
    for selector in OURS:
        for kind in _NAMESPACED:
            await _delete_all(client, kind, selector, namespace)
    for lease in (labels.LEADER_LEASE, labels.GATEWAY_LEASE):
        await client.delete(LEASES, lease, namespace)
    for secret in (labels.KEYS_SECRET, labels.GATEWAY_SECRET):
        await client.delete(SECRETS, secret, namespace)


async def _purge(client: Client) -> None:
    for definition in await _find(client, CUSTOM_RESOURCES, OF_LIQOD):
        await client.delete(CUSTOM_RESOURCES, definition.metadata.name, uid=definition.metadata.uid)
    left: list[Partial] = []

    async def gone() -> bool:
        nonlocal left
        left = await _find(client, CUSTOM_RESOURCES, OF_LIQOD)
        return not left

    await poll_until(
        gone,
        longest_pause=POLL,
        within=GONE_WITHIN,
        failing=lambda: ConfigError(f"the definition {left[0].metadata.name} does not go"),
    )


async def _delete_all(
    client: Client, kind: Kind, selector: str, namespace: str | None = None
) -> None:
    for one in await _find(client, kind, selector, namespace):
        metadata = one.metadata
        await client.delete(kind, metadata.name, metadata.namespace or None, uid=metadata.uid)


async def _find(
    client: Client, kind: Kind, selector: str, namespace: str | None = None
) -> list[Partial]:
    """Metadata of what is selected; nothing where there is no such kind."""
    try:
        return await client.list(kind, Selection(namespace, labels=selector), decode=Partial)
    except NotFound:
        return []


async def _list(client: Client, kind: Kind) -> list[dict[str, Any]]:
    """All objects of a kind; none where it is not installed."""
    try:
        return await client.list(kind)
    except NotFound:
        return []
