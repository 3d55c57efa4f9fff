"""An informer at work beside a small server, for tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from liqod.apimachinery.kinds import PODS
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.store import StoreChange
from liqod.kube.client import Client
from tests.unit.kube.cluster import Cluster
from tests.unit.kube.peers import Peer, peer


class Followed:
    """An informer at work, what its subscriber was told, and the server."""

    def __init__(
        self, cluster: Cluster, server: Peer, client: Client, informer: SharedInformer
    ) -> None:
        self.cluster = cluster
        self.server = server
        self.client = client
        self.informer = informer
        self.changes: list[StoreChange] = []
        informer.subscribe(self.changes.append)

    def names(self) -> set[str]:
        return {name for _, name in self.informer.store}

    def told(self) -> list[tuple[str, str]]:
        """The changes since the last call: ``+`` new, ``~`` changed, ``-`` gone."""
        found = [
            (change.key[1], "+" if change.old is None else "-" if change.new is None else "~")
            for change in self.changes
        ]
        self.changes.clear()
        return found

    def asked(self) -> list[tuple[str, str]]:
        """Verb and version of the requests since last asked."""
        found, self.cluster.asked[:] = list(self.cluster.asked), []
        return found


@asynccontextmanager
async def followed(cluster: Cluster, **more: Any) -> AsyncIterator[Followed]:
    async with peer(cluster) as (server, client), trio.open_nursery() as nursery:
        informer = SharedInformer(client, PODS, **more)
        found = Followed(cluster, server, client, informer)
        nursery.start_soon(informer.run)
        yield found
        nursery.cancel_scope.cancel()


async def settle(seconds: float = 5.0) -> None:
    await trio.sleep(seconds)


def deep(levels: int = 5000) -> bytes:
    """An object that an API server takes and Python's decoders do not."""
    meta = b'{"name":"deep","namespace":"a","resourceVersion":"50","labels":{"name":"x,]}"}}'
    return b'{"metadata":%b,"spec":%b1%b}' % (meta, b'{"x":[' * levels, b"]}" * levels)
