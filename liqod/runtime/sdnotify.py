"""systemd's notification protocol: one datagram to ``$NOTIFY_SOCKET`` (sd_notify(3)).

Without the variable every call does nothing, so the daemon runs the same outside systemd.
"""

import os
import socket
import time
from pathlib import Path
from typing import NoReturn

import trio

CGROUPS = Path("/proc/self/cgroup")


def notify(*assignments: str) -> None:
    """Send ``KEY=VALUE`` assignments, such as ``READY=1``; a lost message is not an error."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        # A manager that does not read its socket must not hold up the event loop.
        sock.setblocking(False)
        try:
            sock.sendto("\n".join(assignments).encode(), address)
        except OSError:
            return


def unit(groups: Path = CGROUPS) -> str:
    """The unit of systemd that this process is the service of; empty where it is none.

    Args:
        groups: the file of the process's control groups.
    """
    if not os.environ.get("NOTIFY_SOCKET"):
        return ""
    try:
        lines = groups.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    names = (line.rpartition("/")[2] for line in lines)
    return next((name for name in names if name.endswith(".service")), "")


def reloading() -> None:
    """Notify systemd that a reload has begun; ``READY=1`` ends it."""
    notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")


async def watchdog() -> NoReturn:
    """Notify systemd that the event loop turns, twice in each ``$WATCHDOG_USEC`` if that is set."""
    period = int(os.environ.get("WATCHDOG_USEC", "0")) / 1_000_000
    if period <= 0:
        await trio.sleep_forever()
    while True:
        notify("WATCHDOG=1")
        await trio.sleep(period / 2)
