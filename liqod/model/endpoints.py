"""Parses and writes endpoints, ``HOST:PORT``. Pure."""

import ipaddress
import re

_NAME = re.compile(r"[a-z0-9_]([-a-z0-9_]*[a-z0-9])?(\.[a-z0-9_]([-a-z0-9_]*[a-z0-9])?)*")
LONGEST_NAME = 253
"""Characters of a DNS name (RFC 1035)."""


def split(text: str) -> tuple[str, int] | None:
    """Host and port of ``name:port``, ``address:port`` or ``[v6]:port``; None where it is none.

    An IPv6 address may have a zone (``[fe80::1%eth0]:6446``).
    """
    host, colon, digits = text.rpartition(":")
    if not colon or not digits.isascii() or not digits.isdigit() or len(digits) > 5:
        return None
    port = int(digits)
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    good = _is_v6(host) if bracketed else is_host(host) and ":" not in host
    return (host, port) if good and 0 < port < 65536 else None


def join(host: str, port: int) -> str:
    """The text that :func:`split` reads; ``host`` is a name or an address without brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_host(host: str) -> bool:
    """True if the text is a DNS name, or an address of either family."""
    if len(host) > LONGEST_NAME:
        return False
    return bool(_NAME.fullmatch(host.rstrip(".").lower())) or _is_v6(host)


def _is_v6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False
