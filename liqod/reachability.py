"""Follows the reachability of one peer's pods, and notifies others when it changes.

Pods and endpoints at the peer are Ready by it. A loss counts at once. A return counts at once, too,
unless the last loss was only a while ago: each time it must last for longer, since a path that
comes and goes would have every pod of the peer written each time.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from math import inf
from typing import NoReturn

import trio

from liqod.consumer.link import ProviderPeer
from liqod.model.peering.reach import ReachFacts, unreachable
from liqod.runtime.backoff import Backoff

SETTLE = 10.0
"""Seconds after the start during which what is not there yet is not taken for lost: what a daemon
before this one has left stays as it is until there is an answer."""
LASTS = Backoff(first=1.0, last=30.0)
"""Seconds for which it must last, of the second return on."""
WITHIN = 120.0
"""Seconds for which a loss is remembered."""
KEPT = 8


class _ChangeFlag:
    """Notes a notification since the last look."""

    def __init__(self) -> None:
        self.event = trio.Event()

    async def by(self, wait: Callable[[], Awaitable[None]]) -> NoReturn:
        while True:
            await wait()
            self.event.set()


async def follow_reachability(peer: ProviderPeer) -> NoReturn:
    """Keep ``peer.reach`` until cancelled."""
    changed = _ChangeFlag()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(changed.by, peer.link.wait_changed)
        nursery.start_soon(changed.by, peer.network.wait_changed)
        await _judge(peer, changed)
    raise AssertionError("it is followed until cancelled")


async def _judge(peer: ProviderPeer, changed: _ChangeFlag) -> NoReturn:
    network, reach = peer.network, peer.reach
    began = trio.current_time()
    stood = False
    losses: deque[float] = deque(maxlen=KEPT)
    """Those, too, that come while it still counts as lost, or each hour would have many turns."""
    through = False
    back = inf
    """Since when it is there again, while that does not count yet."""
    while True:
        changed.event = trio.Event()  # before the look: what is told from here on brings another
        now = trio.current_time()
        stood = stood or bool(network.connected)
        settled = stood or now >= began + SETTLE
        found = unreachable(_facts(peer, settled=settled))
        if found and through:
            losses.append(now)
        through = found == ""
        wait = inf if settled else began + SETTLE - now
        if found == "" and reach.now:
            back = min(back, now)
            recent = sum(now - each < WITHIN for each in losses)
            left = back + (LASTS.delay(recent - 1, _whole) if recent > 1 else 0.0) - now
            if left > 0:
                found, wait = reach.now, left
        else:
            back = inf
        reach.set(found)
        with trio.move_on_after(wait):
            await changed.event.wait()


def _whole() -> float:
    """No jitter: it is asked for again while it is waited for."""
    return 1.0


def _facts(peer: ProviderPeer, *, settled: bool) -> ReachFacts:
    link, network = peer.link, peer.network
    return ReachFacts(
        # Before it is known whether networks are joined there may be one.
        tunnel=peer.settings.pod_network == "tunnel"
        and (network.ranges is not None or not network.looked.is_set())
        and (network.connected is not None or not settled),
        connected=network.connected,
        probed=link.probed,
        answers=link.up and not link.degradations.blind,
        settled=settled,
    )
