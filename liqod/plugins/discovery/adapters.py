"""The network interfaces of this machine by which other clusters may be reached."""

import contextlib
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import ifaddr

from liqod.errors import TransientError
from liqod.plugins.providers import MOST_ADDRESSES

LINKS: Final = Path("/sys/class/net")
ROUTES: Final = Path("/proc/net/route")
EVERYWHERE: Final = "00000000"
"""How the latter writes the destination of a default route."""
IFF_LOOPBACK, IFF_NOARP = 0x8, 0x80

Adapter = tuple[str, int | None, tuple[str, ...]]
"""The name of an interface, its index and its addresses."""


def adapters(names: Sequence[str] = ()) -> tuple[Adapter, ...]:
    """The interfaces that are used.

    Args:
        names: of those; if empty, those that lead out, or all where none does.

    Raises:
        TransientError: there is none with an address.
    """
    found: list[Adapter] = []
    for adapter in ifaddr.get_adapters():
        if names and adapter.name not in names:
            continue
        ips: Any = tuple(each.ip if each.is_IPv4 else each.ip[0] for each in adapter.ips)
        if ips:
            found.append((adapter.name, adapter.index, ips))
    if not found:
        named = ", ".join(names)
        raise TransientError(f"there is no interface {named}".rstrip() + " with an address")
    if not names:
        found = [each for each in found if is_external(each[0])] or found
    return tuple(sorted(found))


def is_external(name: str, links: Path = LINKS, routes: Path = ROUTES) -> bool:
    """True for an interface by which others may be reached, as far as is known of it.

    None of these: the loopback and what has no neighbours (addresses of Services are on such), and
    the host's ends of pods' pairs. In a pod itself such a pair is the way out.

    Args:
        name: of the interface.
        links: what the kernel shows of interfaces.
        routes: its routes of IPv4.
    """

    def read(what: str) -> str:
        with contextlib.suppress(OSError):
            return (links / name / what).read_text()
        return ""

    flags = int(read("flags").strip() or "0", 16)
    if flags & (IFF_LOOPBACK | IFF_NOARP):
        return False
    pair = read("iflink") != read("ifindex") and "DEVTYPE" not in read("uevent")
    if not pair:
        return True
    lines = routes.read_text().splitlines()[1:] if routes.exists() else []
    ways = {way for way, to, *_ in map(str.split, lines) if to == EVERYWHERE}
    return not ways or name in ways


def zeroconf_interfaces(adapters: Sequence[Adapter]) -> list[str | int]:
    """The interfaces as zeroconf wants them: addresses of IPv4, indexes for IPv6."""
    choice: list[str | int] = []
    for _, index, ips in adapters:
        choice += [each for each in ips if ":" not in each]
        # Of the loopback's there is no multicast.
        if any(":" in each and each != "::1" for each in ips) and index is not None:
            choice.append(index)
    return choice


def addresses(adapters: Sequence[Adapter]) -> list[str]:
    """The addresses of this machine that others may try."""
    every = [ipaddress.ip_address(each) for _, _, ips in adapters for each in ips]
    beyond = [each for each in every if not each.is_loopback and not each.is_link_local]
    return [str(each) for each in beyond or every][:MOST_ADDRESSES]
