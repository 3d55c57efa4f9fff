"""``liqod install``: put everything in, or bring what is there up to date.

Every step can be repeated. Custom resource definitions gain fields and versions and never lose
any; what an older installation made and this one no longer has is taken away. Where Liqo's own
controllers run nothing is touched: both would reconcile the same objects.
"""

import contextlib
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCES,
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    SECRETS,
    STORAGE_CLASSES,
    Kind,
)
from liqod.apimachinery.meta import Partial
from liqod.cluster.ownid import original_id
from liqod.errors import ConfigError, NotFound, TransientError
from liqod.install import (
    clusterproperties,
    clustersetdns,
    dnsserver,
    gateway,
    refusals,
    rights,
    workload,
)
from liqod.install.manifests import (
    KINDS,
    MANAGED,
    PRUNED,
    SELECTOR,
    Manifest,
    Options,
    manifests,
)
from liqod.kube.client import Client
from liqod.kube.definitions import name_of
from liqod.kube.ensure import ensure
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.model.objects.conditions import is_status
from liqod.model.objects.patches import contained
from liqod.resources import CRD_REVISION, DEFINITIONS, about, exchanges, multicluster, networking
from liqod.resources.base import Definition
from liqod.resources.crdmanifests import crd_manifests, merge_crd
from liqod.runtime.gather import gather
from liqod.runtime.polling import poll_until
from liqod.runtime.progress import Progress

UNNAMED: Final = "unnamed"
"""Stands for the id of a cluster in manifests of which only the kinds count."""
POLL: Final = 0.1
ENDED_WITHIN: Final = 60.0
"""Seconds that pods in a former namespace may take to end."""
SERVED_WITHIN: Final = 30.0
"""Seconds that an API server may take to serve a new kind."""
PHASES: Final = {
    "Namespace": "namespace",
    "ConfigMap": "cluster's id",
    "CustomResourceDefinition": "custom resources",
    "RuntimeClass": "runtime class",
    "StorageClass": "storage class",
    "ServiceAccount": "service account and its rights",
    "ClusterRole": "service account and its rights",
    "ClusterRoleBinding": "service account and its rights",
    "Role": "service account and its rights",
    "RoleBinding": "service account and its rights",
    "ValidatingAdmissionPolicy": "admission policies",
    "ValidatingAdmissionPolicyBinding": "admission policies",
    "Secret": "configuration",
    "Deployment": "daemon",
    "DaemonSet": "daemon",
    "PodDisruptionBudget": "daemon",
    "Service": "daemon",
    "ClusterProperty": "properties of the cluster",
}
"""The names of steps of an installation, by the kind that is applied."""


