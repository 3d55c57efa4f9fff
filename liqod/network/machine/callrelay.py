"""Hands the connections that call the daemon at a port of this machine on to it.

They come from the tunnels' process.

No byte of a connection is read here, and none of the daemon's. Of descriptors only TCP connections
that were accepted at that port pass, without the firewall mark of tunnels, which neither of the two
may take off.
"""

from contextlib import suppress
from functools import partial

import trio

from liqod.errors import NetworkError
from liqod.network.machine.machinesocket import deny
from liqod.plugins.network.machineprocess import MachineProcess
from liqod.runtime.gather import either
from liqod.sharedport import (
    HANDED,
    MOST_HANDED,
    MOST_REPORTED,
    as_connection,
    received,
    send,
)
from liqod.warystream import WaryStream


async def serve(process: MachineProcess, daemon: WaryStream, port: int, cluster: str) -> None:
    """Hand over what calls the daemon at a port, for as long as it wants that.

    Args:
        process: the tunnels' process, which listens there.
        daemon: its connection; a byte of it ends this.
        port: the port.
        cluster: id of the daemon's cluster.
    """
    try:
        tunnels = await process.calls(port, cluster)
    except (NetworkError, OSError) as error:
        await deny(daemon, f"TCP port {port}: {getattr(error, 'strerror', None) or error}")
        return

    async def wanted() -> None:
        with suppress(trio.BrokenResourceError):
            await daemon.receive_some(1)

    async with tunnels:
        await either(partial(_pass_on, tunnels, daemon, port), wanted)


async def _pass_on(tunnels: trio.SocketStream, daemon: WaryStream, port: int) -> None:
    """Pass connections and reports on, until either end is gone."""
    with suppress(OSError, trio.BrokenResourceError):
        await daemon.send_all(HANDED)
        while await _pass_one(tunnels, daemon, port):
            pass


async def _pass_one(tunnels: trio.SocketStream, daemon: WaryStream, port: int) -> bool:
    """Pass the next message on; False where there is none any more. Raises OSError."""
    data, files = await received(tunnels.socket, MOST_REPORTED, MOST_HANDED)
    each_as_call = (as_connection(file, port) for file in files)
    found = [came for came in each_as_call if came is not None]
    try:
        if data:
            await send(daemon, data, [each.fileno() for each in found])
    finally:
        for each in found:
            each.close()
    return bool(data)
