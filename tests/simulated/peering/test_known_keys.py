"""The keys by which other clusters are known, as peers' endpoints are judged by them."""

import pytest

from liqod.apimachinery.kinds import NAMESPACES
from liqod.cluster.tenancy import tenant_namespace
from liqod.peers.knownkeys import KnownKeys
from liqod.resources import OUTGOING_PEERINGS
from tests.simulated.borrower import eventually
from tests.simulated.lender import Lender, installed_lender

OLD, NEXT, OTHER = ("a" * 64, "b" * 64, "c" * 64)


async def peered(milan: Lender, cluster: str, **annotations: str) -> None:
    """A tenant namespace with what is noted on it."""
    made = tenant_namespace(cluster)
    made["metadata"]["annotations"] = {f"liqod.io/{k}": v for k, v in annotations.items()}
    await milan.admin.create(NAMESPACES, made)


async def asked(milan: Lender, name: str, cluster: str, key: str, phase: str) -> None:
    """A request to a provider whose other side has shown a key."""
    wanted = {"metadata": {"name": name}, "spec": {"address": "turin.example:6443"}}
    await milan.admin.create(OUTGOING_PEERINGS, wanted, "liqo")
    status = {"status": {"clusterID": cluster, "key": key, "phase": phase}}
    await milan.admin.patch(OUTGOING_PEERINGS, name, status, "liqo", subresource="status")


@pytest.mark.parametrize("later", [False, True], ids=["it-starts-after", "it-runs"])
async def test_a_cluster_is_known_by_the_keys_that_it_has_proved_in_either_role(later):
    async with installed_lender() as (milan, nursery):
        near = milan.peer.neighbours
        keys = KnownKeys(milan.context, near)
        assert near.keys("turin") is None
        if later:
            await nursery.start(keys.run)
            assert near.keys("turin") == frozenset()
        await peered(milan, "turin", **{"provider-keys": f"{OLD}>{NEXT}"})
        await asked(milan, "one", "turin", OLD, "Done")
        await asked(milan, "two", "turin", OTHER, "Denied")
        await peered(milan, "genoa", **{"accepted-key": NEXT, "former-key": f"{OLD} later"})
        if not later:
            await nursery.start(keys.run)
        both = frozenset({OLD, NEXT})
        await eventually(lambda: near.keys("turin") == near.keys("genoa") == both)
        await milan.admin.delete(NAMESPACES, "liqo-tenant-genoa")
        await eventually(lambda: near.keys("genoa") == frozenset())
        assert near.keys("turin") == both
