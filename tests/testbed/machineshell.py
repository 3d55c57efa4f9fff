"""A shell of root's in a machine of Debian's, in which the commands of pages are typed."""

from __future__ import annotations

from collections.abc import Sequence

from tests.testbed.debian import Machine
from tests.testbed.pages import Terminal

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class MachineShell(Terminal):
    """The shell of an administrator.

    Args:
        machine: the one that it is in.
        place: the folder in which its commands are typed.
    """

    has_prepared = False

    def __init__(self, machine: Machine, place: str) -> None:
        super().__init__(machine.root / place.lstrip("/"))
        self.machine = machine
        self.place = place
        self.environment = {"PATH": PATH, "HOME": place, "LANG": "C.UTF-8"}

    def command(self, *words: str) -> Sequence[str]:
        """The command line of a program in the folder of the shell."""
        return self.machine.enter(*super().command(*words))
