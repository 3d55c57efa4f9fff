"""Netlink: requests and their answers, dumps, and attributes, over one blocking socket.

The socket belongs to the network namespace that it was made in. The meaning of messages is not
known here (see ``links``, ``routing`` and ``ruleset`` in :mod:`liqod.network.dataplane.kernel`).

Changes by rtnetlink are encoded by pyroute2, whose messages have the kernel's names. The socket
and all that is read are our own: where pyroute2 read it, an unchanged plan took 4 times as long
among 128 peers, a list of links 9 times and an event 12 times. An ``IPRoute`` is slower still: it
runs an event loop of asyncio in each thread, and it waits without a deadline.
"""

import errno
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from functools import cache
from types import TracebackType
from typing import Any

from liqod.errors import NetworkError

ROUTE, NETFILTER = 0, 12
"""Families of netlink."""

REQUEST, ACK, DUMP = 0x1, 0x4, 0x300
REPLACE, EXCLUSIVE, CREATE = 0x100, 0x200, 0x400
"""Flags of requests, as in ``linux/netlink.h``."""

HEADER = struct.Struct("=IHHII")
ATTRIBUTE = struct.Struct("=HH")
NESTED = 0x8000
MASK = 0x3FFF

ERROR, DONE = 2, 3
_SOL_NETLINK, _EXT_ACK, _STRICT = 270, 11, 12
_CAPPED, _TLVS = 0x100, 0x200
_INTERRUPTED = 0x10
BUFFER = 1 << 16
Attribute = tuple[str, object]
"""An attribute of a change: its name, which is the kernel's, and its value."""
DEADLINE = 5.0
"""Seconds within which the kernel answers, or something is wrong."""
TRIES = 5
"""Times that a dump is begun anew because the kernel's state changed under it."""


class NetlinkRefused(NetworkError):
    """The kernel refuses a request.

    Attributes:
        errno: the reason, as in :mod:`errno`.
        doing: the change that was to be made, where known.
    """

    def __init__(self, code: int, hint: str = "") -> None:
        super().__init__(f"{os.strerror(code)}{f' ({hint})' if hint else ''}")
        self.errno = code
        self.doing = ""

    def __str__(self) -> str:
        said = super().__str__()
        return f"{self.doing}: {said}" if self.doing else said


class _Interrupted(Exception):
    """The kernel's state changed while it was read: the result may be of both."""


class Netlink:
    """A socket for requests, in the namespace of the thread that makes it."""

    def __init__(self, family: int = ROUTE) -> None:
        try:
            self._socket = socket.socket(
                socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, family
            )
            self._socket.setsockopt(_SOL_NETLINK, _EXT_ACK, 1)
            if family == ROUTE:
                # The kernel filters dumps by their request, and reports where it cannot.
                self._socket.setsockopt(_SOL_NETLINK, _STRICT, 1)
            self._socket.bind((0, 0))
            self._socket.settimeout(DEADLINE)
        except OSError as error:
            raise NetworkError(f"netlink: {error}") from error
        self._sequence = 0

    def __enter__(self) -> "Netlink":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def request(self, kind: int, flags: int, body: bytes) -> None:
        """Requests a change and waits until it is made.

        Raises:
            Refused: it is not.
        """
        self._send(kind, flags | REQUEST | ACK, body)
        for _ in self._answers():
            pass

    def change(self, kind: int, flags: int, /, *attributes: Attribute, **fields: int) -> None:
        """Requests a change by rtnetlink, as :func:`encoded`, and waits until it is made.

        Raises:
            Refused: it is not.
        """
        self.request(kind, flags, encoded(kind, *attributes, **fields))

    def get(self, kind: int, body: bytes) -> bytes:
        """The one answer to a question.

        Raises:
            Refused: there is none.
        """
        self._send(kind, REQUEST | ACK, body)
        answers = [body for _, body in self._answers()]
        return answers[0]

    def dump(self, kind: int, body: bytes) -> list[bytes]:
        """All objects of a kind.

        Raises:
            Refused: the kernel does not list them.
        """
        for _ in range(TRIES):
            self._send(kind, REQUEST | DUMP, body)
            try:
                return [body for _, body in self._answers()]
            except _Interrupted:
                continue
        raise NetworkError("netlink: the kernel's state changes faster than it can be read")

    def batch(self, messages: list[tuple[int, int, bytes]]) -> None:
        """Sends messages at once, of which the last requests an answer.

        Raises:
            Refused: one of them was.
        """
        parts = []
        for kind, flags, body in messages:
            self._sequence += 1
            size = HEADER.size + len(body)
            parts.append(HEADER.pack(size, kind, flags | REQUEST, self._sequence, 0) + body)
            parts.append(bytes(-size % 4))
        self._transmit(b"".join(parts))

    def acknowledged(self) -> None:
        """Waits for the answer to what :meth:`batch` sent."""
        for _ in self._answers(any_sequence=True):
            pass

    def _send(self, kind: int, flags: int, body: bytes) -> None:
        self._sequence += 1
        size = HEADER.size + len(body)
        self._transmit(HEADER.pack(size, kind, flags, self._sequence, 0) + body)

    def _transmit(self, data: bytes) -> None:
        try:
            self._socket.send(data)
        except OSError as error:
            raise NetlinkRefused(error.errno or errno.EIO) from error

    def _answers(self, *, any_sequence: bool = False) -> Iterator[tuple[int, bytes]]:
        """The kernel's answers to the last request, until the message that ends them."""
        torn = False
        while True:
            try:
                data = self._socket.recv(BUFFER)
            except OSError as error:
                # Also after the deadline. Later messages belong to no later request's number.
                raise NetworkError(f"netlink: no answer: {error}") from error
            for kind, flags, sequence, body in messages(data):
                if sequence != self._sequence and not any_sequence:
                    continue
                torn = torn or bool(flags & _INTERRUPTED)
                if kind == ERROR:
                    _judge(flags, body)
                    return
                if kind == DONE:
                    if (code := -struct.unpack_from("=i", body)[0]) > 0:
                        raise NetlinkRefused(code)
                    if torn:
                        raise _Interrupted
                    return
                yield kind, body


