"""WireGuard: the kernel's where it has one, else a program that speaks its userspace protocol.

The interface is made where the packets are to travel and moved into the peer's namespace; its UDP
socket stays behind. One interface has one peer, since addresses of several peers may be the same.
"""

import errno
import shutil
import time
from collections.abc import Callable
from functools import partial
from math import inf
from pathlib import Path
from typing import Literal

import trio

from liqod.errors import ConfigError, NetworkError
from liqod.identity.noiseprobe import probe_keys
from liqod.identity.tunnelkeys import TunnelKeys
from liqod.plugins.hookspecs import hookimpl
from liqod.plugins.network import device, processes, rtnetlink, uapi, wgnetlink
from liqod.plugins.network.asking import Asking
from liqod.plugins.network.device import Change, PeerChange, WireGuardDevice, WireGuardPeer
from liqod.plugins.network.endpointselection import EndpointResolver, EndpointStep, Race, ranked
from liqod.plugins.network.fallback import WebsocketFallback
from liqod.plugins.network.interface import Interface
from liqod.plugins.network.processrights import NET_ADMIN, is_device, may
from liqod.plugins.network.websocket import WebsocketSettings
from liqod.plugins.providers import (
    Place,
    TunnelProvider,
    TunnelServices,
    TunnelSpec,
    TunnelStatus,
)

PROGRAMS = ("wireguard", "wireguard-go")
"""Userspace WireGuards, the faster one first: the Go module's of today, and Debian's older one."""
ENVIRONMENT = {"GOMEMLIMIT": "96MiB", "GOGC": "off", "LOG_LEVEL": "silent"}
"""Half the throughput less memory: about 65 MB under load instead of 300, 8 at rest."""
TUN = Path("/dev/net/tun")
READY_DEADLINE = 5.0
"""Seconds for a program to make its interface."""
RACED, ASKED = 0.5, 0.5
"""Seconds for which an answer is waited for, of all endpoints and of better ones."""
FIRM, FIRM_LOOKS, FIRM_PAUSE = 8, 50, 0.02
"""Looks in a row after which an endpoint is held to stay, looks at most, seconds between them."""

Engine = Literal["kernel", "userspace"]


class WireGuardSettings(WebsocketSettings, frozen=True, forbid_unknown_fields=True):
    """The plugin's table of the configuration: also that of the websocket where no UDP passes.

    Attributes:
        kernel: whether the kernel's is used where there is one.
        program: path of a userspace WireGuard, instead of those on ``PATH``.
    """

    kernel: bool = True
    program: str = ""


