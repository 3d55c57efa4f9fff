"""The watches for one mapped namespace, at a peer that does not answer."""

from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import trio
import trio.testing

from liqod.apimachinery.kinds import CONFIG_MAPS, SECRETS, Kind
from liqod.errors import Unreachable
from liqod.kube.client import Client
from liqod.kube.pages import Page
from liqod.kube.selection import EVERY
from liqod.plugins.contracts import NOTHING, Reflector, RemoteKind
from liqod.reflection.namespacereflection import PAUSES, NamespaceReflection
from liqod.reflection.remotecache import QUIET_PERIOD
from liqod.reflection.view import Dependencies
from liqod.reflection.workers import Workers


class Away(Client):
    """A client of a peer that does not answer."""

    def __init__(self) -> None:
        self.up = False
        self.asked: list[tuple[float, Kind]] = []

    async def pages(self, kind, selection=EVERY, *, limit=0):
        self.asked.append((trio.current_time(), kind))
        if not self.up:
            raise Unreachable("gone")
        nothing: list[Page] = []
        for page in nothing:
            yield page


@asynccontextmanager
async def empty(kind, selection):
    """An informer of this cluster, which has nothing."""
    yield SimpleNamespace(subscribe=lambda heard: lambda: None)


@asynccontextmanager
async def watching(*kinds):
    """A session for these kinds, which the peer has none of, and the peer."""
    reflectors = [
        Reflector(
            name=kind.plural,
            kind=kind,
            outgoing=lambda source, view: NOTHING,
            remote=(RemoteKind(kind=kind),),
        )
        for kind in kinds
    ]
    away = Away()
    here = SimpleNamespace(cluster_id="rome", informers=SimpleNamespace(share=empty))
    context: Any = SimpleNamespace(
        peer=SimpleNamespace(id="milan", context=here),
        nodes={},
        reflectors={each.name: each for each in reflectors},
        unreadable=lambda kind, reason: None,
        readable=lambda kind: None,
    )
    workers: Any = Workers(Dependencies())
    workers.update(
        (each.name, SimpleNamespace(reflector=each, own=True, serves=lambda: True, enqueue=None))
        for each in reflectors
    )
    session = NamespaceReflection(
        "shop", "shop-rome", client=away, context=context, workers=workers
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(session.run)
        yield session, away
        nursery.cancel_scope.cancel()


async def test_all_who_wait_for_a_peer_are_woken(autojump_clock):
    async with watching(CONFIG_MAPS, SECRETS) as (session, away):
        await trio.sleep(20 * PAUSES.last)
        away.asked.clear()
        session.wake()
        await trio.testing.wait_all_tasks_blocked()
        assert {kind for _, kind in away.asked} == {CONFIG_MAPS, SECRETS}


async def test_after_a_while_that_went_well_the_next_try_comes_soon(autojump_clock):
    async with watching(CONFIG_MAPS) as (_, away):
        await trio.sleep(20 * PAUSES.last)
        away.up = True
        await trio.sleep(3 * QUIET_PERIOD)
        away.up = False
        away.asked.clear()
        await trio.sleep(2 * QUIET_PERIOD)
        (first, _), (second, _) = away.asked[:2]
        assert second - first <= PAUSES.first
