"""Logging: constant sentences with data beside them, prefixed by the peer they are about.

On a terminal a line is time, level, peer and sentence; under systemd it carries the journal's
``<N>`` priority instead of the time; with ``LIQOD_LOG=json`` it is one JSON object.
"""

import contextvars
import logging
import sys
from collections.abc import Mapping
from typing import TextIO

import msgspec

PEER: contextvars.ContextVar[str] = contextvars.ContextVar("peer", default="")
"""The peer that the current task works for; tasks and threads inherit it."""

_PRIORITIES = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class Formatter(logging.Formatter):
    """One line a record; ``style`` is ``text``, ``journal`` or ``json``."""

    def __init__(self, style: str) -> None:
        super().__init__(datefmt="%H:%M:%S")
        self.style = style

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, with a traceback below it where there is one."""
        peer = PEER.get()
        facts = {k: v for k, v in vars(record).items() if k not in _STANDARD}
        if self.style == "json":
            whole = {
                "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S"),
                "level": record.levelname.lower(),
                "logger": record.name,
                "message": record.getMessage(),
                **({"peer": peer} if peer else {}),
                **({"error": self.formatException(record.exc_info)} if record.exc_info else {}),
                **facts,
            }
            return msgspec.json.encode(whole, enc_hook=str).decode()
        head = (
            f"<{_PRIORITIES.get(record.levelname, 6)}>"
            if self.style == "journal"
            else f"{self.formatTime(record, self.datefmt)} {record.levelname.lower():7} "
        )
        tail = "".join(f" {key}={value}" for key, value in facts.items())
        line = f"{head}{f'[{peer}] ' if peer else ''}{record.getMessage()}{tail}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


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
