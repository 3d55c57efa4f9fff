"""The discovery plugin that sees what configuration and Secrets name."""

from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from liqod.apimachinery.kinds import NAMESPACES, SECRETS
from liqod.kube.cache.store import IndexedStore, StoreChange
from liqod.kube.selection import EVERY
from liqod.plugins.discovery.manual import build, liqod_discovery
from liqod.plugins.providers import (
    MOST_ADDRESSES,
    Configured,
    NoSettings,
    Services,
    Sighting,
)
from liqod.plugins.validation import sighting_problem
from simulator.suites import DiscoveryContract

NAME = "kubeconfig-controlplane"


class FakeInformer:
    def __init__(self):
        self.store = IndexedStore()
        self.handlers: list[Any] = []

    def subscribe(self, handler):
        self.handlers.append(handler)
        known = list(self.store.keys())
        for key in known:
            handler(StoreChange(key, None, self.store.get(key)))
        return lambda: self.handlers.remove(handler)

    def put(self, namespace: str, name: str, labels: dict[str, str]) -> None:
        body = msgspec.json.encode({"metadata": {"name": name, "labels": labels}})
        self._tell(self.store.put((namespace, name), body))

    def remove(self, namespace: str, name: str) -> None:
        self._tell(self.store.remove((namespace, name)))

    def _tell(self, change: StoreChange | None) -> None:
        for handler in list(self.handlers):
            if change is not None:
                handler(change)


class Rome:
    """A cluster of namespaces and Secrets, and what the plugin sees there."""

    def __init__(self) -> None:
        self.informers: dict[Any, FakeInformer] = {}
        self.seen: list[Sighting] = []

    def informer(self, kind: Any, namespace: str | None = None) -> FakeInformer:
        return self.informers.setdefault((kind, namespace), FakeInformer())

    @asynccontextmanager
    async def share(self, kind, selection=EVERY):
        yield self.informer(kind, selection.namespace)

    async def tenant(self, peer: str, namespace: str = "") -> None:
        marks = {"liqo.io/tenant-namespace": "true", "liqo.io/remote-cluster-id": peer}
        self.informer(NAMESPACES).put("", namespace or f"liqo-tenant-{peer}", marks)
        await trio.testing.wait_all_tasks_blocked()

    def secret(self, peer: str, namespace: str, kind: str = "ControlPlane") -> None:
        marks = {"liqo.io/remote-cluster-id": peer, "liqo.io/identity-type": kind}
        self.informer(SECRETS, namespace).put(namespace, NAME, marks)


@pytest.fixture
async def rome(nursery):
    made = Rome()
    services = Services(
        cluster_id="rome", share=made.share, configured=(Configured("milan", "/etc/milan.yaml"),)
    )
    await nursery.start(build(NoSettings(), services).run, made.seen.append)
    yield made
    nursery.cancel_scope.cancel()


CONFIGURED = Sighting(cluster_id="milan", plugin="manual", kubeconfig="/etc/milan.yaml")
TURIN = Sighting(
    cluster_id="turin", plugin="manual", tenant_namespace="liqo-tenant-turin", secret=NAME
)
GONE = msgspec.structs.replace(TURIN, gone=True)


class TestManual(DiscoveryContract):
    """Configured clusters stay; a Secret comes and goes."""

    provider = liqod_discovery()[0]
    expected = (TURIN,)

    @pytest.fixture(autouse=True)
    def cluster(self) -> None:
        self._rome = made = Rome()
        marks = {"liqo.io/tenant-namespace": "true", "liqo.io/remote-cluster-id": "turin"}
        made.informer(NAMESPACES).put("", "liqo-tenant-turin", marks)
        made.secret("turin", "liqo-tenant-turin")
        told = (Configured("milan", "/etc/milan.yaml"),)
        type(self).services = Services(cluster_id="rome", share=made.share, configured=told)

    def lose(self) -> None:
        self._rome.informer(SECRETS, "liqo-tenant-turin").remove("liqo-tenant-turin", NAME)


async def test_clusters_are_seen_in_the_configuration_and_by_their_secrets(rome):
    await rome.tenant("turin")
    rome.secret("turin", "liqo-tenant-turin")
    rome.secret("turin", "liqo-tenant-turin")
    rome.informer(SECRETS, "liqo-tenant-turin").remove("liqo-tenant-turin", NAME)
    assert rome.seen == [CONFIGURED, TURIN, GONE]


async def test_a_configured_cluster_stays_one_that_can_be_peered_with(rome):
    await rome.tenant("milan")
    rome.secret("milan", "liqo-tenant-milan")
    assert rome.seen[-1].secret
    assert rome.seen[-1].kubeconfig == CONFIGURED.kubeconfig
    rome.informer(SECRETS, "liqo-tenant-milan").remove("liqo-tenant-milan", NAME)
    assert rome.seen[-1] == CONFIGURED


async def test_a_secret_that_names_another_cluster_or_none_any_more_is_gone(rome):
    await rome.tenant("turin")
    rome.secret("turin", "liqo-tenant-turin")
    rome.secret("milan", "liqo-tenant-turin")
    assert rome.seen == [CONFIGURED, TURIN, GONE]
    rome.secret("turin", "liqo-tenant-turin")
    rome.secret("turin", "liqo-tenant-turin", kind="ResourceSlice")
    assert rome.seen[3:] == [TURIN, GONE]


async def test_a_configured_cluster_is_seen_where_the_operator_says_that_it_is(nursery):
    made = Rome()
    places = tuple(f"milan.example:{port}" for port in range(1, 17))
    told = Configured("milan", addresses=("[10.0.0.1]:6446", *places))
    services = Services(cluster_id="rome", share=made.share, configured=(told,))
    await nursery.start(build(NoSettings(), services).run, made.seen.append)
    await made.tenant("milan")
    made.secret("milan", "liqo-tenant-milan")
    assert [each.addresses for each in made.seen] == [places[:MOST_ADDRESSES]] * 2
    assert [sighting_problem(each) for each in made.seen] == [None, None]
    nursery.cancel_scope.cancel()


async def test_only_tenant_namespaces_are_looked_into(rome):
    rome.informer(NAMESPACES).put("", "shop", {"liqo.io/remote-cluster-id": "turin"})
    await trio.testing.wait_all_tasks_blocked()
    rome.secret("turin", "shop")
    assert not rome.informer(SECRETS, "shop").handlers
    assert rome.seen == [CONFIGURED]


async def test_with_its_tenant_namespace_a_cluster_is_gone(rome):
    await rome.tenant("turin")
    rome.secret("turin", "liqo-tenant-turin")
    rome.informer(NAMESPACES).remove("", "liqo-tenant-turin")
    await trio.testing.wait_all_tasks_blocked()
    assert rome.seen == [CONFIGURED, TURIN, GONE]


async def test_a_tenant_namespace_that_becomes_anothers_is_begun_anew(rome):
    await rome.tenant("turin")
    rome.secret("turin", "liqo-tenant-turin")
    await rome.tenant("milan", "liqo-tenant-turin")
    assert rome.seen == [CONFIGURED, TURIN, GONE]
