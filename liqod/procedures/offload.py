"""Offloads a namespace to peers, and brings it back, by its NamespaceOffloading.

This is the part of the command line, and of a viewer; the daemon does the rest by itself.
"""

from collections.abc import Mapping
from typing import Any

from liqod.apimachinery import labels
from liqod.consumer.namespaces.offloadplan import draining
from liqod.errors import ConfigError
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model.objects.conditions import holds
from liqod.model.peering.foreigncluster import API_SERVER, ERROR
from liqod.model.text import printable
from liqod.resources import (
    FOREIGN_CLUSTERS,
    NAMESPACE_MAPS,
    NAMESPACE_OFFLOADINGS,
    ForeignCluster,
    NamespaceMap,
    NamespaceOffloading,
)
from liqod.runtime.polling import poll_until
from liqod.runtime.progress import Progress, Step

NAME = labels.NAMESPACE_OFFLOADING_NAME
DEFAULTS: Mapping[str, Any] = {
    "podOffloadingStrategy": "LocalAndRemote",
    "namespaceMappingStrategy": "DefaultName",
    "clusterSelector": {"nodeSelectorTerms": []},
}
"""The spec of a NamespaceOffloading without other settings, requested now or earlier."""
UNDER_WAY = ("", "InProgress", "Terminating")
"""The phases that pass by themselves; any other is a result, also an unknown one."""
POLL = 0.2
"""Seconds between two checks at most."""
FIXED = ("namespaceMappingStrategy", "remoteNamespaceName")
"""Fields that cannot be changed: the remote namespaces have their names."""


def manifest(
    namespace: str, spec: dict[str, Any], annotations: Mapping[str, str] = {}
) -> dict[str, Any]:
    """The NamespaceOffloading of the request, as one would apply it."""
    metadata: dict[str, Any] = {"name": NAME, "namespace": namespace}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {
        "apiVersion": NAMESPACE_OFFLOADINGS.api_version,
        "kind": NAMESPACE_OFFLOADINGS.name,
        "metadata": metadata,
        "spec": spec,
    }


async def spread(
    client: Client, namespace: str, asked: Mapping[str, Any], annotations: Mapping[str, str] = {}
) -> int:
    """Create the NamespaceOffloading, or change the requested fields in it; its generation.

    Other fields stay as they are. Raises ConfigError where a field cannot be changed.
    """
    found = await client.find(NAMESPACE_OFFLOADINGS, NAME, namespace)
    if found is None:
        new = manifest(namespace, {**DEFAULTS, **asked}, annotations)
        made = await client.create(NAMESPACE_OFFLOADINGS, new, namespace)
        return made.metadata.generation
    old = found["spec"]
    if any(key in asked and old.get(key, "") != asked[key] for key in FIXED):
        raise ConfigError(
            f"{namespace} is offloaded already, as {old.get('namespaceMappingStrategy')}; "
            f"its mapping cannot be changed: `liqod unoffload namespace {namespace}` first"
        )
    patch = {"metadata": {"annotations": dict(annotations)}, "spec": dict(asked)}
    changed = await client.patch(NAMESPACE_OFFLOADINGS, NAME, patch, namespace)
    return changed.metadata.generation


async def offloaded(client: Client, namespace: str, generation: int) -> dict[str, Any]:
    """The status of a NamespaceOffloading once the daemon has carried out a generation.

    Raises:
        NotFound: it was deleted meanwhile.
    """

    async def outcome() -> dict[str, Any] | None:
        found = await client.get(NAMESPACE_OFFLOADINGS, NAME, namespace)
        status: dict[str, Any] = found.get("status", {})
        seen = int(status.get("observedGeneration", 0)) >= generation
        return status if seen and status.get("offloadingPhase", "") not in UNDER_WAY else None

    return await poll_until(outcome, longest_pause=POLL)


async def bring_back(client: Client, found: dict[str, Any], progress: Progress) -> list[str]:
    """Bring a namespace back; ends when every peer that answers has removed its remote namespace.

    Args:
        client: of this cluster.
        found: the NamespaceOffloading as it is, as JSON.
        progress: called with each awaited step.

    Returns: the peers that do not answer, which remove theirs when they do.
    """
    namespace, uid = found["metadata"]["namespace"], found["metadata"]["uid"]
    progress(f"wait for {namespace} to come back")
    await client.delete(NAMESPACE_OFFLOADINGS, NAME, namespace, uid=uid)
    await _gone(client, namespace, uid, progress)
    remote = found.get("status", {}).get("remoteNamespaceName", namespace)
    progress(f"wait for the peers to remove {remote}")
    return await _removed_there(client, namespace)


async def _gone(client: Client, namespace: str, uid: str, progress: Progress) -> None:
    """Wait until the NamespaceOffloading of that UID is deleted, and report its awaited step."""
    said: dict[str, str] = {}

    async def gone() -> bool:
        nonlocal said
        left = await client.find(NAMESPACE_OFFLOADINGS, NAME, namespace, decode=NamespaceOffloading)
        if left is None or left.metadata.uid != uid:
            return True
        waits = draining(left)
        for peer, text in waits.items():
            if said.get(peer) != text:
                progress(Step(peer, printable(text)))
        said = waits
        return False

    await poll_until(gone, longest_pause=POLL)


async def _removed_there(client: Client, namespace: str) -> list[str]:
    """Wait until every peer that answers has removed its namespace; those that do not answer."""
    silent: list[str] = []

    async def removed() -> bool:
        nonlocal silent
        maps = await client.list(
            NAMESPACE_MAPS,
            Selection(labels=f"{labels.REPLICATION}={labels.TRUE}"),
            decode=NamespaceMap,
        )
        holding = {
            item.metadata.labels.get(labels.REMOTE_CLUSTER_ID, item.name)
            for item in maps
            if namespace in item.status.current_mapping
        }
        down = {
            cluster.spec.cluster_id
            for cluster in await client.list(FOREIGN_CLUSTERS, decode=ForeignCluster)
            if holds(cluster.status.conditions, API_SERVER, ERROR)
        }
        silent = sorted(holding)
        return holding <= down

    await poll_until(removed, longest_pause=POLL)
    return silent


async def present(client: Client, namespace: str) -> dict[str, Any]:
    """The offloading of a namespace, or the default one where it is not offloaded."""
    found = await client.find(NAMESPACE_OFFLOADINGS, NAME, namespace)
    return {**DEFAULTS, **(found["spec"] if found is not None else {})}


def remote_namespaces(found: dict[str, Any]) -> str:
    """The remote namespaces that go when a NamespaceOffloading, given as JSON, is deleted."""
    status = found.get("status", {})
    remote = status.get("remoteNamespaceName", found["metadata"]["namespace"])
    where = [
        cluster
        for cluster, conditions in status.get("remoteNamespacesConditions", {}).items()
        if any(c["type"] == "OffloadingRequired" and c["status"] == "True" for c in conditions)
    ]
    return ", ".join(f"{remote} on {cluster}" for cluster in sorted(where)) or "nothing"
