"""Programs that outlive the daemon are begun by several threads at once."""

import subprocess
import sys
from typing import Any

import pytest

from liqod.plugins.network import processes


def test_one_that_is_begun_while_others_are_reaped_is_reaped_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[subprocess.Popen[bytes]] = []

    class Slow(subprocess.Popen[bytes]):
        """One whose state is asked for while another thread begins a program."""

        def poll(self) -> int | None:
            if len(begun) < 3:
                monkeypatch.setattr(subprocess, "Popen", Ordinary)
                begin()
            return super().poll()

    class Ordinary(subprocess.Popen[bytes]):
        """One that ends at once."""

        def __init__(self, *arguments: Any, **settings: Any) -> None:
            super().__init__(*arguments, **settings)
            begun.append(self)

    def begin() -> None:
        processes.start([sys.executable, "-S", "-c", ""], {})

    monkeypatch.setattr(subprocess, "Popen", Slow)
    begin()
    for each in begun:
        each.wait()
    processes.reap()
    assert len(begun) == 3
