"""WireGuard: the kernel's where it has one, else a program that speaks its userspace protocol.

The interface is made where the packets are to travel and moved into the peer's namespace; its UDP
socket stays behind. One interface has one peer, since addresses of several peers may be the same.
"""

import shutil
import time
from collections.abc import Callable
from functools import partial
from math import inf
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
import trio

from liqod.errors import ConfigError, NetworkError
from liqod.plugins.hookspecs import hookimpl
from liqod.plugins.network import device, links, processes, uapi, wgnetlink
from liqod.plugins.network.device import Change, Device
from liqod.plugins.network.endpoints import Names, Race
from liqod.plugins.network.rights import NET_ADMIN, is_device, may
from liqod.plugins.providers import (
    Place,
    TunnelProvider,
    TunnelServices,
    TunnelSpec,
    TunnelStatus,
)

R = TypeVar("R")

PROGRAMS = ("wireguard", "wireguard-go")
"""Userspace WireGuards, the faster one first: the Go module's of today, and Debian's older one."""
ENVIRONMENT = {"GOMEMLIMIT": "96MiB", "GOGC": "off", "LOG_LEVEL": "silent"}
"""Half the throughput less memory: about 65 MB under load instead of 300, 8 at rest."""
TUN = Path("/dev/net/tun")
READY_DEADLINE = 5.0
"""Seconds for a program to make its interface."""

