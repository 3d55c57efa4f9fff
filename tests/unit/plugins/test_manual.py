"""The discovery plugin that sees what configuration and Secrets name."""

from contextlib import asynccontextmanager
from typing import Any

import msgspec
import trio

from liqod.kube.store import Change, Store
from liqod.plugins.discovery.manual import SELECTOR, build
from liqod.plugins.providers import Configured, NoSettings, Services, Sighting


class FakeInformer:
    def __init__(self):
        self.store = Store()
        self.handlers: list[Any] = []

    def subscribe(self, handler):
        self.handlers.append(handler)
        return lambda: self.handlers.remove(handler)

    def secret(self, name, peer):
        key = (f"liqo-tenant-{peer}", name)
        labels = {"liqo.io/remote-cluster-id": peer}
        body = msgspec.json.encode({"metadata": {"name": name, "labels": labels}})
        self._tell(self.store.put(key, body))

    def gone(self, name, peer):
        self._tell(self.store.remove((f"liqo-tenant-{peer}", name)))

    def _tell(self, change: Change | None):
        if change is None:
            return
        for handler in self.handlers:
            handler(change)


async def looking(nursery, informer: FakeInformer) -> list[Sighting]:
    """What the plugin sees, where milan is in the configuration."""

    @asynccontextmanager
    async def share(kind, **selection):
        assert selection == {"labels": SELECTOR}
        yield informer

    services = Services(
        cluster_id="rome", share=share, configured=(Configured("milan", "/etc/milan.yaml"),)
    )
    seen: list[Sighting] = []
    await nursery.start(build(NoSettings(), services).run, seen.append)
    return seen


async def test_clusters_are_seen_in_the_configuration_and_by_their_secrets(nursery):
    informer = FakeInformer()
    seen = await looking(nursery, informer)
    informer.secret("kubeconfig-controlplane-turin", "turin")
    informer.secret("kubeconfig-controlplane-turin", "turin")
    informer.gone("kubeconfig-controlplane-turin", "turin")
    found = Sighting(
        cluster_id="turin",
        plugin="manual",
        tenant_namespace="liqo-tenant-turin",
        secret="kubeconfig-controlplane-turin",
    )
    assert seen == [
        Sighting(cluster_id="milan", plugin="manual", kubeconfig="/etc/milan.yaml"),
        found,
        msgspec.structs.replace(found, gone=True),
    ]
    nursery.cancel_scope.cancel()
    await trio.lowlevel.checkpoint_if_cancelled()


async def test_a_configured_cluster_stays_one_that_can_be_peered_with(nursery):
    informer = FakeInformer()
    seen = await looking(nursery, informer)
    configured = Sighting(cluster_id="milan", plugin="manual", kubeconfig="/etc/milan.yaml")
    informer.secret("kubeconfig-controlplane-milan", "milan")
    assert seen[-1].secret
    assert seen[-1].kubeconfig == configured.kubeconfig
    informer.gone("kubeconfig-controlplane-milan", "milan")
    assert seen[-1] == configured
    nursery.cancel_scope.cancel()
    await trio.lowlevel.checkpoint_if_cancelled()
