"""Connects to an API server through an HTTP proxy: a ``CONNECT`` tunnel for all traffic.

TLS to the API server is made inside the tunnel, so a proxy sees the name of the requested server
and nothing else. A proxy's URL may hold a user and a password: it is shown without them, in errors
and everywhere.

Instead of a proxy the URL may name a listener of another daemon, ``liqod://[KEY@]HOST:PORT``: an
open channel to it leads to the API server beside it. ``liqod://KEY@``, without an address,
is a daemon that opens that channel itself. :data:`CHANNELS` connects by such channels.
"""

import base64
import re
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from liqod.errors import ConfigError, ProtocolError, Unconnected, Unreachable
from liqod.kube.http.wire import TlsWire, Wire

MAX_HEAD: Final = 16384
"""Bytes of a proxy's response."""
PORTS: Final = {"http": 80, "https": 443}

CHANNEL: Final = "liqod://"
"""Prefix of the URL of a listener."""
_ADDRESS: Final = r"(\[[0-9A-Fa-f:.]{2,64}\]|[A-Za-z0-9_][A-Za-z0-9._-]{0,252}):[0-9]{1,5}"
_LISTENER: Final = re.compile(f"{CHANNEL}(([0-9a-f]{{64}})@)?({_ADDRESS}(,{_ADDRESS}){{0,15}})/?")
_DIALS: Final = re.compile(f"{CHANNEL}([0-9a-f]{{64}})@")
SHOWN: Final = 16
"""Digits of a key that are shown."""

Dial = Callable[[str, int], Awaitable[Wire]]
"""Makes a connection to a host and port. Raises Unreachable."""

Channels = Callable[[str], Awaitable[Wire]]

CHANNELS: ContextVar[Channels | None] = ContextVar("CHANNELS", default=None)
"""Makes a connection over the channel to a listener, given its URL; tasks inherit it, so that each
of several daemons in one process has its own. It raises Unconnected or Unauthorized."""


def check(url: str, where: str, *, channels: bool = False) -> None:
    """Refuse a URL that is no proxy's. Raises ConfigError, which begins with ``where``.

    Args:
        url: URL of an HTTP proxy.
        where: the setting that holds it.
        channels: whether it may be a listener's.
    """
    if channels and url.startswith(CHANNEL):
        if not _LISTENER.fullmatch(url) and not _DIALS.fullmatch(url):
            raise ConfigError(f"{where}: proxy-url must be {CHANNEL}HOST:PORT, or an HTTP proxy's")
        return
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
    """A proxy's URL without its user and password; empty if there is none."""
    listener = _LISTENER.fullmatch(url)
    if listener is not None:
        return f"{CHANNEL}{listener[3]}"
    dials = _DIALS.fullmatch(url)
    if dials is not None:
        return f"{CHANNEL}{dials[1][:SHOWN]}…@"
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{_place(parts)}" if parts.hostname else ""
    except ValueError:
        return ""


def listener_of(url: str) -> tuple[str, tuple[str, ...]]:
    """The key (SHA-256, hexadecimal; empty for any) and the addresses of a listener, by its URL.

    There is no address if the other daemon dials.

    Args:
        url: a URL that :func:`check` accepted.
    """
    dials = _DIALS.fullmatch(url)
    if dials is not None:
        return dials[1], ()
    found = _LISTENER.fullmatch(url)
    assert found is not None
    return found[2] or "", tuple(found[3].split(","))


def dials_here(url: str | None) -> bool:
    """True for the URL of a cluster that dials this one's daemon: only this daemon reaches it."""
    return url is not None and _DIALS.fullmatch(url) is not None


def listener_url(key: str, addresses: Sequence[str]) -> str:
    """The URL of a listener.

    Args:
        key: SHA-256 of its public key, hexadecimal.
        addresses: ``HOST:PORT`` each, the best first; none if it dials.
    """
    return f"{CHANNEL}{key}@{','.join(addresses)}"


def through(dial: Dial, proxy: str | None, channels: Channels | None = None) -> Dial:
    """A dial function through a proxy; ``dial`` itself without one.

    Args:
        dial: makes TCP connections.
        proxy: URL that :func:`check` accepted.
        channels: for a listener's URL; None: :data:`CHANNELS` of the connecting task.
    """
    if proxy is None:
        return dial
    if proxy.startswith(CHANNEL):
        return partial(_by_channel, proxy, channels)
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


async def _by_channel(url: str, channels: Channels | None, host: str, port: int) -> Wire:
    """Connect over a channel: it leads to the listener's API server; host and port are ignored."""
    channels = channels or CHANNELS.get()
    if channels is None:
        raise Unconnected(f"{shown(url)} is a daemon's listener, and no channels are kept here")
    return await channels(url)


async def _secured(wire: Wire, host: str) -> Wire:
    """Start TLS to the proxy itself, with the system's authorities."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    secured = TlsWire(wire, context, host)
    await secured.handshake()
    return secured


async def _tunnel(wire: Wire, proxy: SplitResult, target: str) -> None:
    """Request a tunnel to the target from the proxy. Raises Unreachable or ProtocolError."""
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