Engine = Literal["kernel", "userspace"]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The plugin's table of the configuration.

    Attributes:
        kernel: whether the kernel's is used where there is one.
        program: path of a userspace WireGuard, instead of those on ``PATH``.
    """

    kernel: bool = True
    program: str = ""


class WireGuard:
    """One tunnel.

    Args:
        settings: the plugin's.
        services: of the daemon.
        place: where the interface is to be.
        kernel_has: says whether the kernel has WireGuard; for tests.
    """

    def __init__(
        self,
        settings: Settings,
        services: TunnelServices,
        place: Place,
        *,
        kernel_has: Callable[[], bool] = wgnetlink.known,
    ) -> None:
        self._settings = settings
        self._host = services.host
        self._place = place
        self._kernel_has = kernel_has
        self._race, self._names = Race(), Names()

    async def problem(self) -> str | None:
        """As :meth:`liqod.plugins.providers.Tunnel.problem`."""
        if not may(NET_ADMIN):
            return "the right CAP_NET_ADMIN is missing"
        if await self._engine() == "kernel":
            return None
        if self._program() is None:
            chosen = self._settings.program
            if chosen:
                return f"there is no program {chosen}"
            return f"the kernel has no WireGuard, and there is neither {' nor '.join(PROGRAMS)}"
        if not is_device(TUN):
            return f"there is no {TUN}"
        return None

    async def up(self, spec: TunnelSpec, /, *, silent: float = 0.0) -> float:
        """As :meth:`liqod.plugins.providers.Tunnel.up`."""
        processes.reap()
        try:
            engine = await self._running()
            if engine is None:
                engine = await self._begin()
            await self._settle(spec.mtu)
            return await self._configure(engine, spec, silent)
        except OSError as error:
            raise NetworkError(f"wireguard {self._place.interface}: {_said(error)}") from error

    async def status(self) -> TunnelStatus | None:
        """As :meth:`liqod.plugins.providers.Tunnel.status`."""
        try:
            engine = await self._running()
            if engine is None:
                return None
            found = await self._read(engine, b"")
        except (BrokenPipeError, ConnectionError, FileNotFoundError):
            return None  # its process is ending just now
        except OSError as error:
            raise NetworkError(f"wireguard {self._place.interface}: {_said(error)}") from error
        if not found.peers:
            return TunnelStatus(path=engine, why="it has no peer yet")
        peer = found.peers[0]
        return TunnelStatus(
            path=engine,
            endpoint=peer.endpoint,
            received=peer.received,
            sent=peer.sent,
            handshake_age=max(0.0, time.time() - peer.handshake) if peer.handshake else None,
        )

    async def down(self) -> None:
        """As :meth:`liqod.plugins.providers.Tunnel.down`."""
        interface = self._place.interface
        process = await uapi.process(interface)
        if process is not None:
            await processes.end(process, named=interface)
        uapi.path(interface).unlink(missing_ok=True)
        for namespace in (self._place.underlay, self._place.namespace):
            # Of a program that was killed the interface may live on for a moment.
            await self._within(namespace, partial(links.delete, interface), missing=False)

    async def _running(self) -> Engine | None:
        """What has the interface already, whoever began it."""
        interface = self._place.interface
        if await uapi.process(interface) is not None:
            return "userspace"
        for namespace in (self._place.namespace, self._place.underlay):
            link = await self._within(namespace, partial(links.find, interface), missing=None)
            if link is not None and link.kind == "wireguard":
                return "kernel"
        return None

    async def _begin(self) -> Engine:
        """Make the interface where its packets travel.

        Raises:
            ConfigError: this machine lacks something.
            NetworkError, OSError: it could not be made.
        """
        problem = await self.problem()
        if problem is not None:
            raise ConfigError(problem)
        interface, underlay = self._place.interface, self._place.underlay
        if await self._engine() == "kernel":
            await self._host.within(underlay, partial(links.make, interface, "wireguard"))
            return "kernel"
        # A socket that nobody listens at is left of one that was killed.
        uapi.path(interface).unlink(missing_ok=True)
        program = self._program()
        assert program is not None
        command = [program, "-f", interface]
        child = await self._host.within(underlay, partial(processes.start, command, ENVIRONMENT))
        with trio.move_on_after(READY_DEADLINE):
            while await uapi.process(interface) is None:
                if child.poll() is not None:
                    raise NetworkError(
                        f"{program} ended with status {child.returncode}; "
                        f"`{' '.join(command)}` on this host says why"
                    )
                await trio.sleep(0.01)
            return "userspace"
        child.kill()
        raise NetworkError(f"{program} made no interface within {READY_DEADLINE:.0f} s")

    async def _settle(self, mtu: int) -> None:
        """Have the interface in its namespace, set up, with that MTU."""
        interface, namespace = self._place.interface, self._place.namespace

        def settled() -> bool:
            link = links.find(interface)
            if link is not None and not (link.up and link.mtu == mtu):
                links.raise_(interface, mtu)
            return link is not None

        if not await self._host.within(namespace, settled):
            await self._host.within(self._place.underlay, partial(links.move, interface, namespace))
            await self._host.within(namespace, settled)

    async def _configure(self, engine: Engine, spec: TunnelSpec, silent: float) -> float:
        found = await self._read(engine, spec.private_key)
        now = trio.current_time()
        peer = next((each for each in found.peers if each.public_key == spec.peer_public_key), None)
        if spec.side == "server" and (peer is not None and peer.endpoint):
            # Where the client was last heard from is where it is.
            endpoint, afresh, again = None, False, inf
        else:
            candidates, pause = await self._names.candidates(spec.endpoints, silent=silent, now=now)
            step = self._race.step(
                candidates,
                peer.endpoint if peer is not None else "",
                silent=silent,
                handshake=time.time() - peer.handshake if peer and peer.handshake else inf,
                now=now,
            )
            endpoint, afresh, again = step.endpoint, step.afresh, min(step.again, pause)
            if not candidates and spec.endpoints:
                again = min(again, 1.0)
        wanted = device.change(found, spec, endpoint)
        if wanted is not None:
            await self._write(engine, wanted)
        if afresh and peer is not None and endpoint is not None:
            await self._write(engine, device.afresh(spec, endpoint))
        return again

    async def _read(self, engine: Engine, private_key: bytes) -> Device:
        interface = self._place.interface
        if engine == "userspace":
            return await uapi.read(interface, private_key)
        return await self._host.within(
            self._place.namespace, partial(wgnetlink.read, interface, private_key)
        )

    async def _write(self, engine: Engine, change: Change) -> None:
        interface = self._place.interface
        if engine == "userspace":
            await uapi.write(interface, change)
        else:
            await self._host.within(
                self._place.namespace, partial(wgnetlink.write, interface, change)
            )

    async def _engine(self) -> Engine:
        """Which one a tunnel is begun with."""
        # The kernel may load a module for the answer, so not here.
        if self._settings.kernel and await trio.to_thread.run_sync(self._kernel_has):
            return "kernel"
        return "userspace"

    def _program(self) -> str | None:
        if self._settings.program:
            return shutil.which(self._settings.program)
        return next((found for each in PROGRAMS if (found := shutil.which(each))), None)

    async def _within(self, namespace: str, function: Callable[[], R], *, missing: R) -> R:
        """As the host's; ``missing`` where there is no such namespace."""
        if namespace and not links.is_namespace(namespace):
            return missing
        return await self._host.within(namespace, function)


def _said(error: OSError) -> str:
    return error.strerror or str(error)


WIREGUARD = TunnelProvider(
    name="wireguard",
    build=WireGuard,
    encrypted=True,
    # 20 or 40 for IP, 8 for UDP, 32 of its own.
    overhead=80,
    order=10,
    config_type=Settings,
)


@hookimpl
def liqod_network() -> list[TunnelProvider]:
    """WireGuard."""
    return [WIREGUARD]
