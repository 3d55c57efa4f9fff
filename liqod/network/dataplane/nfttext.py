"""Parts of which the text of nftables is made. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from liqod.network.dataplane.families import Family, families, of_family

ADDRESS: Final[dict[Family, str]] = {4: "ip", 6: "ip6"}
TYPE: Final[dict[Family, str]] = {4: "ipv4_addr", 6: "ipv6_addr"}


def chain(name: str, hook: str, rules: list[str]) -> list[str]:
    """A chain; one without a hook is for others to jump to."""
    head = [f"{hook};"] if hook else []
    return [f"chain {name} {{", *head, *rules, "}"]


def braces(elements: Iterable[str]) -> str:
    """A set that has no name."""
    return "{ " + ", ".join(elements) + " }"


def maps(name: str, hosts: Mapping[str, str]) -> list[str]:
    """A map of each family from external addresses to the hosts that these lead to."""
    lines: list[str] = []
    for each in families(*hosts):
        pairs = ", ".join(f"{shown} : {hosts[shown]}" for shown in of_family(each, sorted(hosts)))
        lines += (
            f"map {name}{each} {{",
            f"type {TYPE[each]} : {TYPE[each]}",
            f"elements = {{ {pairs} }}",
            "}",
        )
    return lines
