"""Checks that this process can have networks at all: rights, programs, devices."""

import errno
import shutil
from pathlib import Path

import trio

from liqod.errors import NetworkError
from liqod.netlink import NETFILTER, Netlink
from liqod.network.dataplane.kernel import nft, sysctls

TUN = Path("/dev/net/tun")
RIGHTS = {12: "CAP_NET_ADMIN", 21: "CAP_SYS_ADMIN"}
"""By their bits, for tunnels and namespaces of their own."""
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
"""Errors of a machine that has what it needs, but not at this moment."""


async def problem() -> str | None:
    """The reason why this process can have no tunnels and network namespaces; None for none.

    Raises:
        NetworkError: it cannot be found out now.
    """
    return await trio.to_thread.run_sync(look)


def look(*, tunnels: bool = True) -> str | None:
    """As :func:`problem`, for a thread that may block.

    Args:
        tunnels: whether tunnels and namespaces of their own are wanted; else no more than links,
            routes and filters in the namespace that this process is in.

    Raises:
        NetworkError: it cannot be found out now.
    """
    try:
        return _lacks(tunnels)
    except OSError as error:
        raise NetworkError(f"this machine cannot be looked at now: {error}") from error


def _lacks(tunnels: bool) -> str | None:
    """As :func:`look`. Raises OSError where it cannot be found out."""
    needed = list(RIGHTS.values()) if tunnels else ["CAP_NET_ADMIN"]
    missing = [right for right in needed if right not in effective()]
    if shutil.which(nft.PROGRAM) is None:
        missing.append(f"the program {nft.PROGRAM} (package nftables)")
    missing += [str(TUN)] if tunnels and not TUN.exists() else []
    if missing:
        return f"missing: {', '.join(missing)}"
    if tunnels and sysctls.is_locked():
        return "/proc/sys is mounted read-only"
    try:
        with Netlink(NETFILTER), Netlink():
            return None
    except NetworkError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in EXHAUSTED:
            raise cause from None
        return str(error)


def effective() -> set[str]:
    """The rights of :data:`RIGHTS` that this process has, by their names. Raises OSError."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            has = int(value, 16)
            return {right for bit, right in RIGHTS.items() if has >> bit & 1}
    return set()
