"""One provider of three misbehaves, and the others' pods start all the same.

The daemon is a process, each provider another; healthy and faulty windows take turns. These are of
each sort of fault the worst. How many milliseconds later the others' pods are is measured by
``python -m benchmarks.isolation``: here other tests run beside this one. A daemon that lets one
peer stop the others makes them wait until its requests time out, which no busy machine looks like.
"""

from pathlib import Path

import pytest

from tests.simulated.provider.isolation import borrowing
from tests.testbed.latency import LATEST, preferred, table

pytestmark = [pytest.mark.long, pytest.mark.load]

# The flood comes first: what it leaves is doubted for half a minute, which the others need anyway.
WORST = ("flood of small events", "frozen", "500", "broken JSON")
COUNT, PACE = 24, 0.12
LINES = 12
"""Lines that the daemon may log for one fault, from its beginning to its end."""


async def test_the_others_of_one_bad_peer_do_not_notice(tmp_path: Path):
    async with borrowing(tmp_path) as field:
        with preferred(field.children()):
            found = [await field.compare(name, rounds=1, count=COUNT, pace=PACE) for name in WORST]
        await field.until_empty()
    assert all(max(one.faulty) <= LATEST for one in found), table(found)
    assert all(one.lines <= LINES for one in found), table(found)
