"""WireGuard's userspace protocol: text over the Unix socket of the process that has the interface.

Lines ``key=value``, keys of cryptography in hexadecimal, an empty line at the end; an answer ends
with ``errno=``. The socket is root's alone. Its answers hold the private key: no answer is kept,
logged or put into an error.
"""

import errno
import os
from pathlib import Path
from typing import Any

import trio

from liqod.plugins.network.device import Change, WireGuardDevice, WireGuardPeer, same_key
from liqod.runtime.unixpeer import unix_peer
from liqod.runtime.unixstream import connected

FOLDER = Path("/var/run/wireguard")
"""The folder of every implementation's sockets: the machine's, in every namespace."""
PATIENCE = 5.0
"""Seconds for an answer."""
LARGEST = 1 << 16
"""Bytes of an answer: an interface of ours has one peer."""


def path(interface: str, folder: Path = FOLDER) -> Path:
    """The socket of an interface."""
    return folder / f"{interface}.sock"


async def read(place: Path, private_key: bytes = b"") -> WireGuardDevice:
    """How an interface is.

    Args:
        place: its socket.
        private_key: the one to compare with.

    Raises:
        OSError: nobody answers there, or with an error.
    """
    return parsed(await _request(place, "get=1\n\n"), private_key)


async def write(place: Path, change: Change) -> None:
    """Change an interface. Raises OSError as :func:`read`."""
    parsed(await _request(place, encoded(change)))


async def process(place: Path) -> int | None:
    """Id of the process that listens at a socket; None where none of root's or this user's does.

    None also of one that accepts nothing.
    """
    try:
        stream = await connected(place, PATIENCE)
    except OSError:
        return None
    async with stream:
        peer = unix_peer(stream.socket)
    return peer.process if peer.trusted else None


def encoded(change: Change) -> str:
    """A change as text."""
    lines = ["set=1"]
    if change.private_key is not None:
        lines.append(f"private_key={change.private_key.hex()}")
    if change.port is not None:
        lines.append(f"listen_port={change.port}")
    if change.mark is not None:
        lines.append(f"fwmark={change.mark}")
    for peer in change.peers:
        lines.append(f"public_key={peer.public_key.hex()}")
        if peer.remove:
            lines.append("remove=true")
            continue
        if peer.endpoint is not None:
            lines.append(f"endpoint={peer.endpoint}")
        if peer.keepalive is not None:
            lines.append(f"persistent_keepalive_interval={peer.keepalive}")
        if peer.allowed is not None:
            lines.append("replace_allowed_ips=true")
            lines += [f"allowed_ip={each}" for each in peer.allowed]
    return "\n".join(lines) + "\n\n"


def parsed(text: str, private_key: bytes = b"") -> WireGuardDevice:
    """An answer as a value. Unknown keys are passed over: implementations differ.

    Raises:
        OSError: with the number in it; ``EPROTO`` for what is no answer.
    """
    keyed, port, mark = False, 0, 0
    number: int | None = None
    peers: list[dict[str, Any]] = []
    try:
        for line in text.splitlines():
            key, _, value = line.partition("=")
            if key == "errno":
                number = int(value)
            elif key == "private_key":
                keyed = same_key(bytes.fromhex(value), private_key)
            elif key == "public_key":
                peers.append({"public_key": bytes.fromhex(value), "allowed": []})
            elif not peers:
                port = int(value) if key == "listen_port" else port
                mark = int(value) if key == "fwmark" else mark
            elif key == "allowed_ip":
                peers[-1]["allowed"].append(value)
            else:
                peers[-1][key] = value
        found = tuple(_peer(each) for each in peers)
    except ValueError:
        raise OSError(errno.EPROTO, "what answers is no WireGuard") from None
    if number is None:
        raise OSError(errno.EPROTO, "the answer has no end")
    if number:
        raise OSError(abs(number), os.strerror(abs(number)))
    return WireGuardDevice(keyed=keyed, port=port, mark=mark, peers=found)


def _peer(said: dict[str, Any]) -> WireGuardPeer:
    whole, part = said.get("last_handshake_time_sec", 0), said.get("last_handshake_time_nsec", 0)
    return WireGuardPeer(
        public_key=said["public_key"],
        endpoint=said.get("endpoint", ""),
        keepalive=int(said.get("persistent_keepalive_interval", 0)),
        allowed=tuple(sorted(said["allowed"])),
        handshake=int(whole) + int(part) / 1e9,
        received=int(said.get("rx_bytes", 0)),
        sent=int(said.get("tx_bytes", 0)),
    )


async def _request(place: Path, text: str) -> str:
    """Raises OSError; its text names no more than the interface."""
    interface = place.stem
    try:
        with trio.fail_after(PATIENCE):
            async with await connected(place, PATIENCE) as stream:
                if not unix_peer(stream.socket).trusted:
                    # An unknown process is not to receive keys.
                    raise PermissionError(errno.EPERM, f"{interface}: somebody else listens there")
                await stream.send_all(text.encode())
                answer = b""
                async for part in stream:
                    answer += part
                    # The end of the answer, not of the connection, which may stay open.
                    if answer.endswith(b"\n\n") or len(answer) > LARGEST:
                        break
    except trio.TooSlowError:
        raise TimeoutError(
            errno.ETIMEDOUT, f"{interface}: no answer within {PATIENCE:.0f} s"
        ) from None
    except (trio.BrokenResourceError, UnicodeError):
        raise OSError(errno.EPIPE, f"{interface}: the connection broke") from None
    return answer.decode("ascii", "replace")
