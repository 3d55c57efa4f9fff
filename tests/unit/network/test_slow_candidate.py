"""A candidate whose own machine is slow, or has its port taken, blames no gateway."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import pytest
import trio

from liqod.errors import NetworkError
from liqod.network.failover.candidatemessages import key_of
from liqod.network.failover.election import SILENCE, STEADY
from liqod.network.failover.fence import AGAIN, Fence
from liqod.network.failover.responder import Responder
from liqod.network.failover.role import Role
from liqod.network.machine.candidate import Candidate
from liqod.network.machine.remotelease import RemoteLease
from liqod.network.orders.candidacy import (
    Claim,
    GatewayState,
    LeaseRecord,
    LocalCandidate,
    ReadLease,
    WriteLease,
)

KEY = key_of(b"s" * 32, "rome")
GATEWAY, STANDBY = "127.0.0.1", "127.0.0.2"
CLAIM = Claim("a", 3, "77", ("b",))


class SlowFence:
    """A kernel that takes its time, and refuses then."""

    mark = 1

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.tries = 0

    async def hold(self, held: float | None) -> None:
        self.tries += 1
        await trio.sleep(self.seconds)
        raise NetworkError("no")


@contextmanager
def gateway() -> Iterator[int]:
    """One at work, which answers at a port."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind((GATEWAY, 0))
    answers = Responder(listening, KEY, "a")
    answers.publish(CLAIM, at_work=True, epoch=3)
    answers.start()
    try:
        yield listening.getsockname()[1]
    finally:
        answers.close()


async def here(opened: Callable[[], socket.socket]) -> socket.socket:
    return opened()


def candidate(fence: SlowFence, port: int, sent: list[ReadLease | WriteLease]) -> Candidate:
    return Candidate(
        LocalCandidate(name="b", address=STANDBY, key=KEY, port=port),
        cast("Fence", fence),
        Role(GatewayState(active=None), others=True),
        RemoteLease(sent.append),
        lambda role: None,
        lambda: None,
        inside=here,
    )


@pytest.mark.long
async def test_one_that_waits_for_its_kernel_takes_nothing():
    """It asks nothing meanwhile, so that no silence is the gateway's."""
    seconds = 4 * SILENCE
    sent: list[ReadLease | WriteLease] = []
    fence = SlowFence(seconds)
    with gateway() as port:
        standby = candidate(fence, port, sent)
        standby.on_lease(LeaseRecord(CLAIM, GATEWAY))
        with trio.move_on_after(STEADY + 2 * (AGAIN + seconds)):
            await standby.run()
    assert fence.tries > 1
    assert sent == []


async def test_a_port_that_another_program_has_is_named_with_its_setting():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((STANDBY, 0))
        port = other.getsockname()[1]
        with pytest.raises(NetworkError, match=f"{port} for candidates: .*network.candidate_port"):
            await candidate(SlowFence(0.0), port, []).run()
