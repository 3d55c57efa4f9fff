"""Spreading a namespace over peers, and bringing it back: the NamespaceOffloading that says so.

What the command line does and what a viewer asks for; the daemon does the rest by itself.
"""

from collections.abc import Mapping
from typing import Any

from liqod.errors import ConfigError
from liqod.kube.client import Client
from liqod.model import labels
from liqod.resources import NAMESPACE_OFFLOADINGS

NAME = labels.NAMESPACE_OFFLOADING_NAME
DEFAULTS: Mapping[str, Any] = {
    "podOffloadingStrategy": "LocalAndRemote",
    "namespaceMappingStrategy": "DefaultName",
    "clusterSelector": {"nodeSelectorTerms": []},
}
"""What a namespace is offloaded by where nothing else is said, nor was before."""
FIXED = ("namespaceMappingStrategy", "remoteNamespaceName")
"""What cannot be changed: the twins have their names."""


def manifest(namespace: str, spec: dict[str, Any]) -> dict[str, Any]:
    """The NamespaceOffloading that says so, as one would apply it."""
    return {
        "apiVersion": NAMESPACE_OFFLOADINGS.api_version,
        "kind": NAMESPACE_OFFLOADINGS.name,
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": spec,
    }


async def spread(client: Client, namespace: str, asked: Mapping[str, Any]) -> int:
    """Create the NamespaceOffloading, or change in it what is asked for; its generation.

    What is not asked for stays as it is. Raises ConfigError where that cannot be changed.
    """
    found = await client.find(NAMESPACE_OFFLOADINGS, NAME, namespace)
    if found is None:
        new = manifest(namespace, {**DEFAULTS, **asked})
        made = await client.create(NAMESPACE_OFFLOADINGS, new, namespace)
        return made.metadata.generation
    old = found["spec"]
    if any(key in asked and old.get(key, "") != asked[key] for key in FIXED):
        raise ConfigError(
            f"{namespace} is offloaded already, as {old.get('namespaceMappingStrategy')}; "
            f"its mapping cannot be changed: `liqod unoffload namespace {namespace}` first"
        )
    changed = await client.patch(NAMESPACE_OFFLOADINGS, NAME, {"spec": dict(asked)}, namespace)
    return changed.metadata.generation


async def present(client: Client, namespace: str) -> dict[str, Any]:
    """How a namespace is offloaded, or would be where nothing is asked for."""
    found = await client.find(NAMESPACE_OFFLOADINGS, NAME, namespace)
    return {**DEFAULTS, **(found["spec"] if found is not None else {})}


def twins(found: dict[str, Any]) -> str:
    """What goes when a NamespaceOffloading, given as JSON, is deleted."""
    status = found.get("status", {})
    remote = status.get("remoteNamespaceName", found["metadata"]["namespace"])
    where = [
        cluster
        for cluster, conditions in status.get("remoteNamespacesConditions", {}).items()
        if any(c["type"] == "OffloadingRequired" and c["status"] == "True" for c in conditions)
    ]
    return ", ".join(f"{remote} on {cluster}" for cluster in sorted(where)) or "nothing"
