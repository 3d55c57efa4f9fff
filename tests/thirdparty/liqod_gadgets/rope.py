"""A tunnel: packets of a TUN device in datagrams, as they are.

It shows what a backend is made of. The program that carries packets outlives the daemon; it is
found again by the file that holds its id.
"""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from math import inf
from pathlib import Path
from tempfile import TemporaryFile

import msgspec
import trio

from liqod.errors import NetworkError
from liqod.plugins.providers import TunnelProvider, TunnelStatus

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

    def __init__(self, settings, services, place):
        self.settings, self.host, self.place = settings, services.host, place
        self.file = Path(services.folder) / f"{place.interface}.json"

    async def problem(self):
        """The requirement that this machine lacks, or None."""
        there = await self.host.within("", TUN.is_char_device)
        return None if there else f"there is no {TUN}"

    async def up(self, spec, /, *, silent=0.0):
        """Begin the program where there is none, and have the device in its namespace."""
        try:
            await self._up(spec)
        except (OSError, subprocess.SubprocessError) as error:
            raise NetworkError(f"rope {self.place.interface}: {error}") from error
        return inf

    async def _up(self, spec):
        interface, namespace = self.place.interface, self.place.namespace
        if self._process() is None:
            places = [each.rpartition(":") for each in spec.endpoints]
            port = places[0][2] if places else str(spec.listen_port)
            remotes = [await _address(host, port) for host, _, _ in places]
            program = (self.settings.python, "-c", PROGRAM, interface, port, self.file, *remotes)
            await self._call(self.place.underlay, "setsid", "--fork", *program)
        if interface not in await self._links(namespace):
            await self._wait(lambda: self._links(self.place.underlay), interface)
            await self._ip(self.place.underlay, "link", "set", interface, "netns", namespace)
        await self._ip(namespace, "link", "set", interface, "mtu", str(spec.mtu), "up")

    async def status(self):
        """How it is, from the kernel's counters."""
        if self._process() is None or self.place.namespace not in await self._ip("", "netns"):
            return None
        text = await self._links(self.place.namespace)
        if self.place.interface not in text:
            return None
        received, sent = await self.host.within(self.place.namespace, self._bytes)
        return TunnelStatus(path="rope", received=received, sent=sent)

    async def down(self):
        """End the program, and the device with it."""
        process = self._process()
        if process is not None:
            os.kill(process, signal.SIGKILL)
            for _ in range(200):
                if self._process() is None:
                    break
                await trio.sleep(0.01)
        self.file.unlink(missing_ok=True)
        # The kernel takes the device of a killed program away when it gets to it.
        if self.place.namespace in await self._ip("", "netns"):
            with suppress(subprocess.SubprocessError):
                await self._ip(self.place.namespace, "link", "delete", self.place.interface)

    async def _wait(self, look, interface):
        for _ in range(250):
            if interface in await look():
                return
            await trio.sleep(0.02)
        raise NetworkError(f"rope {interface}: no device comes")

    def _process(self):
        """Its id, where it is still this one that has it."""
        try:
            process = int(self.file.read_text())
            line = Path(f"/proc/{process}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return process if self.place.interface.encode() in line else None

    def _bytes(self):
        text = Path("/proc/thread-self/net/dev").read_text()
        line = next((each for each in text.splitlines() if self.place.interface in each), "")
        counts = line.partition(":")[2].split() or ["0"] * 16
        return int(counts[0]), int(counts[8])

    async def _links(self, namespace):
        return await self._ip(namespace, "link")

    async def _ip(self, namespace, *words):
        return await self._call(namespace, "ip", *words)

    async def _call(self, namespace, *command):
        def call():
            # A file and no pipe: what is begun may live on, and keep what it is given.
            with TemporaryFile("w+") as output:
                subprocess.run(command, stdout=output, stderr=subprocess.DEVNULL, check=True)
                output.seek(0)
                return output.read()

        return await self.host.within(namespace, call)


async def _address(host, port):
    """The address that a name has here."""
    found = await trio.socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_DGRAM)
    return found[0][4][0]


ROPE = TunnelProvider(
    name="rope",
    build=Rope,
    encrypted=False,
    on_request=True,
    overhead=48,
    port=PORT,
    config_type=Settings,
)
