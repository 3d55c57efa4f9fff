"""Finalizers that Liqo left on the objects of a peering do not keep it from ending."""

import pytest

from liqod.apimachinery.kinds import NAMESPACES, SECRETS, Kind
from liqod.consumer.liqofinalizers import LEFT
from liqod.resources import FOREIGN_CLUSTERS, NAMESPACE_MAPS, RENEWS, RESOURCE_SLICES
from tests.simulated.borrower import Json
from tests.simulated.members import Member, members

AT_ROME = "liqo-tenant-milan"
LEFT_ON: list[tuple[Kind, str, str | None]] = [
    (RESOURCE_SLICES, "milan", AT_ROME),
    (RENEWS, "controlplane-milan", AT_ROME),
    (NAMESPACE_MAPS, "milan", AT_ROME),
    (SECRETS, "kubeconfig-controlplane-milan", AT_ROME),
    (SECRETS, "kubeconfig-resourceslice-milan", AT_ROME),
    (FOREIGN_CLUSTERS, "milan", None),
]


async def leave_finalizers(rome: Member) -> None:
    """As a Liqo that was taken out does."""
    for kind, name, namespace in LEFT_ON:
        patch = {"metadata": {"finalizers": [LEFT[kind], "example.org/mine"]}}
        await rome.admin.patch(kind, name, patch, namespace)


def is_free(found: Json) -> bool:
    return set(LEFT.values()).isdisjoint(found["metadata"].get("finalizers", []))


@pytest.mark.long
@pytest.mark.parametrize("answers", [True, False])
async def test_unpeering_ends_though_liqo_left_its_finalizers(answers: bool):
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        # What is made a moment after a peering stands is not made by a daemon that was stopped.
        for kind, name, namespace in LEFT_ON:
            await rome.until(kind, name, namespace, lambda found: True)
        await rome.stop()
        await leave_finalizers(rome)
        if not answers:
            await milan.cluster.stop()
        await rome.start()
        for kind, name, namespace in LEFT_ON:
            # What others hold stays held by them.
            found = await rome.until(kind, name, namespace, is_free)
            assert found["metadata"]["finalizers"] == ["example.org/mine"]
            await rome.admin.patch(kind, name, {"metadata": {"finalizers": None}}, namespace)
        if answers:
            assert (await rome.unpeer(milan)).complete
            await rome.gone(NAMESPACES, AT_ROME)
            await rome.gone(FOREIGN_CLUSTERS, "milan")
