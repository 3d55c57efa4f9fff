"""Through an HTTP proxy by CONNECT (RFC 9110 §9.3.6)."""

import ssl
from base64 import b64encode
from typing import Final
from urllib.parse import unquote, urlsplit

import trio

from liqod.model.endpoints import join
from liqod.tunnel.tunnelsession import ConnectionFailed

MOST: Final = 16384
"""Bytes of a proxy's answer."""


class HttpProxy:
    """A proxy, by its URL: ``http[s]://[user:password@]host[:port]``.

    Raises:
        ValueError: it is no such URL; the text does not repeat it, since it may hold a password.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("a proxy is http://host:port or https://host:port")
        self.host = parts.hostname
        self.encrypted = parts.scheme == "https"
        self.port = parts.port or (443 if self.encrypted else 80)
        self._user = unquote(parts.username or "")
        self._password = unquote(parts.password or "")

    def __repr__(self) -> str:
        return f"{self.host}:{self.port}"

    def request(self, host: str, port: int) -> bytes:
        """The CONNECT request for a connection to a host through this proxy."""
        to = join(host, port)
        lines = [f"CONNECT {to} HTTP/1.1", f"Host: {to}"]
        if self._user:
            words = b64encode(f"{self._user}:{self._password}".encode()).decode()
            lines.append(f"Proxy-Authorization: Basic {words}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def connect(
    stream: trio.abc.Stream, proxy: HttpProxy, host: str, port: int, authority: str
) -> trio.abc.Stream:
    """Have a proxy connect a stream with another host.

    Args:
        stream: a connection to the proxy.
        proxy: the proxy.
        host, port: the destination.
        authority: certificates of its issuers, in PEM; empty for the system's.

    Raises:
        Failed: why it does not.
    """
    if proxy.encrypted:
        try:
            trust = ssl.create_default_context(cadata=authority or None)
        except ssl.SSLError as error:
            raise ConnectionFailed(f"proxy_ca: {error.reason or error}") from None
        stream = trio.SSLStream(stream, trust, server_hostname=proxy.host, https_compatible=True)
    try:
        await stream.send_all(proxy.request(host, port))
        answer = b""
        # Byte by byte, so that nothing is taken of what comes behind the answer's end.
        while not answer.endswith(b"\r\n\r\n"):
            more = await stream.receive_some(1)
            if not more or len(answer) > MOST:
                raise ConnectionFailed(f"the proxy {proxy} gives no answer that HTTP knows")
            answer += more
    except trio.BrokenResourceError as error:
        raise ConnectionFailed(f"the proxy {proxy}: {error.__cause__ or error}") from None
    problem = refusal(answer, proxy, f"{host}:{port}")
    if problem is not None:
        raise ConnectionFailed(problem)
    return stream


def refusal(answer: bytes, proxy: HttpProxy, wanted: str) -> str | None:
    """Why a proxy does not connect, of its answer; None where it does."""
    words = answer.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdecimal():
        return f"what answers as the proxy {proxy} speaks no HTTP"
    status, said = words[1], "".join(each for each in " ".join(words[1:]) if each.isprintable())
    if status == "200":
        return None
    if status == "407":
        return f"the proxy {proxy} wants a user and a password, or others ({said[:80]})"
    return f"the proxy {proxy} does not connect to {wanted} ({said[:80]})"
