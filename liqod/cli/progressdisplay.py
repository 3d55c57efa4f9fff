"""Shows the progress of a command, on stderr, so that its output on stdout stays parseable."""

import os
import sys
import time
from typing import NoReturn

import trio

from liqod.cli import terminal
from liqod.model.text import printable
from liqod.runtime.progress import name_of

PATIENCE = 2.0
"""Seconds after which a step that still goes on is shown."""


class ProgressDisplay:
    """Lines on stderr that say what is being waited for, and how long each step took.

    A step may say more of itself later, as a :class:`liqod.runtime.progress.Step`: ``wait for
    milan`` and then ``wait for milan: it does not answer`` are the same step.

    Attributes:
        step: the step that goes on, with its last detail; empty for none.
        name: the same without the detail.
    """

    def __init__(self) -> None:
        self.step = self.name = ""
        self._since = 0.0
        self._shown = ""
        self._live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def __call__(self, step: str) -> None:
        """Begin a step; the one before it is thereby done."""
        if step == self.step:
            return
        name, step = printable(name_of(step)), printable(step)
        if self.step and name == self.name:
            self.step = step
            self._show(step)
            return
        self.done()
        self.step, self.name, self._since = step, name, time.monotonic()
        if self._live:
            self._show(step)

    async def keep_showing(self) -> NoReturn:
        """Show that a step that takes its time is still waited for."""
        while True:
            await trio.sleep(1.0)
            waited = time.monotonic() - self._since
            if not self.step or waited < PATIENCE:
                continue
            if self._live:
                self._show(f"{self.step} ({waited:.0f} s)")
            elif self._shown != self.step:
                self._show(self.step)

    def done(self) -> None:
        """The current step has succeeded."""
        self._end("✓")

    def failed(self) -> None:
        """The current step has not succeeded."""
        self._end("✗")

    def _show(self, text: str) -> None:
        self._shown = self.step
        terminal.redraw(f"  … {text}", live=self._live)

    def _end(self, mark: str) -> None:
        if not self.step:
            return
        took = time.monotonic() - self._since
        shown = self.name if mark == "✓" else self.step
        terminal.redraw(f"  {mark} {shown} ({took:.1f} s)", live=self._live, last=True)
        self.step = self.name = ""
