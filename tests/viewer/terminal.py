"""A real terminal: a program in tmux, what it shows, and keys for it."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import trio


class Terminal:
    """A tmux server of its own with one window.

    Args:
        folder: where its socket is.
        command: what runs in it; the window stays when that ends.
        size: columns and lines.
    """

    def __init__(
        self, folder: Path, command: Sequence[str], size: tuple[int, int] = (130, 36)
    ) -> None:
        self._socket = folder / "tmux.sock"
        self._run(
            *("-f", "/dev/null", "new-session", "-d", "-x", str(size[0]), "-y", str(size[1])),
            f"env -u COLUMNS -u LINES {shlex.join(command)}; echo ended with $?; exec sleep 1000",
        )

    def _run(self, *words: str) -> str:
        return subprocess.run(
            ["tmux", "-S", str(self._socket), *words],
            check=True,
            capture_output=True,
            text=True,
            timeout=20,
        ).stdout

    def text(self) -> str:
        """The text on the screen."""
        return self._run("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        """Press keys, by tmux' names."""
        self._run("send-keys", *keys)

    def close(self) -> None:
        """End it and what runs in it."""
        subprocess.run(
            ["tmux", "-S", str(self._socket), "kill-server"], check=False, capture_output=True
        )

    async def until(self, seen: Callable[[str], bool], seconds: float = 20.0) -> float:
        """Wait until the screen is as wanted; the seconds that it took."""
        began = time.monotonic()
        while True:
            text = await trio.to_thread.run_sync(self.text)
            took = time.monotonic() - began
            if seen(text):
                return took
            assert took < seconds, f"not seen within {seconds} s:\n{text}"
            await trio.sleep(0.1)


def top(*words: str) -> list[str]:
    """The command line of the terminal program."""
    return [sys.executable, "-m", "liqod", "top", *words]


def line_of(text: str, name: str) -> str:
    """The line of the table that is about somebody."""
    return next((line for line in text.splitlines() if f" {name} " in line), "")
