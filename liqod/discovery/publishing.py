"""Writes for a discovery plugin: an object of this cluster with this cluster's addresses."""

from collections.abc import Mapping
from typing import Any

import msgspec

from liqod.apimachinery.kinds import Kind
from liqod.kube.client import Client
from liqod.kube.ensure import ensure


async def publish(client: Client, kind: Kind, manifest: Mapping[str, Any]) -> None:
    """Write an object of this cluster as in a manifest, status included.

    Raises:
        Conflict: the object has another owner.
    """
    name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
    found = await client.find(kind, name, namespace)
    wanted = {key: value for key, value in manifest.items() if key != "status"}
    live = None if found is None else msgspec.json.encode(found)
    await ensure(client, kind, wanted, live=live)
    status = manifest.get("status")
    told = {} if found is None else found.get("status") or {}
    if status is not None and any(told.get(key) != value for key, value in status.items()):
        patch = {"status": status}
        await client.patch(kind, name, patch, namespace, subresource="status")
