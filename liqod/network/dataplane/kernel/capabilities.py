"""Checks that this process can have networks at all: rights, programs, devices."""

import errno
import shutil
from pathlib import Path

import trio

from liqod.errors import NetworkError
from liqod.netlink import NETFILTER, Netlink
from liqod.network.dataplane.kernel import nft, sysctls
from liqod.plugins.network.processrights import NET_ADMIN, may

TUN = Path("/dev/net/tun")
RIGHTS = {NET_ADMIN: "CAP_NET_ADMIN", 21: "CAP_SYS_ADMIN"}
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
    needed = RIGHTS if tunnels else {NET_ADMIN: RIGHTS[NET_ADMIN]}
    missing = [name for right, name in needed.items() if not may(right)]
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
