"""State of an offloaded namespace: its entry in a peer's map, the provider's answer, its label, and
the phase of its NamespaceOffloading; and the peers that such a one selects."""

from liqod.apimachinery.kinds import NAMESPACES
from liqod.resources import NAMESPACE_MAPS, NAMESPACE_OFFLOADINGS
from tests.simulated.borrower import eventually


async def mapping(context, peer):
    found = await context.client.find(NAMESPACE_MAPS, peer, f"liqo-tenant-{peer}")
    return None if found is None else found.get("spec", {}).get("desiredMapping") or {}


async def mapped(context, peer, expected):
    async def look():
        return await mapping(context, peer) == expected

    await eventually(look)


async def answer(context, peer, namespace, remote, phase="Accepted"):
    """Writes the provider's answer as it is when it has been replicated back."""
    entry = {namespace: {"remoteNamespace": remote, "phase": phase}}
    await context.client.patch(
        NAMESPACE_MAPS,
        peer,
        {"status": {"currentMapping": entry}},
        f"liqo-tenant-{peer}",
        subresource="status",
    )


async def phase(context, namespace, expected):
    async def look():
        found = await context.client.get(NAMESPACE_OFFLOADINGS, "offloading", namespace)
        status = found.get("status", {})
        same = status.get("observedGeneration") == found["metadata"]["generation"]
        return status if same and status.get("offloadingPhase") == expected else None

    return await eventually(look)


async def label(context, namespace):
    found = await context.client.get(NAMESPACES, namespace)
    return (found["metadata"].get("labels") or {}).get("liqo.io/scheduling-enabled")


def selector(**labels):
    terms = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
        for key, value in labels.items()
    ]
    return {"clusterSelector": {"nodeSelectorTerms": terms}}
