"""Recordings: a daemon's messages as they came, one on each line, beginning with its greeting.

Their ``at`` says when to play each; what has none is played with the message before it. A line of
the type ``lost`` is this program's own: the connection was gone. A recording holds what the
inspector shows, which has no secrets.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from liqod.inspect.protocol import InspectorHello, ServerMessage, Unreadable, encode, read_server
from tui.session import Lost

LONGEST_LINE = 16 * 1024 * 1024


class BadRecording(ValueError):
    """A file is no recording; the text says where and why."""


class _Loss(msgspec.Struct, frozen=True, tag="lost", tag_field="type"):
    at: float
    reason: str


def new_file(path: Path) -> BinaryIO:
    """A file that is its owner's; raises OSError where there is one, or a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return open(os.open(path, flags, 0o600), "wb")


class Recorder:
    """Writes what it is given to a new file, readable by its owner.

    Raises OSError where there is one already, or a link: nothing of others is written over.

    Args:
        path: of the file.
        opened: opens it.
    """

    def __init__(self, path: Path, opened: Callable[[Path], BinaryIO] = new_file) -> None:
        self.path = path.absolute()
        self._file = opened(path)

    def add(self, message: ServerMessage | Lost) -> None:
        """One message more; raises OSError where it cannot be written, which ends the file."""
        if isinstance(message, Lost):
            line = msgspec.json.encode(_Loss(message.at, message.reason))
        else:
            line = encode(message)
        try:
            self._file.write(line + b"\n")
            self._file.flush()
        except OSError:
            with suppress(OSError):  # what is left of the line cannot be written either
                self.close()
            raise

    def close(self) -> None:
        """Finish the file."""
        self._file.close()


def load(path: Path) -> Iterator[ServerMessage | Lost]:
    """The messages of a recording, read as they are asked for.

    Raises:
        OSError: the file cannot be read.
        BadRecording: it is something else; for a later line, while it is iterated.
    """
    messages = _messages(path, path.open("rb"))
    try:
        head = next(messages, None)
    except BadRecording as error:
        raise BadRecording(f"{path} is not a recording of liqod top ({error})") from error
    if not isinstance(head, InspectorHello):
        raise BadRecording(f"{path} is not a recording of liqod top: it begins without a greeting")
    return _after(head, messages)


def _after(
    head: InspectorHello, rest: Iterator[ServerMessage | Lost]
) -> Iterator[ServerMessage | Lost]:
    yield head
    yield from rest


def _messages(path: Path, file: BinaryIO) -> Iterator[ServerMessage | Lost]:
    with file:
        number = 0
        while line := file.readline(LONGEST_LINE):
            number += 1
            if not line.endswith(b"\n"):
                return  # the recorder was killed in the middle of a line
            try:
                message = _read(line)
            except (msgspec.DecodeError, Unreadable) as error:
                raise BadRecording(f"{path}, line {number}: {error}") from error
            if message is not None:
                yield message


def _read(line: bytes) -> ServerMessage | Lost | None:
    message = read_server(line)
    if message is None and b'"lost"' in line:
        loss = msgspec.json.decode(line, type=_Loss)
        return Lost(loss.reason, loss.at)
    return message
