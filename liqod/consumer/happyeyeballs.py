"""Connects to one API server by several paths at once, and takes the first that answers."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Literal

from liqod.errors import Unconnected, Unreachable
from liqod.kube.http.wire import Wire
from liqod.runtime.backoff import Backoff
from liqod.runtime.gather import first_of

Path = Literal["direct", "in-band", "channel"]

HEAD_START: Final = 0.8
"""Seconds that the first path has to itself: more than a packet lost on a long path takes, and
less than the link waits for both."""
AGAIN: Final = Backoff(first=30.0, last=600.0)
"""Seconds until the direct path is tried again while another is in use."""


async def first_to_answer(
    paths: dict[Path, Callable[[], Awaitable[Wire]]],
    order: Sequence[Path],
    head_start: float = HEAD_START,
) -> tuple[Path, Wire]:
    """The path that answers first, where the preferred one has a head start.

    Args:
        paths: the direct one and another.
        order: both, the preferred one first.
        head_start: seconds that the preferred one has to itself.

    Raises:
        Unreachable: none does; with the error of the direct one.
    """
    errors: dict[Path, Unreachable] = {}

    async def take(path: Path) -> tuple[Path, Wire] | None:
        try:
            return path, await paths[path]()
        except Unreachable as error:
            errors[path] = error
            return None

    won = await first_of(
        [partial(take, path) for path in order],
        head_start,
        lambda late: late[1].close(),
        # Packets that are dropped in-band give no answer at all.
        hopeless=lambda: "direct" in errors and "in-band" in paths,
    )
    if won is not None:
        return won
    other = next(path for path in paths if path != "direct")
    raise Unconnected(f"{errors['direct']}; nor {other}: {errors.get(other, 'no answer')}")