def encoded(kind: int, /, *attributes: Attribute, **fields: int) -> bytes:
    """The body of a request by rtnetlink, encoded by pyroute2.

    Args:
        kind: of the message, as in ``linux/rtnetlink.h``.
        attributes: of the message, in their order.
        fields: of the message's head; those left out are 0.

    Raises:
        ValueError: the message has no such attribute or field, which pyroute2 would leave out.
    """
    message = _messages()[kind]()
    unknown = fields.keys() - {name for name, _ in message.fields}
    unknown |= {name for name, _ in attributes if not message.valid_nla(name)}
    if unknown:
        raise ValueError(f"{type(message).__name__} has no {', '.join(sorted(unknown))}")
    message.update(fields)
    message["attrs"] = list(attributes)
    message.encode()
    return bytes(message.data[HEADER.size :])


def inside(*attributes: Attribute) -> dict[str, object]:
    """The value of an attribute that is made of attributes, for :func:`encoded`."""
    return {"attrs": list(attributes)}


@cache
def _messages() -> Mapping[int, Any]:
    """The messages of rtnetlink as pyroute2 has them, by their kinds."""
    # 10 MB, and a tenth of a second: a daemon that changes no kernel has neither.
    from pyroute2.netlink.rtnl.marshal import MarshalRtnl

    found: Mapping[int, Any] = MarshalRtnl.msg_map
    return found


def messages(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Kind, flags, number and body of each message that was received at once."""
    at = 0
    while at + HEADER.size <= len(data):
        size, kind, flags, sequence, _ = HEADER.unpack_from(data, at)
        if size < HEADER.size:
            return
        yield kind, flags, sequence, data[at + HEADER.size : at + size]
        at += (size + 3) & ~3


def attribute(kind: int, data: bytes) -> bytes:
    """One attribute, padded."""
    return ATTRIBUTE.pack(ATTRIBUTE.size + len(data), kind) + data + bytes(-len(data) % 4)


def number(kind: int, value: int) -> bytes:
    """An attribute of 32 bits."""
    return ATTRIBUTE.pack(8, kind) + struct.pack("=I", value)


def text(kind: int, value: str) -> bytes:
    """An attribute of text, which ends with a zero."""
    return attribute(kind, value.encode() + b"\0")


def nest(kind: int, *inside: bytes) -> bytes:
    """An attribute made of attributes."""
    return attribute(kind | NESTED, b"".join(inside))


def pairs(data: bytes, at: int = 0) -> Iterator[tuple[int, bytes]]:
    """The attributes from an offset on, in their order."""
    while at + ATTRIBUTE.size <= len(data):
        size, kind = ATTRIBUTE.unpack_from(data, at)
        if size < ATTRIBUTE.size:
            return
        yield kind & MASK, data[at + ATTRIBUTE.size : at + size]
        at += (size + 3) & ~3


def attributes(data: bytes, at: int = 0) -> dict[int, bytes]:
    """The attributes from an offset on, by their kind; the last one of each."""
    return dict(pairs(data, at))


def read_number(data: bytes | None, default: int = 0) -> int:
    """A number of 32 bits in this machine's order."""
    return default if data is None else int(struct.unpack_from("=I", data)[0])


def read_text(data: bytes | None) -> str:
    """Text without the zero that ends it."""
    return "" if data is None else data.rstrip(b"\0").decode(errors="replace")


def _judge(flags: int, body: bytes) -> None:
    """Raises the error in an answer, if it has one."""
    code = -struct.unpack_from("=i", body)[0]
    if code == 0:
        return
    hint = ""
    if flags & _TLVS:
        # The request is repeated first: its header only where it is capped.
        size = 4 + (HEADER.size if flags & _CAPPED else struct.unpack_from("=I", body, 4)[0])
        hint = read_text(attributes(body, (size + 3) & ~3).get(1))
    raise NetlinkRefused(code, hint)
