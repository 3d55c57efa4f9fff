"""Whether this process can have a network at all: rights, programs, devices."""

import os
import shutil
from pathlib import Path

import trio

from liqod.errors import NetworkError
from liqod.network.kernel import nft
from liqod.network.kernel.netlink import NETFILTER, Netlink

TUN = Path("/dev/net/tun")
_RIGHTS = {12: "CAP_NET_ADMIN", 21: "CAP_SYS_ADMIN"}


async def problem() -> str | None:
    """What is missing for tunnels and network namespaces, by its names; None for nothing."""
    return await trio.to_thread.run_sync(look)


def look() -> str | None:
    """As :func:`problem`, for a thread that may block."""
    missing = [right for right in _RIGHTS.values() if right not in _effective()]
    if shutil.which(nft.PROGRAM) is None:
        missing.append(f"the program {nft.PROGRAM} (package nftables)")
    missing += [str(TUN)] if not TUN.exists() else []
    if missing:
        return f"missing: {', '.join(missing)}"
    if os.statvfs("/proc/sys/net").f_flag & os.ST_RDONLY:
        return "/proc/sys is mounted read-only"
    try:
        with Netlink(NETFILTER), Netlink():
            return None
    except NetworkError as error:
        return str(error)


def _effective() -> set[str]:
    """Those of the rights needed that this process has."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            has = int(value, 16)
            return {right for bit, right in _RIGHTS.items() if has >> bit & 1}
    return set()
