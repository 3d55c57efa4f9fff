"""HTTP proxies on the way to an API server: a tunnel made with ``CONNECT``, for all that goes on.

TLS to the API server is made inside the tunnel, so a proxy sees which server is asked for and
nothing else. A proxy's URL may hold a user and a password: it is shown without them, in errors and
everywhere.
"""

import base64
import ssl
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from liqod.errors import ConfigError, ProtocolError, Unconnected, Unreachable
from liqod.kube.http.wire import TlsWire, Wire

MAX_HEAD: Final = 16384
"""Bytes of a proxy's answer."""
PORTS: Final = {"http": 80, "https": 443}

Dial = Callable[[str, int], Awaitable[Wire]]


def check(url: str, where: str) -> None:
    """Refuse what is no HTTP proxy's URL. Raises ConfigError, which begins with ``where``."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigError(f"{where}: proxy-url is not a URL") from None
    if parts.scheme not in PORTS:
        kind = f"{parts.scheme} proxies are" if parts.scheme.isalnum() else "that is"
        raise ConfigError(f"{where}: proxy-url: {kind} not supported, http:// and https:// are")
    plain = url.isascii() and url.isprintable() and " " not in url
    if not plain or not parts.hostname or port == 0 or parts.path not in ("", "/") or parts.query:
        raise ConfigError(f"{where}: proxy-url must be http://HOST:PORT or https://HOST:PORT")


def shown(url: str) -> str:
    """A proxy's URL without its user and password; empty where there is none to show."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{_place(parts)}" if parts.hostname else ""
    except ValueError:
        return ""


def through(dial: Dial, proxy: str | None) -> Dial:
    """What makes connections by way of a proxy; ``dial`` itself where there is none.

    Args:
        dial: makes TCP connections.
        proxy: URL that :func:`check` let pass.
    """
    if proxy is None:
        return dial
    parts = urlsplit(proxy)

    async def connect(host: str, port: int) -> Wire:
        wire = await dial(parts.hostname or "", parts.port or PORTS[parts.scheme])
        try:
            if parts.scheme == "https":
                wire = await _secured(wire, parts.hostname or "")
            await _tunnel(wire, parts, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        except BaseException:
            wire.close()
            raise
        return wire

    return connect


async def _secured(wire: Wire, host: str) -> Wire:
    """TLS to the proxy itself, by the system's authorities."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    secured = TlsWire(wire, context, host)
    await secured.handshake()
    return secured


async def _tunnel(wire: Wire, proxy: SplitResult, target: str) -> None:
    """Have the proxy connect to the target. Raises Unreachable or ProtocolError."""
    name = f"the proxy {_place(proxy)}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.username is not None:
        who = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(who.encode()).decode()}")
    await wire.send(("\r\n".join(lines) + "\r\n\r\n").encode("ascii"))
    head = b""
    while b"\r\n\r\n" not in head:
        data = await wire.receive()
        if not data:
            raise Unreachable(f"{name} closed the connection")
        head += data
        if len(head) > MAX_HEAD:
            raise ProtocolError(f"{name} answers more than a head")
    first, _, _ = head.partition(b"\r\n")
    words = first.split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise ProtocolError(f"{name} does not answer in HTTP")
    status = int(words[1])
    if status == 407:
        raise Unconnected(f"{name} asks for another user and password")
    if not 200 <= status < 300:
        raise Unconnected(f"{name} makes no connection to {target}: it answers {status}")
    if not head.endswith(b"\r\n\r\n"):
        raise ProtocolError(f"{name} sends what nobody asked for")


def _place(parts: SplitResult) -> str:
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return host if parts.port is None else f"{host}:{parts.port}"