class WireGuardTunnel:
    """One tunnel.

    Args:
        settings: the plugin's.
        services: of the daemon.
        place: the place of the interface.
        kernel_has: True if the kernel has WireGuard; for tests.
        sockets: where programs have their sockets.
    """

    def __init__(
        self,
        settings: WireGuardSettings,
        services: TunnelServices,
        place: Place,
        *,
        kernel_has: Callable[[], bool] = wgnetlink.is_supported,
        sockets: Path = uapi.FOLDER,
    ) -> None:
        self._settings = settings
        self._host = services.host
        self._place = place
        self._interface = Interface(services.host, place)
        self._socket = uapi.path(place.interface, sockets)
        self._kernel_has = kernel_has
        self._race, self._names = Race(), EndpointResolver()
        self._keys: tuple[TunnelSpec, TunnelKeys] | None = None
        self._fallback = WebsocketFallback(settings, services, place)

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
                engine = await self._start()
            await self._interface.settle(spec.mtu)
            return await self._configure(engine, spec, silent)
        except OSError as error:
            why = _error_text(error)
            if error.errno == errno.EADDRINUSE:
                why = f"another program has UDP port {spec.listen_port} on this machine"
            raise NetworkError(f"wireguard {self._place.interface}: {why}") from error

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
            raise NetworkError(
                f"wireguard {self._place.interface}: {_error_text(error)}"
            ) from error
        # One that only probes may send nothing.
        peer = next((each for each in found.peers if each.allowed), None)
        carried = await self._fallback.status()
        if carried is not None:
            return carried
        if peer is None:
            return TunnelStatus(path=engine, why="it has no peer yet")
        return TunnelStatus(
            path=engine,
            endpoint=peer.endpoint,
            received=peer.received,
            sent=peer.sent,
            handshake_age=max(0.0, time.time() - peer.handshake) if peer.handshake else None,
            why=f"in a websocket: {self._fallback.why}" if self._fallback.why else "",
        )

    async def down(self) -> None:
        """As :meth:`liqod.plugins.providers.Tunnel.down`."""
        interface = self._place.interface
        await self._fallback.end()
        process = await uapi.process(self._socket)
        if process is not None:
            await processes.end(process, named=interface)
        self._socket.unlink(missing_ok=True)
        await self._interface.delete()

    async def _running(self) -> Engine | None:
        """The engine that has the interface already, also an earlier daemon's; None for none."""
        if await self._ready():
            return "userspace"
        found = await self._interface.find_anywhere("wireguard")
        return "kernel" if found is not None else None

    async def _start(self) -> Engine:
        """Make the interface where its packets travel.

        Raises:
            ConfigError: this machine lacks something.
            NetworkError, OSError: it could not be made.
        """
        problem = await self.problem()
        if problem is not None:
            raise ConfigError(problem)
        interface = self._place.interface
        if await self._engine() == "kernel":
            await self._interface.make("wireguard")
            return "kernel"
        # A socket that nobody listens at is left of one that was killed.
        self._socket.unlink(missing_ok=True)
        program = self._program()
        assert program is not None
        await processes.start_until_ready(
            self._host,
            self._place.underlay,
            [program, "-f", interface],
            ENVIRONMENT,
            ready=self._ready,
            deadline=READY_DEADLINE,
            who=program,
        )
        return "userspace"

    async def _ready(self) -> bool:
        """True if a program has the interface, also one of an earlier daemon."""
        return await uapi.process(self._socket) is not None

    async def _configure(self, engine: Engine, spec: TunnelSpec, silent: float) -> float:
        found = await self._read(engine, spec.private_key)
        peer = _peer_of(found, spec)
        silent, soon = await self._fallback.settle(spec, peer, silent)
        if spec.quiet or (spec.side == "server" and (peer is not None and peer.endpoint)):
            # The client's address is the one of its last packet.
            step = EndpointStep(again=inf)
        elif spec.last and peer is None:
            step = EndpointStep(endpoint=spec.last, again=self._race.start(trio.current_time()))
        else:
            return min(await self._go(engine, spec, found, silent), soon)
        await self._do(engine, spec, step, found)
        return min(step.again, soon)

    async def _go(
        self, engine: Engine, spec: TunnelSpec, found: WireGuardDevice, silent: float
    ) -> float:
        """Send to where the other side is, or may be; seconds until that is looked at again."""
        now, peer = trio.current_time(), _peer_of(found, spec)
        named, pause = await self._names.candidates(spec.endpoints, silent=silent, now=now)
        near = await self._near() if len(named) > 1 else ()
        candidates, current = ranked(named, near), peer.endpoint if peer is not None else ""
        handshake = time.time() - peer.handshake if peer and peer.handshake else inf
        step = self._race.step(candidates, current, silent=silent, handshake=handshake, now=now)
        await self._do(engine, spec, step, found)
        if step.race:
            step = await self._raced(engine, spec, step)
        elif step.probe:
            heard = await self._asking(spec).every(step.probe, ASKED)
            step = self._race.on_answers(heard, candidates, current, trio.current_time())
            await self._do(engine, spec, step, await self._read(engine, spec.private_key))
        again = min(step.again, pause)
        return again if candidates or not spec.endpoints else min(again, 1.0)

    async def _raced(self, engine: Engine, spec: TunnelSpec, step: EndpointStep) -> EndpointStep:
        """Probe all while one is tried already, and try the one that answers first."""
        began, tried = time.time(), step.endpoint or ""

        async def stands() -> bool:
            peer = _peer_of(await self._read(engine, b""), spec)
            return peer is not None and peer.handshake >= began

        first = await self._asking(spec).first(step.race, RACED, stands)
        now = trio.current_time()
        step = self._race.on_first_answer("" if await stands() else first, tried, now)
        await self._do(engine, spec, step, await self._read(engine, spec.private_key))
        return step

    async def _do(
        self, engine: Engine, spec: TunnelSpec, step: EndpointStep, found: WireGuardDevice
    ) -> None:
        """Make the interface match the spec and a step."""
        asking = b""
        if spec.side == "server":
            asking = self._keys_of(spec).public
        wanted = device.change(found, spec, step.endpoint, asking)
        if wanted is not None:
            await self._write(engine, wanted)
        if step.endpoint is None:
            return
        if step.afresh and _peer_of(found, spec) is not None:
            await self._write(engine, device.afresh(spec, step.endpoint))
        if step.firm:
            await self._hold(engine, spec, step.endpoint)

    async def _hold(self, engine: Engine, spec: TunnelSpec, endpoint: str) -> None:
        """Send there until what the other side has sent before does not lead elsewhere any more."""
        held = 0
        for _ in range(FIRM_LOOKS):
            await trio.sleep(FIRM_PAUSE)
            peer = _peer_of(await self._read(engine, b""), spec)
            held = held + 1 if peer is not None and peer.endpoint == endpoint else 0
            if held >= FIRM:
                return
            if not held:
                again = PeerChange(public_key=spec.peer_public_key, endpoint=endpoint)
                await self._write(engine, Change(peers=(again,)))

    def _asking(self, spec: TunnelSpec) -> Asking:
        place, keys = self._place, self._keys_of(spec)
        return Asking(self._host, place.underlay, spec.mark, keys, spec.peer_public_key)

    def _keys_of(self, spec: TunnelSpec) -> TunnelKeys:
        """The keys with which the server is probed."""
        if self._keys is None or self._keys[0] != spec:
            own, theirs = (spec.private_key, spec.public_key), spec.peer_public_key
            self._keys = (spec, probe_keys(*own, theirs, dialled=spec.side == "server"))
        return self._keys[1]

    async def _near(self) -> tuple[str, ...]:
        """Networks that this machine is on."""
        return await self._host.within(self._place.underlay, rtnetlink.networks)

    async def _read(self, engine: Engine, private_key: bytes) -> WireGuardDevice:
        interface = self._place.interface
        if engine == "userspace":
            return await uapi.read(self._socket, private_key)
        return await self._host.within(
            self._place.namespace, partial(wgnetlink.read, interface, private_key)
        )

    async def _write(self, engine: Engine, change: Change) -> None:
        interface = self._place.interface
        if engine == "userspace":
            await uapi.write(self._socket, change)
        else:
            await self._host.within(
                self._place.namespace, partial(wgnetlink.write, interface, change)
            )

    async def _engine(self) -> Engine:
        """The engine with which a new tunnel begins."""
        # The kernel may load a module for the answer, so not here.
        if self._settings.kernel and await trio.to_thread.run_sync(self._kernel_has):
            return "kernel"
        return "userspace"

    def _program(self) -> str | None:
        if self._settings.program:
            return shutil.which(self._settings.program)
        return next((found for each in PROGRAMS if (found := shutil.which(each))), None)


def _peer_of(found: WireGuardDevice, spec: TunnelSpec) -> WireGuardPeer | None:
    return next((each for each in found.peers if each.public_key == spec.peer_public_key), None)


def _error_text(error: OSError) -> str:
    return error.strerror or str(error)


WIREGUARD = TunnelProvider(
    name="wireguard",
    build=WireGuardTunnel,
    encrypted=True,
    # 20 or 40 for IP, 8 for UDP, 32 of its own.
    overhead=80,
    stands_by=True,
    carried=True,
    order=10,
    config_type=WireGuardSettings,
)


@hookimpl
def liqod_network() -> list[TunnelProvider]:
    """WireGuard."""
    return [WIREGUARD]
