"""The properties with the ids of this cluster and of its set (KEP-2149), written on request.

The installer's user writes them, and the daemon has no right to. A property of another program is
never changed, and its definition of the kind is used.
"""

from typing import Any, Final

from liqod.apimachinery.kinds import CUSTOM_RESOURCES
from liqod.cluster.ownid import original_id
from liqod.errors import NotFound
from liqod.install.manifests import MANAGED, Manifest, Options, properties
from liqod.kube.client import Client
from liqod.kube.definitions import name_of
from liqod.resources.about import CLUSTER, CLUSTER_PROPERTIES, VERSION

DEFINITION: Final = name_of(CLUSTER_PROPERTIES)
_SHOWN: Final = 64


async def problem(client: Client, options: Options) -> str:
    """The reason why the properties cannot be written, as a sentence; empty for none."""
    defined: Any = await client.find(CUSTOM_RESOURCES, DEFINITION)
    if defined is None:
        return ""
    served = {each["name"] for each in defined["spec"]["versions"] if each.get("served")}
    if VERSION not in served:
        return f"{DEFINITION}, which another program has installed, does not serve {VERSION}"
    own = options.cluster_id or await original_id(client, options.namespace) or ""
    for wanted in properties(own, options.clusterset):
        found = await client.find(CLUSTER_PROPERTIES, wanted["metadata"]["name"])
        # Without an id yet there is no installation: that of the ConfigMap is refused or counts.
        if found is not None and (own or wanted["metadata"]["name"] != CLUSTER):
            said = conflict(wanted, found)
            if said:
                return said
    return ""


def conflict(wanted: Manifest, live: Manifest) -> str:
    """The reason why a property stays as it is, as a sentence; empty if it may be changed."""
    there = str((live.get("spec") or {}).get("value", ""))
    if is_ours(live) or there == wanted["spec"]["value"]:
        return ""
    name = wanted["metadata"]["name"]
    return f"the ClusterProperty {name} is another program's, and says {there[:_SHOWN]!r}"


def is_ours(found: Manifest) -> bool:
    """True if an installation has made an object."""
    return MANAGED.items() <= (found["metadata"].get("labels") or {}).items()


async def take_back(client: Client) -> None:
    """Delete the properties that an installation has written.

    Where others have properties of the kind, its definition is left to them.
    """
    try:
        every: list[Any] = await client.list(CLUSTER_PROPERTIES)
    except NotFound:
        return
    for found in filter(is_ours, every):
        meta = found["metadata"]
        await client.delete(CLUSTER_PROPERTIES, meta["name"], uid=meta["uid"])
    if all(map(is_ours, every)):
        return
    defined: Any = await client.find(CUSTOM_RESOURCES, DEFINITION)
    if defined is not None and is_ours(defined):
        marks = {"metadata": {"labels": dict.fromkeys(MANAGED)}}
        await client.patch(CUSTOM_RESOURCES, DEFINITION, marks)