async def install(client: Client, options: Options, progress: Progress) -> str:
    """Install or upgrade; returns the cluster's id.

    Raises:
        InstallRefused: the cluster cannot take it; nothing was changed.
        ConfigError: the cluster id is missing, wrong or another one; or CoreDNS does not come up.
    """
    progress("looking at what is installed")
    asked = msgspec.structs.replace(options, cluster_id=options.cluster_id or UNNAMED)
    await refusals.check(client, options, manifests(asked, []))
    chosen = await choose_cluster_id(client, options)
    known = msgspec.structs.replace(
        options,
        cluster_id=chosen,
        server=options.server or client.server,
        cluster_profiles=options.cluster_profiles or await _has_profiles(client),
    )
    if await client.find(STORAGE_CLASSES, labels.STORAGE_CLASS, decode=Partial) is not None:
        known = msgspec.structs.replace(known, storage=True)  # there may be claims of it
    exchanged = name_of(exchanges.SERVICE_EXCHANGES)
    if await client.find(CUSTOM_RESOURCES, exchanged, decode=Partial) is not None:
        known = msgspec.structs.replace(known, services=True)  # peers may be told by it
    apart = ids.nodes_namespace(options.namespace)
    if await client.find(DAEMON_SETS, gateway.NODES, apart, decode=Partial) is not None:
        known = msgspec.structs.replace(known, nodes_in_pods=not options.in_cluster)
    kept: list[tuple[Kind, str, str]] = []
    if options.services_dns:
        coredns, _ = await clustersetdns.look(client)
        known = msgspec.structs.replace(known, services=True, dns_account=coredns.account)
    elif options.services_dns is False:
        await clustersetdns.take_back(client, progress)  # before its rights go
    elif await clustersetdns.is_given(client):
        kept = [(kind, "", rights.COREDNS_ROLE) for kind in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)]
    known = await _with_dns_server(client, known)
    wanted = manifests(known, crd_manifests())
    if await client.find(DEPLOYMENTS, workload.NAME, options.namespace, decode=Partial) is not None:
        # An upgrade from outside leaves the daemon where it runs: one Deployment is the daemon's.
        wanted = [one for one in wanted if one["metadata"]["name"] != workload.STAND_IN]
        if not options.in_cluster:
            kept += [
                (DEPLOYMENTS, options.namespace, workload.NAME),
                *((DAEMON_SETS, each, gateway.NODES) for each in (options.namespace, apart)),
            ]
            # Its labels are those of the pods that run there.
            wanted = [one for one in wanted if one["kind"] != NAMESPACES.name]
    groups = (networking.GROUP, about.GROUP)
    later = [one for one in wanted if one["apiVersion"].startswith(groups)]
    for manifest in wanted:
        if manifest not in later:
            progress(f"apply the {PHASES[manifest['kind']]}")
            if manifest["kind"] == DAEMON_SETS.name:
                await _end_former_nodes(client, options.namespace, progress)
            await _apply(client, manifest)
    progress("waiting for the API server to serve the custom resources")
    asked_for = [exchanges.DEFINITION] if known.services else []
    asked_for += [about.DEFINITION] if known.clusterset else []
    await _served(client, (*DEFINITIONS, *asked_for))
    for manifest in later:
        await _apply(client, manifest)
    if options.services_dns:
        await clustersetdns.give(client, progress)
    if options.dns_server:
        await dnsserver.wait(client, options.namespace, progress)
    elif options.dns_server is False:
        progress("taking away the DNS server of the names of the set")
        await dnsserver.take_away(client, options.namespace)
    progress("taking away what an older installation left")
    await _prune(client, wanted, kept, options.namespace, apart)
    if options.in_cluster:
        await _drop_old_configuration(client, options.namespace)
        if not known.nodes_namespace:
            await _delete_ours(client, NAMESPACES, apart)
    return chosen


async def _with_dns_server(client: Client, options: Options) -> Options:
    """The same with the image of the DNS server of the names of the set, where there is one.

    An upgrade keeps that.
    """
    wanted = options.dns_server
    if wanted is None:
        wanted = await dnsserver.is_there(client, options.namespace)
    if not wanted:
        return options
    image = options.dns_image or await dnsserver.image_for(client, options.namespace)
    dnsserver.check_image(image)
    return msgspec.structs.replace(options, dns_server=True, services=True, dns_image=image)


async def _has_profiles(client: Client) -> bool:
    """True if an earlier installation gave rights for ClusterProfiles: an upgrade keeps them."""
    name = rights.CLUSTER_PROFILES
    found = await client.find(CLUSTER_ROLES, name, decode=Partial)
    return found is not None and MANAGED.items() <= found.metadata.labels.items()


async def choose_cluster_id(client: Client, options: Options) -> str:
    """The id that this cluster has, or the one that is chosen now.

    The id that its peers know counts before that of the ConfigMap, which somebody may have edited.

    Raises:
        ConfigError: it has another one, or neither is given.
    """
    current = await original_id(client, options.namespace)
    if not current:
        found = await client.find(CONFIG_MAPS, labels.CLUSTER_ID_CONFIG_MAP, options.namespace)
        current = str((found or {}).get("data", {}).get(labels.CLUSTER_ID_FIELD, ""))
    if current and options.cluster_id not in ("", current):
        raise ConfigError(
            f"this cluster's id is {current} and cannot become {options.cluster_id}: peers know it "
            "by that name; to start anew, uninstall first"
        )
    chosen = current or options.cluster_id
    if not chosen:
        raise ConfigError("this cluster has no id yet: choose one with --cluster-id")
    return chosen


