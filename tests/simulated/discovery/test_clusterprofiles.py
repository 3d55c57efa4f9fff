"""ClusterProfiles of an API server: waited for, read, and that of this cluster kept."""

from functools import partial
from typing import Any

import msgspec
import trio

from liqod.advertsigner import SignedAdverts
from liqod.apimachinery.kinds import CUSTOM_RESOURCES, NAMESPACES
from liqod.discovery.discoverymanager import DiscoveryManager
from liqod.identity import keys
from liqod.plugins import loader
from liqod.plugins.discovery.clusterprofile import NAME, PROFILES, ClusterProfiles, manifest
from liqod.plugins.host import PluginHost
from simulator import EmbeddedCluster
from tests.simulated.borrower import borrower, eventually
from tests.simulated.prepared import defined

OPEN: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINITION: dict[str, Any] = {
    "metadata": {"name": "clusterprofiles.multicluster.x-k8s.io"},
    "spec": {
        "group": "multicluster.x-k8s.io",
        "scope": "Namespaced",
        "names": {
            "kind": "ClusterProfile",
            "plural": "clusterprofiles",
            "singular": "clusterprofile",
            "listKind": "ClusterProfileList",
        },
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": OPEN},
            }
        ],
    },
}


def signed(cluster: str) -> SignedAdverts:
    return SignedAdverts(cluster, keys.generate(), lambda: 6446, (f"{cluster}.example:6446",))


async def test_profiles_are_waited_for_read_and_kept(caplog):
    loaded = loader.load(
        sources=loader.built_in(),
        settings={"clusterprofile": {"publish": "fleet"}},
        blocked=["manual"],
    )
    soon = partial(ClusterProfiles, check_every=0.1)
    plugins = msgspec.structs.replace(
        loaded,
        discovery=tuple(
            msgspec.structs.replace(each, build=soon) if each.name == NAME else each
            for each in loaded.discovery
        ),
    )
    state = await defined("rome")
    async with EmbeddedCluster("rome", state=state) as cluster, borrower(cluster) as context:
        rome, milan = signed("rome"), signed("milan")
        inbox = DiscoveryManager(context, PluginHost(plugins), rome)
        async with trio.open_nursery() as nursery:
            await nursery.start(inbox.run)
            await context.client.create(NAMESPACES, {"metadata": {"name": "fleet"}})
            await trio.sleep(0.3)  # nothing is defined, and it is said once
            assert len(caplog.records) <= 1, caplog.text
            await context.client.create(CUSTOM_RESOURCES, DEFINITION)

            async def kept() -> bool:
                found = await context.client.find(PROFILES, "rome", "fleet")
                return found is not None and bool(found.get("status"))

            await eventually(kept, seconds=20)
            told = milan.announcement()
            assert told is not None
            theirs = manifest("milan", "fleet", told)
            await context.client.create(PROFILES, theirs, "fleet")
            status = {"status": theirs["status"]}
            await context.client.patch(PROFILES, "milan", status, "fleet", subresource="status")

            async def seen() -> bool:
                found = inbox.seen("milan")
                return found is not None and found.key == milan.key

            await eventually(seen, seconds=20)
            found = inbox.seen("milan")
            assert found is not None
            assert found.addresses() == ("milan.example:6446",)
            assert inbox.seen("rome") is None
            await context.client.delete(PROFILES, "milan", "fleet")

            async def gone() -> bool:
                return inbox.seen("milan") is None

            await eventually(gone, seconds=20)
            nursery.cancel_scope.cancel()
