"""Spreading a namespace over peers, and bringing it back: the NamespaceOffloading that says so.

What the command line does and what a viewer asks for; the daemon does the rest by itself.
"""

from typing import Any

from liqod.errors import ConfigError
from liqod.kube.client import Client
from liqod.model import labels
from liqod.resources import NAMESPACE_OFFLOADINGS

NAME = labels.NAMESPACE_OFFLOADING_NAME


def manifest(namespace: str, spec: dict[str, Any]) -> dict[str, Any]:
    """The NamespaceOffloading that says so, as one would apply it."""
    return {
        "apiVersion": NAMESPACE_OFFLOADINGS.api_version,
        "kind": NAMESPACE_OFFLOADINGS.name,
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": spec,
    }


async def spread(client: Client, namespace: str, spec: dict[str, Any]) -> int:
    """Create or change the NamespaceOffloading; its generation."""
    found = await client.find(NAMESPACE_OFFLOADINGS, NAME, namespace)
    if found is None:
        made = await client.create(NAMESPACE_OFFLOADINGS, manifest(namespace, spec), namespace)
        return made.metadata.generation
    old = found["spec"]
    fixed = ("namespaceMappingStrategy", "remoteNamespaceName")
    if any(old.get(key, "") != spec.get(key, "") for key in fixed):
        raise ConfigError(
            f"{namespace} is offloaded already, as {old.get('namespaceMappingStrategy')}; "
            f"its mapping cannot be changed: `liqod unoffload namespace {namespace}` first"
        )
    changed = await client.patch(NAMESPACE_OFFLOADINGS, NAME, {"spec": spec}, namespace)
    return changed.metadata.generation


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
