"""Publishes the endpoint at which the gateway observes a peer to its standby gateways."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn

import trio

from liqod.errors import LiqodError
from liqod.network.failover.role import Role
from liqod.plugins.providers import Tunnel

CARRIED: Final = "websocket"
LOOKED: Final = 5.0
"""Seconds between looks."""


async def publish_endpoint(role: Role, peer: str, tunnel: Callable[[], Tunnel | None]) -> NoReturn:
    """Publish the endpoint at which a peer is observed, until cancelled.

    Args:
        role: notified of it.
        peer: its id.
        tunnel: gives the tunnel that there is now.
    """
    try:
        while True:
            with suppress(LiqodError):
                found = await now.status() if (now := tunnel()) is not None else None
                if found is not None and found.handshake_age is not None:
                    # In a websocket a peer comes to whoever is the gateway by itself.
                    role.observe(peer, found.endpoint if found.path != CARRIED else "")
            await trio.sleep(LOOKED)
    finally:
        role.observe(peer, "")
