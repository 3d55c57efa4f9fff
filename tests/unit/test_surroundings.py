"""Tests are the same wherever they are started."""

import os
import subprocess
import sys

from liqod.cli import output
from tests.testbed.surroundings import TERMINAL

ASKS = "from liqod.cli import output; print(output.width())"


def test_no_test_is_run_in_the_width_of_somebodys_terminal() -> None:
    assert not os.environ.keys() & set(TERMINAL)
    assert output.width() == 0
    done = subprocess.run([sys.executable, "-c", ASKS], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
