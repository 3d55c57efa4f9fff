"""Finds the HTTP proxy for a host in the environment variables that most programs use. Pure."""

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

NONE = "none"
"""Setting for no proxy, also where the environment names one."""


def problem(url: str) -> str | None:
    """The reason why a URL is no proxy, as a clause without its password; None where it is one."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1) > 0
    except ValueError:
        good = False
    return None if good else "a proxy is http://[user:password@]host:port, or https://…"


def of_environment(host: str, environment: Mapping[str, str]) -> str:
    """The proxy for a host by ``HTTPS_PROXY`` and ``NO_PROXY``; :data:`NONE` where there is none.

    They are read as by programs in Go, which are the most common: in ``NO_PROXY`` a name matches
    itself and all names below it, one with a dot before it those below it; prefixes work, a port
    after a name is ignored, and ``*`` matches all.
    """
    found = environment.get("HTTPS_PROXY") or environment.get("https_proxy") or ""
    found = found if "://" in found or not found else f"http://{found}"
    if not found or problem(found) is not None:
        return NONE
    without = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    if any(_covers(each.strip().lower(), host.lower()) for each in without.split(",")):
        return NONE
    return found


def _covers(pattern: str, host: str) -> bool:
    if not pattern:
        return False
    if pattern == "*":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        name = pattern.partition(":")[0].removeprefix("*")
        return host.endswith(name) if name.startswith(".") else _below(host, name)
    try:
        return address in ip_network(pattern, strict=False)
    except ValueError:
        return False


def _below(host: str, name: str) -> bool:
    return host == name or host.endswith(f".{name}")