def is_older(revision: str) -> bool:
    """True if a custom resource of that revision is older than this version needs."""
    return not revision.isdigit() or int(revision) < CRD_REVISION


async def check_revision(client: Client) -> None:
    """Make sure that the installed custom resources are those of this version, or newer.

    The client remembers which ones these are: see :mod:`liqod.kube.definitions`.

    Raises:
        ConfigError: they are missing or older; the message says what to do.
    """
    listed = await client.list(CUSTOM_RESOURCES, decode=Partial)
    found = {one.metadata.name: one.metadata for one in listed}
    kinds = {name_of(each.resource.KIND): each.resource.KIND for each in DEFINITIONS}
    for name in kinds.keys() & found.keys():
        client.definitions.setdefault(kinds[name], found[name].uid)
    for name in kinds:
        if name not in found:
            raise ConfigError(f"the custom resource {name} is missing: run `liqod install`")
        revision = found[name].annotations.get(labels.CRD_REVISION, "0")
        if is_older(revision):
            raise ConfigError(
                f"the custom resource {name} is of revision {revision}, this liqod needs "
                f"{CRD_REVISION}: run `liqod install` again"
            )


async def _apply(client: Client, manifest: Manifest) -> None:
    kind = KINDS[manifest["kind"]]
    metadata = manifest["metadata"]
    namespace = metadata.get("namespace")
    if kind is CUSTOM_RESOURCES:
        await _apply_crd(client, manifest)
        return
    live = await client.find(kind, metadata["name"], namespace)
    if _is_operators(manifest):
        if live is not None:
            return
        manifest = await _carried_over(client, manifest)
    if live is not None and kind is about.CLUSTER_PROPERTIES:
        said = clusterproperties.conflict(manifest, live)
        if said:
            raise ConfigError(f"{said}: it stays")
        if not clusterproperties.is_ours(live):
            return
    if live is not None and live["metadata"].get("deletionTimestamp"):
        raise ConfigError(
            f"{kind.name} {metadata['name']} is being deleted: try again when it has gone"
        )
    await ensure(
        client,
        kind,
        manifest,
        live=None if live is None else msgspec.json.encode(live),
        namespace=namespace,
        recreate=kind not in (NAMESPACES, DEPLOYMENTS, DAEMON_SETS),
        adopt=True,
    )


async def _apply_crd(client: Client, manifest: Manifest) -> None:
    """Create a definition, or add to the one that is there."""
    name = manifest["metadata"]["name"]
    live = await client.find(CUSTOM_RESOURCES, name)
    if live is None:
        await client.create(CUSTOM_RESOURCES, manifest)
        return
    marks = live["metadata"].get("labels") or {}
    others = (multicluster.GROUP, about.GROUP)
    if manifest["spec"]["group"] in others and not MANAGED.items() <= marks.items():
        return  # another program has installed the API
    merged = merge_crd(live, manifest)
    metadata = {key: merged["metadata"][key] for key in ("labels", "annotations")}
    if merged["spec"] != live["spec"] or not contained(metadata, live["metadata"]):
        patch = {"metadata": metadata, "spec": merged["spec"]}
        await client.patch(CUSTOM_RESOURCES, name, patch)


def _is_operators(manifest: Manifest) -> bool:
    """True if the object is the operator's once it exists: a configuration."""
    found = (manifest["kind"], manifest["metadata"]["name"])
    return found in ((SECRETS.name, workload.NAME), (CONFIG_MAPS.name, gateway.NODES))


async def _carried_over(client: Client, manifest: Manifest) -> Manifest:
    """A configuration with the content of the ConfigMap that an older version had instead of it."""
    metadata = manifest["metadata"]
    secret = manifest["kind"] == SECRETS.name
    place = metadata["namespace"].removesuffix("" if secret else ids.NODES_SUFFIX)
    old = await client.find(CONFIG_MAPS, metadata["name"], place)
    if old is None or workload.CONFIG_FILE not in old.get("data", {}):
        return manifest
    return {**manifest, "stringData" if secret else "data": old["data"]}


