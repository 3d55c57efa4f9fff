"""Random scripts of everything that people, networks and accidents do, and what must hold then.

A failure is shown as a script without the steps that it does not need: put it into
``test_found.py``. The scripts tried here are always the same; ``make soak`` tries others for as
long as one likes.
"""

import pytest

from tests.stateful.hunt import search

pytestmark = pytest.mark.long

SEED = 1
EVERY_RUN, SCRIPTS = 6, 20
SECONDS = 90.0
"""A slow machine tries fewer."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("most", [EVERY_RUN, pytest.param(SCRIPTS, marks=pytest.mark.stateful)])
def test_no_script_breaks_an_invariant(most: int) -> None:
    tried, found = search(SEED, seconds=SECONDS, patience=60.0, most=most)
    assert not found, "\n\n".join(found)
    assert tried
