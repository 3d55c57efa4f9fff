"""A monitor of a namespace that is closed ends those that read it."""

from __future__ import annotations

import socket

import trio

from liqod.network.dataplane.kernel.kernelmonitor import Monitor, Touched


async def test_a_monitor_that_is_closed_before_it_is_read_says_so() -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    monitor = Monitor(pairs[0][0], pairs[1][0])
    monitor.close()
    heard: list[Touched] = []
    told = False
    try:
        await monitor.run(heard.append)
    except* trio.ClosedResourceError:
        told = True
    for _, other in pairs:
        other.close()
    assert told
    assert not heard
