"""Certificates that end: a daemon that was told how to peer does it again, and no other does."""

import time
from base64 import b64encode
from typing import Any, NoReturn

import trio

from liqod.apimachinery.kinds import NAMESPACES
from liqod.discovery import configuredpeering
from liqod.discovery.discoverymanager import DiscoveryManager
from liqod.identity import certificates
from liqod.plugins.host import PluginHost
from liqod.plugins.loader import Plugins
from liqod.plugins.providers import DiscoveryProvider, Sighting
from liqod.resources import IDENTITIES
from simulator import EmbeddedCluster
from tests.simulated.borrower import Json, borrower, eventually, peer_of
from tests.simulated.prepared import defined

AT_ROME = "liqo-tenant-milan"


def identity(certificate: bytes) -> Json:
    given = {"apiServer": "https://milan", "signedCRT": b64encode(certificate).decode()}
    spec = {"clusterID": "milan", "type": "ControlPlane", "authParams": given}
    return {"metadata": {"name": "controlplane-milan"}, "spec": spec}


class SeesMilan:
    """A plugin that sees one cluster."""

    async def run(self, sighted: Any, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> NoReturn:
        sighted(Sighting(cluster_id="milan", plugin="sees-milan", kubeconfig="/nowhere"))
        task_status.started()
        await trio.sleep_forever()
        raise AssertionError


SEES_MILAN = DiscoveryProvider(name="sees-milan", build=lambda settings, services: SeesMilan())


async def test_a_peering_from_the_configuration_is_made_again_when_it_has_expired(monkeypatch):
    asked: list[str] = []

    async def introduce(context, peer, path):
        asked.append(peer)

    monkeypatch.setattr(configuredpeering, "peer_with", introduce)
    state = await defined("rome")
    async with (
        EmbeddedCluster("rome", state=state) as cluster,
        borrower(cluster, "[[peers]]\nid = 'milan'\n") as context,
    ):
        await peer_of(context, "milan")
        authority = certificates.make_ca("milan")
        good = certificates.make_client(authority, "rome").certificate
        async with trio.open_nursery() as nursery:
            host = PluginHost(Plugins(discovery=(SEES_MILAN,)))
            await nursery.start(DiscoveryManager(context, host, expiry_check=0.05).run)
            await context.client.create(IDENTITIES, identity(good), AT_ROME)
            await trio.sleep(0.5)
            assert asked == ["milan"]
            old = certificates.make_client(authority, "rome", now=time.time() - 900, life=600)
            await context.client.patch(
                IDENTITIES, "controlplane-milan", identity(old.certificate), AT_ROME
            )

            async def again():
                return len(asked) > 1

            await eventually(again, seconds=10)
            # A peer that was left stays left.
            await context.client.delete(IDENTITIES, "controlplane-milan", AT_ROME)
            await context.client.delete(NAMESPACES, AT_ROME)
            await trio.sleep(0.3)
            before = len(asked)
            await trio.sleep(0.3)
            assert len(asked) == before
            nursery.cancel_scope.cancel()
