"""Network namespaces for tests, and what a program sees in them."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from liqod.network.dataplane.kernel import capabilities, namespaces
from tests.testbed.errors import Unavailable
from tests.testbed.machine import run


class Networks:
    """Makes namespaces with names of their own; `destroy` takes away all that a test left."""

    def __init__(self) -> None:
        if (missing := capabilities.look()) is not None:
            raise Unavailable(f"no network namespaces: {missing}")
        if shutil.which("ip") is None:
            raise Unavailable("no program ip (package iproute2)")
        self._made: list[str] = []

    def make(self, label: str) -> str:
        """A new namespace, with its loopback device up; its name."""
        name = f"t{secrets.token_hex(3)}-{label}"
        run("ip", "netns", "add", name)
        self._made.append(name)
        run("ip", "-n", name, "link", "set", "lo", "up")
        return name

    def adopt(self, name: str) -> str:
        """Has a namespace that a test makes under this name taken away, too."""
        self._made.append(name)
        return name

    def destroy(self) -> None:
        """Takes away the namespaces that are still there."""
        there = run("ip", "netns", "list").split()
        for name in self._made:
            if name in there:
                run("ip", "netns", "delete", name)


@contextmanager
def doorway(name: str, port: int) -> Iterator[None]:
    """A port of a namespace's loopback device that leads to the same one of this machine.

    Of a namespace with no other network it is the only way out.
    """

    def opened() -> socket.socket:
        return socket.create_server(("127.0.0.1", port), backlog=64)

    listening = namespaces.enter(name, opened)
    ends: list[socket.socket] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                one, _ = listening.accept()
                other = socket.create_connection(("127.0.0.1", port))
                ends.extend((one, other))
                for pair in ((one, other), (other, one)):
                    threading.Thread(target=_carry, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield
    finally:
        for each in (listening, *ends):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def _carry(source: socket.socket, target: socket.socket) -> None:
    """Carries bytes until one side ends, and then ends the other."""
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def inside(name: str, command: str) -> str:
    """The output of a command in a namespace; raises `TestbedError` where it fails."""
    return run("nsenter", f"--net=/run/netns/{name}", *command.split())


def fails(name: str, command: str) -> bool:
    """True if a command fails in a namespace."""
    entering = ["nsenter", f"--net=/run/netns/{name}", *command.split()]
    return subprocess.run(entering, capture_output=True, check=False).returncode != 0


def nft(name: str, text: str) -> None:
    """Gives `nft` a text in a namespace."""
    entering = ["nsenter", f"--net=/run/netns/{name}", "nft", "-f", "-"]
    subprocess.run(entering, input=text, text=True, check=True)


def state(name: str) -> dict[str, Any]:
    """All that the kernel has in a namespace, as `ip`, `bridge` and `nft` tell it: sorted, and
    without numbers that tell when something was made, or how much came by."""
    links = []
    for link in _json(name, "ip -d -j address"):
        said = {key: link.get(key) for key in ("ifname", "mtu", "address", "ifalias")}
        info = link.get("linkinfo", {})
        said["kind"] = info.get("info_kind")
        # A bridge's data are mostly timers.
        said["data"] = info.get("info_data") if said["kind"] == "vxlan" else None
        # Addresses that the kernel makes of link-layer addresses come and go by themselves.
        addresses = sorted(
            f"{address['local']}/{address['prefixlen']}"
            for address in link["addr_info"]
            if not (address.get("tentative") or address.get("protocol") == "kernel_ll")
        )
        links.append({**said, "up": "UP" in link["flags"], "addresses": addresses})
    routes = [
        {key: value for key, value in route.items() if key != "flags"}
        for family in ("-4", "-6")
        for route in _json(name, f"ip {family} -j route show table all")
        if route.get("table") != "local" and route.get("type") != "multicast"
        if route.get("protocol") != "kernel"
    ]
    rules = [rule for family in ("-4", "-6") for rule in _json(name, f"ip {family} -j rule")]
    neighbours = _json(name, "ip -j neigh show nud permanent")
    entries = [entry for entry in _json(name, "bridge -j fdb") if "dst" in entry]
    text = inside(name, "nft -s list ruleset")
    return {
        "links": _sorted(links),
        "routes": _sorted(routes),
        "rules": _sorted(rules),
        "neighbours": _sorted(neighbours),
        "forwarding": _sorted(entries),
        # Anonymous sets and the order of what is in a table are the text's.
        "nftables": sorted(re.findall(r"(?m)^table .*?^}", text, re.DOTALL)),
    }


def _json(name: str, command: str) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = json.loads(inside(name, command) or "[]")
    return [entry for entry in answer if entry]


def _sorted(entries: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(entry, sort_keys=True) for entry in entries)
