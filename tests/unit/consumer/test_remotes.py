"""The clients at a peer: what they hold while nobody asks anything."""

import base64
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import msgspec
import trio

from liqod.config import Config
from liqod.consumer import remotes
from liqod.consumer.link import PeerLink, ProviderPeer
from liqod.consumer.remotes import TIDY_EVERY, Remotes
from liqod.kube.cache.store import StoreChange

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "https://milan:6443"}}]
users: [{name: a, user: {token: t}}]
"""
SECRET = {
    "metadata": {
        "name": "kubeconfig-controlplane-milan",
        "namespace": "liqo-tenant-milan",
        "labels": {"liqo.io/identity-type": "ControlPlane", "liqo.io/remote-cluster-id": "milan"},
    },
    "data": {"kubeconfig": base64.b64encode(KUBECONFIG.encode()).decode()},
}


class Secrets:
    """The informers of a cluster that has one identity at a peer."""

    @asynccontextmanager
    async def share(self, kind, selection):
        yield self

    def subscribe(self, handler, *, namespace):
        handler(StoreChange((namespace, "kubeconfig"), None, msgspec.json.encode(SECRET)))
        return lambda: None


class Client:
    """Counts how often it was tidied."""

    def __init__(self, *_: object, **__: object) -> None:
        self.tidied = 0

    def tidy(self) -> None:
        self.tidied += 1

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def test_connections_that_nobody_uses_are_let_go(autojump_clock, monkeypatch):
    monkeypatch.setattr(remotes, "Client", Client)
    context: Any = SimpleNamespace(
        informers=Secrets(), client=SimpleNamespace(dial=None), config=Config()
    )
    room = Remotes(ProviderPeer("milan", context, "liqo-tenant-milan", link=PeerLink()))
    async with trio.open_nursery() as nursery:
        await nursery.start(room.run)
        (found,) = room.all()
        await trio.sleep(3 * TIDY_EVERY + 1)
        client: Any = found.client
        assert 3 <= client.tidied <= 4
        nursery.cancel_scope.cancel()
