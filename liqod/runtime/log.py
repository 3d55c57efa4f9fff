"""Logging: constant sentences with data beside them, prefixed by the peer they are about.

A line is date and time, level, peer and sentence; under systemd it carries the journal's ``<N>``
priority instead of the time; with ``LIQOD_LOG=json`` it is one JSON object, whose time has
milliseconds and a zone.
"""

import contextvars
import logging
import sys
import time
from collections.abc import Hashable, Mapping
from datetime import UTC, datetime
from typing import TextIO

import msgspec

from liqod.model.text import printable, printable_json
from liqod.model.view.redact import without_invitations

PEER: contextvars.ContextVar[str] = contextvars.ContextVar("peer", default="")
"""The peer that the current task works for; tasks and threads inherit it."""

_PRIORITIES = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class Seldom:
    """Limits repeated log messages, so that a lasting failure does not flood the log.

    Args:
        seconds: for which the same message is not repeated.
        kept: number of different messages that are remembered.
    """

    def __init__(self, seconds: float = 600.0, kept: int = 256) -> None:
        self._seconds = seconds
        self._kept = kept
        self._logged_at: dict[Hashable, float] = {}

    def allows(self, what: Hashable) -> bool:
        """True if this was not logged for a while; from now on it counts as logged."""
        now = time.monotonic()
        if now - self._logged_at.get(what, float("-inf")) < self._seconds:
            return False
        self._logged_at.pop(what, None)
        self._logged_at[what] = now
        if len(self._logged_at) > self._kept:
            del self._logged_at[next(iter(self._logged_at))]
        return True


def facts(record: logging.LogRecord) -> dict[str, object]:
    """The data beside a record's sentence."""
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


class Formatter(logging.Formatter):
    """One line a record; ``style`` is ``text``, ``journal`` or ``json``."""

    def __init__(self, style: str) -> None:
        super().__init__(datefmt="%Y-%m-%d %H:%M:%S")
        self.style = style

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, with a traceback below it where there is one."""
        return without_invitations(self._shown(record))

    def _shown(self, record: logging.LogRecord) -> str:
        peer = PEER.get()
        data = facts(record)
        if self.style == "json":
            whole = {
                "time": _moment(record.created),
                "level": record.levelname.lower(),
                "logger": record.name,
                "message": record.getMessage(),
                **({"peer": peer} if peer else {}),
                **({"error": self.formatException(record.exc_info)} if record.exc_info else {}),
                **data,
            }
            return printable_json(msgspec.json.encode(whole, enc_hook=str).decode())
        head = (
            f"<{_PRIORITIES.get(record.levelname, 6)}>"
            if self.style == "journal"
            else f"{self.formatTime(record, self.datefmt)} {record.levelname.lower():7} "
        )
        tail = "".join(f" {key}={value}" for key, value in data.items())
        said = printable(f"{f'[{peer}] ' if peer else ''}{record.getMessage()}{tail}")
        line = f"{head}{said}"
        if record.exc_info:
            # Errors quote text of peers: no line of it may look like one of the log.
            trace = printable(self.formatException(record.exc_info), lines=True)
            line += "\n  " + trace.replace("\n", "\n  ")
        return line


def _moment(at: float) -> str:
    """RFC 3339 with milliseconds and the zone of this machine."""
    return datetime.fromtimestamp(at, UTC).astimezone().isoformat(timespec="milliseconds")


def set_up(
    environ: Mapping[str, str], *, verbose: bool = False, stream: TextIO | None = None
) -> None:
    """Send every log record to ``stream`` (stderr) in the style that its reader wants."""
    out = stream or sys.stderr
    style = "text"
    if environ.get("LIQOD_LOG") == "json":
        style = "json"
    elif "JOURNAL_STREAM" in environ and not out.isatty():
        style = "journal"
    handler = logging.StreamHandler(out)
    handler.setFormatter(Formatter(style))
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO, handlers=[handler], force=True
    )
