"""Packets in a websocket over TLS on TCP port 443, for networks where nothing else passes.

Also through an HTTP proxy. It is the one backend where packets pass through Python: a process for
all such tunnels (:mod:`liqod.tunnel`), which the daemon begins, finds again, and asks for what is
wanted.
Two connections in each other recover loss twice, so where UDP passes, ``wireguard`` is better.
"""

import os
from functools import partial
from math import inf
from pathlib import Path

import msgspec
import trio

from liqod.errors import ConfigError, NetworkError
from liqod.identity.tunnelcertificates import pinned
from liqod.model.network import environment
from liqod.plugins.hookspecs import hookimpl
from liqod.plugins.network import processes, proxyselection
from liqod.plugins.network.endpointselection import SILENCE
from liqod.plugins.network.interface import Interface
from liqod.plugins.network.processrights import NET_ADMIN, SET_USER, is_device, may
from liqod.plugins.network.websocketprogram import TunnelProcess
from liqod.plugins.providers import (
    Place,
    TunnelProvider,
    TunnelServices,
    TunnelSpec,
    TunnelStatus,
)
from liqod.tunnel.packets import MOST_SEGMENTS, open_device
from liqod.tunnel.wanted import Wanted

PORT = 443
TUN = Path("/dev/net/tun")


class WebsocketSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The plugin's table of the configuration.

    Attributes:
        proxy: URL of the HTTP proxy by which other clusters' servers are reached, ``none`` for
            going there directly; where nothing is said, what the environment of `liqod node` says
            (``HTTPS_PROXY``, ``NO_PROXY``).
        proxy_ca: path of the certificates that a proxy's own may be issued by; the system's where
            nothing is said.
    """

    proxy: str = ""
    proxy_ca: str = ""

    def __post_init__(self) -> None:
        if self.proxy not in ("", environment.NONE):
            problem = environment.problem(self.proxy)
            if problem is not None:
                raise ValueError(f"proxy: {problem}")


class WebsocketTunnel:
    """One tunnel.

    Args:
        settings: the plugin's.
        services: of the daemon.
        place: where the interface is to be.
    """

    def __init__(self, settings: WebsocketSettings, services: TunnelServices, place: Place) -> None:
        self._settings = settings
        self._host, self._folder = services.host, Path(services.folder)
        self._place = place
        self._interface = Interface(services.host, place)
        self._program = TunnelProcess(services, place, place.interface)
        self._hurried = False

    async def problem(self) -> str | None:
        """As :meth:`liqod.plugins.providers.Tunnel.problem`."""
        if not may(NET_ADMIN):
            return "the right CAP_NET_ADMIN is missing"
        if not all(map(may, SET_USER)):
            return (
                "a right is missing of those by which its process gives up all rights: CAP_SETUID, "
                "CAP_SETGID and CAP_KILL"
            )
        if not is_device(TUN):
            return f"there is no {TUN}"
        return None

    async def up(self, spec: TunnelSpec, /, *, silent: float = 0.0) -> float:
        """As :meth:`liqod.plugins.providers.Tunnel.up`."""
        processes.reap()
        interface = self._place.interface
        try:
            said = await self._program.be(await self._desired(spec), self._open_device)
            await self._interface.settle(spec.mtu, segments=MOST_SEGMENTS)
            if silent < SILENCE or spec.quiet:
                self._hurried = False
            elif not self._hurried:
                # Once: the process notices itself that a connection breaks.
                self._hurried = True
                await self._program.hurry()
        except OSError as error:
            port = f"TCP port {spec.listen_port or PORT}: " if spec.side == "server" else ""
            why = error.strerror or str(error)
            raise NetworkError(f"websocket {interface}: {port}{why}") from error
        if said.error:
            raise NetworkError(f"websocket {interface}: {said.error}")
        return inf

    async def status(self) -> TunnelStatus | None:
        """As :meth:`liqod.plugins.providers.Tunnel.status`."""
        said, link = await self._program.status(), await self._interface.find()
        if said is None or link is None:
            return None
        if not said.fits:
            return TunnelStatus(path="websocket", why="its process is of another release")
        return TunnelStatus(
            path="websocket",
            endpoint=said.endpoint,
            received=link.received,
            sent=link.sent,
            handshake_age=said.age,
            why=said.why,
        )

    async def down(self) -> None:
        """As :meth:`liqod.plugins.providers.Tunnel.down`."""
        interface = self._place.interface
        await self._program.end()
        for left in self._folder.glob(f"{interface}.*"):
            left.unlink(missing_ok=True)
        await self._interface.delete()

    async def _open_device(self) -> int:
        """Make the interface where its packets travel; its open file, the caller's to close.

        An open file keeps the namespace that it was opened in from ending: so not in the peer's.

        Raises:
            ConfigError: this machine lacks something.
            OSError: it could not be made.
        """
        problem = await self.problem()
        if problem is not None:
            raise ConfigError(problem)
        await self._interface.delete()
        make = partial(open_device, self._place.interface)
        return await self._host.within(self._place.underlay, make)

    async def _desired(self, spec: TunnelSpec) -> Wanted:
        """The request for a tunnel. Raises ConfigError: a file that it names cannot be read."""
        pins = pinned(spec.side, spec.private_key, spec.public_key, spec.peer_public_key)
        server = spec.side == "server"
        return Wanted(
            side=spec.side,
            name=pins.name,
            identity=pins.identity,
            peer=pins.peer,
            port=(spec.listen_port or PORT) if server else 0,
            targets=()
            if server
            else proxyselection.targets(spec.endpoints, self._settings.proxy, os.environ),
            keepalive=spec.keepalive,
            proxy_ca=await self._issuers(),
            quiet=spec.quiet,
            mark=spec.mark,
        )

    async def _issuers(self) -> str:
        """The certificates of a proxy's issuers: the process of the tunnels may read no file."""
        path = self._settings.proxy_ca
        if not path:
            return ""
        try:
            return await trio.Path(path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"proxy_ca {path}: {error}") from None


WEBSOCKET = TunnelProvider(
    name="websocket",
    build=WebsocketTunnel,
    encrypted=True,
    # A stream has no packets of its own to be bound to.
    overhead=0,
    transport="TCP",
    port=PORT,
    shared_port=True,
    stands_by=True,
    order=50,
    config_type=WebsocketSettings,
)


@hookimpl
def liqod_network() -> list[TunnelProvider]:
    """Packets over TLS."""
    return [WEBSOCKET]
