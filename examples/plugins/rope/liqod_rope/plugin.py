"""A tunnel: packets of a TUN device in datagrams, as they are, which anybody on the way can read.

The program that carries packets outlives the daemon; it is found again by the file that holds its
id.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from pathlib import Path
from tempfile import TemporaryFile

import msgspec
import trio

from liqod.errors import NetworkError
from liqod.plugins.providers import (
    Place,
    TunnelProvider,
    TunnelServices,
    TunnelSpec,
    TunnelStatus,
)

NAME = "rope"
PORT = 7471
TUN = Path("/dev/net/tun")
PROGRAM = """
import fcntl, os, socket, struct, sys, threading

interface, port, file, *remotes = sys.argv[1], int(sys.argv[2]), *sys.argv[3:]
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH22x", interface.encode(), 0x1001))
outside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
outside.bind(("", port))
others = [(remote, port) for remote in remotes]
open(file, "w").write(str(os.getpid()))

def outwards():
    while True:
        try:
            packet = os.read(tun, 2048)
        except OSError:
            os._exit(1)
        for other in others:
            try:
                outside.sendto(packet, other)
            except OSError:
                pass

threading.Thread(target=outwards, daemon=True).start()
while True:
    packet, origin = outside.recvfrom(2048)
    # Whoever speaks is answered, and nobody else is tried: no strand of this rope is safe.
    others = [origin]
    try:
        os.write(tun, packet)
    except OSError:
        pass
"""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[plugins.settings.rope]``."""

    python: str = sys.executable


class Rope:
    """One tunnel."""

    def __init__(self, settings: Settings, services: TunnelServices, place: Place) -> None:
        self._settings, self._host, self._place = settings, services.host, place
        self._file = Path(services.folder) / f"{place.interface}.json"

    async def problem(self) -> str | None:
        """The requirement that this machine lacks, or None."""
        there = await self._host.within("", TUN.is_char_device)
        return None if there else f"there is no {TUN}"

    async def up(self, spec: TunnelSpec, /, *, silent: float = 0.0) -> float:
        """Begin the program where there is none, and have the device in its namespace."""
        try:
            await self._up(spec)
        except (OSError, subprocess.SubprocessError) as error:
            raise NetworkError(f"{NAME} {self._place.interface}: {error}") from error
        return inf

    async def _up(self, spec: TunnelSpec) -> None:
        interface, namespace = self._place.interface, self._place.namespace
        if self._process() is None:
            await self._begin(spec)
        if interface not in await self._links(namespace):
            await self._wait(lambda: self._links(self._place.underlay), interface)
            await self._ip(self._place.underlay, "link", "set", interface, "netns", namespace)
        await self._ip(namespace, "link", "set", interface, "mtu", str(spec.mtu), "up")

    async def _begin(self, spec: TunnelSpec) -> None:
        places = [each.rpartition(":") for each in spec.endpoints]
        port = places[0][2] if places else str(spec.listen_port)
        remotes = [await _address(host, port) for host, _, _ in places]
        file = str(self._file)
        program = (self._settings.python, "-c", PROGRAM, self._place.interface, port, file)
        # A session of its own: it goes on when the daemon ends.
        await self._call(self._place.underlay, "setsid", "--fork", *program, *remotes)

    async def status(self) -> TunnelStatus | None:
        """How it is, from the kernel's counters; None where there is none."""
        if self._process() is None or self._place.namespace not in await self._ip("", "netns"):
            return None
        if self._place.interface not in await self._links(self._place.namespace):
            return None
        received, sent = await self._host.within(self._place.namespace, self._bytes)
        return TunnelStatus(path=NAME, received=received, sent=sent)

    async def down(self) -> None:
        """End the program, and the device with it."""
        process = self._process()
        if process is not None:
            os.kill(process, signal.SIGKILL)
            for _ in range(200):
                if self._process() is None:
                    break
                await trio.sleep(0.01)
        self._file.unlink(missing_ok=True)
        # The kernel takes the device of a killed program away when it gets to it.
        if self._place.namespace in await self._ip("", "netns"):
            with suppress(subprocess.SubprocessError):
                await self._ip(self._place.namespace, "link", "delete", self._place.interface)

    async def _wait(self, look: Callable[[], Awaitable[str]], interface: str) -> None:
        for _ in range(250):
            if interface in await look():
                return
            await trio.sleep(0.02)
        raise NetworkError(f"{NAME} {interface}: no device comes")

    def _process(self) -> int | None:
        """The program's id, where it is still this one that has it."""
        try:
            process = int(self._file.read_text())
            line = Path(f"/proc/{process}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return process if self._place.interface.encode() in line else None

    def _bytes(self) -> tuple[int, int]:
        """The bytes received and sent, as counted in the namespace of the calling thread."""
        text = Path("/proc/thread-self/net/dev").read_text()
        line = next((each for each in text.splitlines() if self._place.interface in each), "")
        counts = line.partition(":")[2].split() or ["0"] * 16
        return int(counts[0]), int(counts[8])

    async def _links(self, namespace: str) -> str:
        return await self._ip(namespace, "link")

    async def _ip(self, namespace: str, *words: str) -> str:
        return await self._call(namespace, "ip", *words)

    async def _call(self, namespace: str, *command: str) -> str:
        def call() -> str:
            # A file and no pipe: what is begun may live on, and keep what it is given.
            with TemporaryFile("w+") as output:
                subprocess.run(command, stdout=output, stderr=subprocess.DEVNULL, check=True)
                output.seek(0)
                return output.read()

        return await self._host.within(namespace, call)


async def _address(host: str, port: str) -> str:
    """The address that a name has here."""
    found = await trio.socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_DGRAM)
    return str(found[0][4][0])


TUNNEL = TunnelProvider(
    name=NAME,
    build=Rope,
    encrypted=False,
    on_request=True,
    overhead=48,
    port=PORT,
    config_type=Settings,
)
