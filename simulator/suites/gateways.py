"""Two gateways in network namespaces: the machines of the contract suite of tunnel backends."""

import errno
import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from liqod.network.dataplane.kernel.namespaces import inside
from liqod.plugins.providers import TUNNEL_ADDRESSES, Place, Side, TunnelServices

R = TypeVar("R")
UNDERLAY: Mapping[Side, str] = {"server": "198.51.100.1", "client": "198.51.100.2"}
"""The gateways' own addresses; those of RFC 5737 for documentation."""
SIXES: Mapping[Side, str] = {"server": "fd00:18::1", "client": "fd00:18::2"}
"""Addresses of the other family on the tunnel."""
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2


class Gateway:
    """One side: where its packets travel, and the namespace in place of its peer's.

    Attributes:
        side: which one.
        underlay, inside: names of the two namespaces.
        place: of the tunnel.
        services: what the backend is given.
    """

    def __init__(self, side: Side, tag: str, folder: Path) -> None:
        self.side = side
        self.underlay, self.inside = f"lqc{tag}{side[0]}u", f"lqc{tag}{side[0]}i"
        self.place = Place(
            interface=f"lqc{tag}{side[0]}", namespace=self.inside, underlay=self.underlay
        )
        self.folder = folder / side
        self.folder.mkdir()
        self.services = TunnelServices(cluster_id=side, host=Machine(), folder=str(self.folder))

    async def addresses(self) -> None:
        """Give the tunnel its addresses, as the caller of a backend does."""
        for address, length in ((TUNNEL_ADDRESSES[self.side], 30), (SIXES[self.side], 64)):
            more = ("nodad",) if ":" in address else ()
            interface = self.place.interface
            words = ("addr", "replace", f"{address}/{length}", "dev", interface, *more)
            await trio.to_thread.run_sync(partial(ip, "-n", self.inside, *words))

    async def socket(self, family: socket.AddressFamily) -> trio.socket.SocketType:
        """A UDP socket at the tunnel, on port 7."""
        address = (TUNNEL_ADDRESSES if family == socket.AF_INET else SIXES)[self.side]

        def bound() -> socket.socket:
            made = socket.socket(family, socket.SOCK_DGRAM)
            # No packet is to get through in pieces that are small enough.
            try:
                made.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
                made.bind((address, 7))
            except BaseException:
                made.close()
                raise
            return made

        found = await self.services.host.within(self.inside, bound)
        return trio.socket.from_stdlib_socket(found)

    async def index(self) -> int | None:
        """Number of the tunnel's interface; None where there is none."""

        def look() -> int | None:
            try:
                return socket.if_nametoindex(self.place.interface)
            except OSError:
                return None

        return await self.services.host.within(self.inside, look)

    def processes(self) -> dict[int, str]:
        """Ids and command lines of what runs in either namespace."""
        return {
            process: line
            for name in (self.underlay, self.inside)
            for process in map(int, ip("netns", "pids", name).split())
            if (line := _command_line(process))
        }


class Machine:
    """This machine, for a backend under test."""

    async def within(self, namespace: str, function: Callable[[], R], /) -> R:
        """As :meth:`liqod.plugins.providers.Host.within`."""
        return await inside(namespace or None, function)


@contextmanager
def network() -> Iterator[str]:
    """Two gateways that reach each other, and a namespace for a peer at each; gives their tag."""
    tag = secrets.token_hex(3)
    names = [f"lqc{tag}{side}{kind}" for side in "sc" for kind in "ui"]
    try:
        for name in names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        here, there = f"lqc{tag}su", f"lqc{tag}cu"
        ip("-n", here, "link", "add", "u0", "type", "veth", "peer", "name", "u0", "netns", there)
        for name, address in ((here, UNDERLAY["server"]), (there, UNDERLAY["client"])):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "u0")
            # Or the kernel would look for routers and neighbours while packets are counted.
            ip("-n", name, "link", "set", "u0", "addrgenmode", "none")
            ip("-n", name, "link", "set", "u0", "up")
        yield tag
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def sent(gateway: Gateway) -> int:
    """Packets that have left the underlay of a side."""
    said = ip("-n", gateway.underlay, "-s", "-o", "link", "show", "up")
    lines = [line for line in said.splitlines() if " lo:" not in line]
    return sum(int(line.rpartition("TX:")[2].split("\\")[1].split()[1]) for line in lines)


def sockets() -> list[Path]:
    """The sockets of userspace WireGuards, for the whole machine."""
    return list(Path("/var/run/wireguard").glob("*"))


def _command_line(process: int) -> str:
    try:
        said = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return ""
    return said.replace(b"\0", b" ").decode(errors="replace")


def needs_root() -> None:
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip` of iproute2")
    if os.geteuid() != 0:
        pytest.skip("it needs root, for network namespaces")
    answer = subprocess.run(["ip", "netns", "list"], capture_output=True, check=False)
    if answer.returncode:
        pytest.skip("there are no network namespaces here")


def ip(*words: str) -> str:
    """Run `ip` and return its output. Raises OSError with its error."""
    answer = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if answer.returncode:
        raise OSError(errno.EIO, f"ip {' '.join(words)}: {answer.stderr.strip()}")
    return answer.stdout
