"""The days for which exports that are shared on are signed."""

from typing import Any

import trio
import trio.testing

from liqod.clusterset.sharing import Sharing
from liqod.model.clusterset.byway import DAY, end_of

NOW = 20_000 * DAY + 1_000.0


async def test_all_is_signed_anew_with_each_day_and_at_once_by_one_that_was_made_before(
    autojump_clock: trio.testing.MockClock,
):
    unasked: Any = None
    sharing = Sharing(unasked)
    began, told = trio.current_time(), list[int]()
    sharing.clock = lambda: NOW + trio.current_time() - began

    async def note() -> None:
        while True:
            await sharing.wait_changed()
            told.append(sharing.until)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(note)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(sharing.renew_daily)
        await trio.sleep(1)
        assert told == [end_of(NOW)]
        await trio.sleep(3 * DAY)
        assert told == [end_of(NOW + day * DAY) for day in range(4)]
        nursery.cancel_scope.cancel()
