"""A cable between two namespaces with delay, loss and a rate, by a process of its own.

The kernels that tests run on may have no netem, so that frames go by two TAP devices and a program,
which is this module. It ends when its standard input does.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.netns.lab import run

TUNSETIFF, TAP, PLAIN = 0x400454CA, 0x0002, 0x1000
FRAME = 65536
ARP = b"\x08\x06"


@contextmanager
def cable(
    ends: tuple[str, str],
    link: str,
    *,
    delay: float = 0.0,
    loss: float = 0.0,
    rate: float = 0.0,
    queue: float = 0.2,
) -> Iterator[None]:
    """Two namespaces have a link to each other, as long as the block.

    Args:
        ends: names of the namespaces.
        link: name of the interface in both; it is up, and has no address.
        delay: seconds each way.
        loss: the part of frames that is lost each way, but for ARP's.
        rate: bits a second each way; 0 for any.
        queue: seconds that a frame waits for its turn at most, or is lost.
    """
    from liqod.network.dataplane.kernel.namespaces import enter

    files = [enter(end, lambda: _tap(link)) for end in ends]
    said = [str(each) for each in (*files, delay, loss, rate, queue)]
    command = [sys.executable, str(Path(__file__).resolve()), *said]
    own = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    child = subprocess.Popen(command, pass_fds=files, stdin=subprocess.PIPE, env=own)
    for each in files:
        os.close(each)
    try:
        for end in ends:
            run("ip", "-n", end, "link", "set", link, "up")
        yield
    finally:
        assert child.stdin is not None
        child.stdin.close()
        child.wait()


def _tap(link: str) -> int:
    made = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(made, TUNSETIFF, struct.pack("16sH22x", link.encode(), TAP | PLAIN))
    return made


def splice(files: tuple[int, int], delay: float, loss: float, rate: float, queue: float) -> None:
    """Carry frames until the standard input ends."""
    chance = random.Random(7)
    other = {files[0]: files[1], files[1]: files[0]}
    free = dict.fromkeys(files, 0.0)
    waiting: list[tuple[float, int, int, bytes]] = []
    number = 0
    while True:
        now = time.monotonic()
        pause = max(0.0, waiting[0][0] - now) if waiting else None
        ready, _, _ = select.select([0, *files], [], [], pause)
        if 0 in ready:
            return
        now = time.monotonic()
        for file in ready:
            frame = os.read(file, FRAME)
            if chance.random() < loss and frame[12:14] != ARP:
                continue
            begins = max(now, free[file])
            if begins - now > queue:
                continue
            free[file] = begins + (len(frame) * 8 / rate if rate else 0.0)
            number += 1
            heapq.heappush(waiting, (free[file] + delay, number, other[file], frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, file, frame = heapq.heappop(waiting)
            try:
                os.write(file, frame)
            except OSError:
                continue  # it is not up, or has gone


if __name__ == "__main__":
    one, two, *how = sys.argv[1:]
    splice((int(one), int(two)), *(float(each) for each in how))
