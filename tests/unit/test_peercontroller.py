"""One supervised task for each peer, and what is known of those that failed."""

import dataclasses
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import msgspec
import trio

from liqod import config
from liqod.cluster.context import ApiEndpoint, ClusterContext
from liqod.cluster.tenancy import tenant_namespace
from liqod.errors import Unreachable
from liqod.kube.cache.store import StoreChange
from liqod.peers.peercontroller import PeerController
from liqod.reflection.statusarbitration import StatusArbiter
from liqod.telemetry.events import PeerGone
from liqod.telemetry.hub import Hub


class Namespaces:
    """The informers of a cluster that has one peer's tenant namespace."""

    holdings = None

    @asynccontextmanager
    async def share(self, kind, *_, **__):
        yield self

    async def synced(self):
        await trio.lowlevel.checkpoint()

    def subscribe(self, handler, *, namespace=None):
        found = tenant_namespace("milan")
        body = msgspec.json.encode(found)
        self.gone = partial(handler, StoreChange(("", found["metadata"]["name"]), body, None))
        handler(StoreChange(("", found["metadata"]["name"]), None, body))
        return lambda: None


async def test_a_peer_that_was_started_again_fails_no_longer(autojump_clock):
    tries = 0

    async def run_peer(context, peer, namespace):
        nonlocal tries
        tries += 1
        if tries < 3:
            raise Unreachable("gone")
        await trio.sleep_forever()

    nobody: Any = None
    informers: Any = Namespaces()
    context = ClusterContext(
        "rome", nobody, informers, config.parse(""), Hub(), ApiEndpoint("", b"")
    )
    peers = PeerController(context, run_peer, StatusArbiter().end)
    async with trio.open_nursery() as nursery:
        await nursery.start(peers.run)
        await trio.sleep(0.1)
        assert peers.failures["milan"].reason == "gone"
        await trio.sleep(10)
        assert (len(peers), peers.failures) == (1, {})
        nursery.cancel_scope.cancel()


async def test_a_successor_waits_until_its_predecessor_has_ended(autojump_clock):
    told: list[str] = []

    async def run_peer(context, peer, namespace):
        told.append("begins")
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(5)
            told.append("ended")

    hub, nobody, there = Hub(), cast("Any", None), cast("Any", Namespaces())
    context = ClusterContext("rome", nobody, there, config.parse(""), hub, ApiEndpoint("", b""))
    other = dataclasses.replace(
        context,
        config=config.parse(
            '[[peers]]\nid = "milan"\npod_network = "routed"\npod_cidrs = ["10.0.0.0/8"]\n'
        ),
    )
    peers = PeerController(context, run_peer, StatusArbiter().end)
    async with trio.open_nursery() as nursery:
        await nursery.start(peers.run)
        await trio.sleep(1)
        for each in (other, context, other):
            assert peers.reload(each) == ["milan"]
            await trio.sleep(1)
        await trio.sleep(20)
        assert told == ["begins", "ended", "begins"]
        nursery.cancel_scope.cancel()


async def test_a_peer_that_has_gone_fails_no_more(autojump_clock, caplog):
    caplog.set_level("INFO", "liqod.peers.peercontroller")

    async def run_peer(context, peer, namespace):
        try:
            await trio.sleep_forever()
        finally:
            raise Unreachable("closed under its hands")

    hub, nobody, there = Hub(), cast("Any", None), cast("Any", Namespaces())
    context = ClusterContext("rome", nobody, there, config.parse(""), hub, ApiEndpoint("", b""))
    peers = PeerController(context, run_peer, StatusArbiter().end)
    async with trio.open_nursery() as nursery:
        await nursery.start(peers.run)
        await trio.sleep(0.1)
        there.gone()
        await trio.sleep(10)
        assert (len(peers), peers.failures) == (0, {})
        assert isinstance(hub.history[-1].payload, PeerGone)
        said = [(each.getMessage(), vars(each).get("cluster")) for each in caplog.records]
        assert said == [("works with a peer", "milan"), ("no peer any more", "milan")]
        nursery.cancel_scope.cancel()
