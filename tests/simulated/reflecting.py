"""Two embedded clusters with a reflection engine between them, and nothing else of a peering.

Rome borrows from milan: the namespace map and the virtual node are written by the test, and the
identities are milan's administrator's. Most of it ships with liqod, for those who write plugins.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from liqod.apimachinery.kinds import PODS
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.plugins import loader
from liqod.plugins.callguard import ORDINARY, CallGuardTimings
from liqod.plugins.host import PluginHost
from liqod.plugins.loader import Plugins
from simulator import EmbeddedCluster, trial
from simulator.trial import SHOP as SHOP
from simulator.trial import TENANT as TENANT
from simulator.trial import THERE as THERE
from simulator.trial import Identities as Identities
from simulator.trial import context_of as context_of
from simulator.trial import mapped_namespace as mapped_namespace
from tests.simulated.prepared import defined

Json = dict[str, Any]


class Pair(trial.Pair):
    """The two clusters, with helpers that only liqod's own tests need."""

    async def pod(self, name: str, *, node: str = "milan", **more: Any) -> Json:
        """A pod of rome, bound to a virtual node; the pod as it was made."""
        spec = {
            "containers": [{"name": "web", "image": "nginx"}],
            "tolerations": [{"key": "virtual-node.liqo.io/not-allowed", "operator": "Exists"}],
            **more.pop("spec", {}),
        }
        if node:
            spec["nodeName"] = node
        manifest = {"metadata": {"name": name, **more.pop("metadata", {})}, "spec": spec, **more}
        return await self.here.create_full(PODS, manifest, SHOP)

    async def second_slice(self, name: str) -> None:
        """One more identity at milan."""
        self.identities.slices[name] = Client(from_kubeconfig(self.milan.kubeconfig))
        self.identities.change()

    def requests(self) -> list[tuple[str, str]]:
        """Returns the engine's requests so far, on both sides: verb and kind."""
        return [
            key
            for client in (self.context.client, *self.identities.slices.values())
            for key, count in client.stats.requests.items()
            for _ in range(count)
        ]

    def since(self, before: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Returns the engine's requests since `before`, sorted."""
        new = self.requests()
        for each in before:
            new.remove(each)
        return sorted(new)


@cache
def built_in() -> Plugins:
    """The plugins that liqod brings: their reflectors keep nothing, so all tests have the same."""
    return loader.load(sources=loader.built_in())


@asynccontextmanager
async def pair(
    plugins: Plugins | None = None, text: str = "", guards: CallGuardTimings = ORDINARY
) -> AsyncIterator[Pair]:
    """Rome and milan, prepared; the engine is not started yet."""
    async with (
        EmbeddedCluster(
            "rome",
            pod_cidr="10.10.0.0/16",
            # The virtual node has no Node here, and its pods may not be evicted for that.
            node_grace=86400.0,
            state=await defined("rome"),
        ) as rome,
        EmbeddedCluster(
            "milan",
            nodes=2,
            start_delay=0.05,
            pod_cidr="10.30.0.0/16",
            state=await defined("milan"),
        ) as milan,
        context_of(rome, "rome", text) as context,
        context_of(milan, "milan") as lender,
    ):
        host = PluginHost(built_in() if plugins is None else plugins, guards)
        made = Pair(rome, milan, context, lender, plugins=host)
        try:
            await made.prepare()
            yield made
        finally:
            await made.aclose()


@asynccontextmanager
async def beside(first: Pair, name: str) -> AsyncIterator[Pair]:
    """Another peer of the same rome, prepared likewise."""
    async with (
        EmbeddedCluster(name, nodes=1, state=await defined(name)) as cluster,
        context_of(cluster, name) as lender,
    ):
        made = Pair(first.rome, cluster, first.context, lender, name, first.arbiter, first.plugins)
        try:
            await made.prepare()
            yield made
        finally:
            await made.aclose()
