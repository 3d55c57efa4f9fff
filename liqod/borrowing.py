"""The consumer's side of one peer: everything that borrows from it, in one nursery."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

import trio

from liqod.apimachinery.kinds import PODS
from liqod.consumer.foreignclusters import ForeignClusterOfPeer
from liqod.consumer.identities.identities import Identities
from liqod.consumer.identities.signing import Signing
from liqod.consumer.link import ProbeConnection, ProviderPeer, dial_server
from liqod.consumer.liqofinalizers import LiqoFinalizers
from liqod.consumer.nodes.podproxy import OffloadedPods, PodProxies, PodProxy
from liqod.consumer.nodes.versions import follow
from liqod.consumer.nodes.virtualnodes import VirtualNodes
from liqod.consumer.providercleanup import ProviderCleanup
from liqod.consumer.remotes import Remotes
from liqod.consumer.replication import Replication
from liqod.consumer.serverdialer import ServerDialer
from liqod.consumer.slices.borrowedslices import Slices
from liqod.consumer.timings import ORDINARY, ConsumerTimings
from liqod.kube.credentials.credentials import Credentials
from liqod.plugins.host import PluginHost
from liqod.reflection.engine import Engine
from liqod.reflection.overrides import OverrideProblems
from liqod.reflection.statusarbitration import StatusArbiter
from liqod.runtime.gather import either


@dataclass(frozen=True, eq=False)
class Borrowing:
    """The parts of the daemon that borrow from one peer.

    Attributes:
        remotes: the identities that it gave us.
        replication: our objects there.
        engine: what is reflected there.
    """

    remotes: Remotes
    replication: Replication
    engine: Engine


async def borrow(
    peer: ProviderPeer,
    plugins: PluginHost,
    arbiter: StatusArbiter,
    proxies: PodProxies,
    shown: Callable[[Borrowing], AbstractContextManager[None]],
    timings: ConsumerTimings = ORDINARY,
    problems: OverrideProblems | None = None,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Borrow from one peer until cancelled; idle where it lends nothing.

    Args:
        peer: the provider.
        proxies: to the pods of all peers.
        shown: shows what works, for those who look.
        timings: how long a consumer waits for what.
        problems: told what of OverridePolicies cannot be applied.
    """
    remotes = Remotes(peer)
    leaving = ProviderCleanup(peer, remotes)
    replication = Replication(peer, remotes, leaving)
    engine = Engine(peer, remotes, plugins, arbiter, problems=problems)
    borrowing = Borrowing(remotes, replication, engine)
    with shown(borrowing):
        await _borrow(peer, borrowing, leaving, proxies, timings, task_status)
    raise AssertionError("components never end by themselves")


async def _borrow(
    peer: ProviderPeer,
    borrowing: Borrowing,
    leaving: ProviderCleanup,
    proxies: PodProxies,
    timings: ConsumerTimings,
    task_status: trio.TaskStatus[None],
) -> None:
    remotes = borrowing.remotes
    async with trio.open_nursery() as nursery:
        await nursery.start(remotes.run)
        dial = partial(_dial, remotes.dial, timings.first_deadline)
        run = partial(peer.link.run, remotes, peer.report, dial=dial, way=remotes.dial)
        nursery.start_soon(run)
        nursery.start_soon(_follow, peer, remotes, timings.first_deadline)
        await nursery.start(follow, peer.link, remotes)
        await nursery.start(LiqoFinalizers(peer).run)
        await nursery.start(Signing(peer, timings).run)
        await nursery.start(Identities(peer).run)
        await nursery.start(leaving.run)
        await nursery.start(Slices(peer, timings).run)
        await nursery.start(borrowing.replication.run)
        await nursery.start(ForeignClusterOfPeer(peer, remotes, leaving).run)
        await nursery.start(VirtualNodes(peer, timings).run)
        await nursery.start(borrowing.engine.run)
        offloaded = _offloaded(borrowing.engine)
        await nursery.start(PodProxy(peer, remotes, offloaded, proxies, timings).run)
        task_status.started()


def _offloaded(engine: Engine) -> OffloadedPods:
    context = engine.context
    return OffloadedPods(
        nodes=lambda: context.nodes,
        namespaces=lambda: context.mapping.accepted,
        pods=lambda: context.wide.get(PODS),
    )


async def _dial(server: ServerDialer, deadline: float, credentials: Credentials) -> ProbeConnection:
    return await dial_server(*server.to(credentials), deadline=deadline)


async def _follow(peer: ProviderPeer, remotes: Remotes, deadline: float) -> None:
    """Have the direct path tried where a channel is in use."""
    link = peer.link

    def current() -> Credentials | None:
        remote = remotes.control() or remotes.any_slice()
        return remote.credentials if remote is not None else None

    async def changed() -> None:
        await either(link.wait_changed, remotes.changed)

    async def prove(credentials: Credentials) -> None:
        line = await dial_server(credentials, peer.context.client.dial, deadline=deadline)
        try:
            await line.probe(deadline)
        finally:
            line.close()

    await remotes.dial.fallback.follow(current, lambda: link.up, changed, prove)