async def _drop_old_configuration(client: Client, namespace: str) -> None:
    """Take away the ConfigMaps that were configurations before, once others have their content.

    A pod that is being replaced has what it mounted.
    """
    for name in (workload.NAME, gateway.NODES):
        old = await client.find(CONFIG_MAPS, name, namespace)
        if old is not None and workload.CONFIG_FILE in old.get("data", {}):
            await client.delete(CONFIG_MAPS, name, namespace, uid=old["metadata"]["uid"])


async def _end_former_nodes(client: Client, namespace: str, progress: Progress) -> None:
    """End the pods of ``liqod node`` that an older version has in liqod's own namespace.

    Two on one node would want the same socket; the next ones find what these leave.

    Raises:
        ConfigError: they do not end.
    """
    if not await _delete_ours(client, DAEMON_SETS, gateway.NODES, namespace):
        return
    progress("waiting for the pods of liqod node in the former namespace to end")
    pods = Selection(namespace, labels=f"{labels.APP_NAME}={gateway.NODES}")

    async def ended() -> bool:
        return not await client.list(PODS, pods, decode=Partial)

    await poll_until(
        ended,
        longest_pause=0.5,
        within=ENDED_WITHIN,
        failing=lambda: ConfigError(
            f"pods of liqod node in the namespace {namespace} do not end: `kubectl -n {namespace} "
            f"get pods -l {pods.labels}` shows them; install again afterwards"
        ),
    )


async def _delete_ours(client: Client, kind: Kind, name: str, namespace: str | None = None) -> bool:
    """Delete an object if an installation has made it; true if there was one."""
    found = await client.find(kind, name, namespace, decode=Partial)
    if found is None or not MANAGED.items() <= found.metadata.labels.items():
        return False
    await client.delete(kind, name, namespace, uid=found.metadata.uid)
    return True


async def _served(client: Client, definitions: Iterable[Definition]) -> None:
    """Wait until every custom resource can be listed, so that nobody after us has to.

    An API server makes the storage of a new kind when it is first asked for, and has the asker come
    again a second later; the daemon would meet that once for each of its watches.

    Raises:
        ConfigError: one is not served in time; the message has the server's reason.
    """
    await gather(*(partial(_serve, client, each.resource.KIND) for each in definitions))


async def _serve(client: Client, kind: Kind) -> None:
    name = name_of(kind)
    conditions: list[dict[str, Any]] = []

    async def served() -> bool:
        nonlocal conditions
        live = await client.get(CUSTOM_RESOURCES, name)
        conditions = live.get("status", {}).get("conditions", [])
        if is_status(conditions, "Established"):
            with contextlib.suppress(NotFound, TransientError):
                await client.raw("GET", kind.path(), query={"limit": "1"})
                return True
        return False

    def unserved() -> ConfigError:
        reasons = "; ".join(str(one.get("message", "")) for one in conditions)
        return ConfigError(f"the API server does not serve {name} yet: {reasons}")

    await poll_until(served, longest_pause=POLL, within=SERVED_WITHIN, failing=unserved)


async def _prune(
    client: Client,
    wanted: list[Manifest],
    others: list[tuple[Kind, str, str]],
    *namespaces: str,
) -> None:
    """Take away what is ours and neither wanted nor among the others in these namespaces."""
    kept = {_identity(one["kind"], one["metadata"]) for one in wanted}
    kept |= {(kind.name, namespace, name) for kind, namespace, name in others}
    for kind, namespaced in PRUNED:
        for where in (*namespaces, rights.NODE_LEASES) if namespaced else (None,):
            for found in await _ours(client, kind, where):
                metadata = found.metadata
                identity = (kind.name, metadata.namespace, metadata.name)
                # Of a package, whose code is not loaded unless somebody says so: it stays.
                if identity not in kept and labels.PLUGIN not in metadata.labels:
                    await client.delete(
                        kind, metadata.name, metadata.namespace or None, uid=metadata.uid
                    )


async def _ours(client: Client, kind: Kind, namespace: str | None) -> list[Partial]:
    try:
        return await client.list(kind, Selection(namespace, labels=SELECTOR), decode=Partial)
    except NotFound:
        return []


def _identity(kind: str, metadata: dict[str, Any]) -> tuple[str, str, str]:
    return (kind, metadata.get("namespace", ""), metadata["name"])
