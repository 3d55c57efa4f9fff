"""A tunnel's datagrams in a websocket, for where no UDP passes: one more way to the same WireGuard.

On either side the process (:mod:`.websocketd`) stands on loopback in place of the other one. Both
ends of the tunnel stay what they are, with their keys and sessions, so that it goes over from one
way to the other as to any other endpoint.
"""

import logging
import os
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

import trio

from liqod.errors import NetworkError
from liqod.identity.tunnelcertificates import pinned
from liqod.plugins.network.endpoints import SILENCE
from liqod.plugins.network.proxies import targets
from liqod.plugins.network.websocketd.datagrams import HOST
from liqod.plugins.network.websocketd.wanted import Wanted
from liqod.plugins.network.websocketprogram import TunnelProcess
from liqod.plugins.providers import Place, TunnelServices, TunnelSpec

log = logging.getLogger(__name__)

AFTER = 3.0
"""Seconds of silence after which a client has it."""
AGAIN = 60.0
"""Seconds until a port that cannot be had is tried again."""
LOOKED = 0.3
"""Seconds between two checks for a connection that is awaited."""
LEFT = 60.0
"""Seconds for which another way is in use after which a client has it no more."""


class Carriage:
    """The websocket of one tunnel.

    Args:
        services: of the daemon.
        place: of the tunnel's interface.
        proxy, proxy_ca: as :class:`liqod.plugins.network.websocket.WebsocketSettings` has them.

    Attributes:
        why: why there is none, where there is to be one.
        failed: the same, where it is this machine that cannot.
        where: ``address:port`` of the other end; empty while there is no connection.
    """

    def __init__(
        self, services: TunnelServices, place: Place, proxy: str = "", proxy_ca: str = ""
    ) -> None:
        self._proxy, self._proxy_ca = proxy, proxy_ca
        self._folder = Path(services.folder)
        self._name = f"{place.interface}-udp"
        self._program = TunnelProcess(services, place, self._name)
        self.why = self.where = self.failed = ""

    async def have(self, spec: TunnelSpec, local: int) -> str:
        """Have it be as a spec says; where the WireGuard here sends to, empty for nowhere yet.

        Args:
            spec: of the tunnel.
            local: UDP port of the WireGuard here.
        """
        try:
            said = await self._program.be(self._wanted(spec, local))
        except (OSError, NetworkError) as error:
            self.why = self.failed = str(error)
            self.where = ""
            return ""
        return self._note(said)

    async def found(self) -> str:
        """The same of one that is there already, whoever began it; empty where there is none."""
        said = await self._program.status()
        if said is None or "digest" not in said:
            self.where = ""
            return ""
        return self._note(said)

    async def hurry(self) -> None:
        """Have a new connection: nothing comes by the present one."""
        try:
            await self._program.hurry()
        except OSError:
            return  # there is none

    async def end(self) -> None:
        """Have none any more. Idempotent."""
        await self._program.end()
        self.where = ""
        for left in self._folder.glob(f"{self._name}.*"):
            left.unlink(missing_ok=True)

    async def is_there(self) -> bool:
        """True if there is one, no matter who began it."""
        return await self._program.status() is not None

    def _note(self, said: dict[str, Any]) -> str:
        # Of a tunnel that could not come to be there is the error alone.
        self.where = said.get("endpoint", "")
        self.failed = said.get("error") or ""
        self.why = self.failed or ("" if self.where else said["why"])
        return f"{HOST}:{said['port']}" if self.where else ""

    def _wanted(self, spec: TunnelSpec, local: int) -> Wanted:
        keys = (spec.private_key, spec.public_key, spec.peer_public_key)
        pins = pinned(spec.side, *keys, "datagrams")
        server = spec.side == "server"
        return Wanted(
            side=spec.side,
            name=pins.name,
            identity=pins.identity,
            peer=pins.peer,
            port=spec.websocket if server else 0,
            targets=()
            if server
            else targets(at_port(spec.endpoints, spec.websocket), self._proxy, os.environ),
            keepalive=spec.keepalive,
            proxy_ca=self._proxy_ca,
            quiet=spec.quiet,
            mark=spec.mark,
            local=local,
        )


class Fallback:
    """When a tunnel has its carriage.

    Args:
        carriage: of the tunnel.

    Attributes:
        is_new: whether its connection stands since the last call of :meth:`dial` only.
    """

    def __init__(self, carriage: Carriage) -> None:
        self._carriage = carriage
        self._before = ""
        self._left_at: float | None = None
        self._ended = self._hurried = self.is_new = False

    async def serve(self, spec: TunnelSpec, local: int) -> float:
        """Have a server's, or none; seconds until that is looked at again.

        That nobody can be served by it blocks nothing else.
        """
        if not spec.websocket or spec.quiet:
            await self._have_none()
            return inf
        self._ended = False
        await self._carriage.have(spec, spec.listen_port or local)
        failed = self._carriage.failed
        if failed and failed != self._before:
            log.warning("no tunnel in a websocket can be served: %s", failed)
        self._before = failed
        return AGAIN if failed else inf

    async def dial(
        self, spec: TunnelSpec, local: int, current: str, silent: float
    ) -> tuple[str, float]:
        """Have a client's where nothing comes otherwise.

        Args:
            spec: of the tunnel.
            local: UDP port of the WireGuard here.
            current: where that sends to now.
            silent: seconds for which nothing came.

        Returns:
            Where it sends to for it to be carried, empty for nowhere; seconds until the next look.
        """
        self.is_new = False
        if not spec.websocket or spec.quiet:
            await self._have_none()
            return "", inf
        there = await self._carriage.is_there()
        if not there and silent < AFTER:
            self._before = ""
            return "", max(AFTER - silent, 0.1) if silent else inf
        self._ended, now = False, trio.current_time()
        found = await self._carriage.have(spec, local)
        self.is_new, self._before = bool(found) and found != self._before, found
        if silent >= SILENCE or current == found:
            self._left_at = None
            if silent >= SILENCE and current == found and not self._hurried:
                # Once: of a connection that breaks the process knows itself.
                self._hurried = True
                await self._carriage.hurry()
            self._hurried = self._hurried and silent >= SILENCE
            return found, inf if found else LOOKED
        if self._left_at is None:
            self._left_at = now + LEFT
        if now >= self._left_at:
            self._left_at = None
            await self._have_none()
            return "", inf
        return found, self._left_at - now

    async def _have_none(self) -> None:
        if not self._ended:
            await self._carriage.end()
        self._ended, self._before = True, ""


def is_carried(endpoint: str) -> bool:
    """True if datagrams that WireGuard sends there are carried in a websocket."""
    return endpoint.startswith(f"{HOST}:")


def at_port(endpoints: Sequence[str], port: int) -> tuple[str, ...]:
    """The same hosts at another port."""
    hosts = dict.fromkeys(each.rpartition(":")[0] for each in endpoints)
    return tuple(f"{host}:{port}" for host in hosts)
