"""Ports that tests choose while others, in processes of their own, do the same."""

import subprocess
import sys

from tests.testbed.processes import free_ports

CHOOSE = """
import random
from tests.testbed import processes
random.seed(7)
print(*processes.free_ports(40), flush=True)
input()
"""


def test_no_two_processes_choose_the_same():
    command = (sys.executable, "-c", CHOOSE)
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as one,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as other,
    ):
        assert one.stdout is not None
        assert other.stdout is not None
        chosen = [*one.stdout.readline().split(), *other.stdout.readline().split()]
        for process in (one, other):
            process.communicate("\n")
    assert len(set(chosen)) == 80


def test_none_is_chosen_twice():
    assert len({*free_ports(20), *free_ports(20)}) == 40
