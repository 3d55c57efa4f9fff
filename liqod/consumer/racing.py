"""Several ways to one API server, of which the one that answers first is taken."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal

import trio

from liqod.errors import Unconnected, Unreachable
from liqod.kube.backoff import Backoff
from liqod.kube.http.wire import Wire

Path = Literal["direct", "in-band", "channel"]

HEAD_START: Final = 0.8
"""Seconds that the first way has to itself: more than a lost packet on the way to a far host, and
less than the link waits for both."""
AGAIN: Final = Backoff(first=30.0, last=600.0)
"""Seconds until the direct way is tried again while another is gone."""


async def first(
    ways: dict[Path, Callable[[], Awaitable[Wire]]], order: Sequence[Path]
) -> tuple[Path, Wire]:
    """The way that answers first, where the one that is preferred has a head start.

    Args:
        ways: the direct one and another.
        order: both, the preferred one first.

    Raises:
        Unreachable: none does; as the direct one says it.
    """
    won: list[tuple[Path, Wire]] = []
    errors: dict[Path, Unreachable] = {}

    async def take(path: Path, failed: trio.Event) -> None:
        try:
            wire = await ways[path]()
        except Unreachable as error:
            errors[path] = error
            failed.set()
            return
        if won:
            wire.close()
        else:
            won.append((path, wire))
            nursery.cancel_scope.cancel()

    try:
        async with trio.open_nursery() as nursery:
            for path in order:
                failed = trio.Event()
                nursery.start_soon(take, path, failed)
                with trio.move_on_after(HEAD_START):
                    await failed.wait()
            if "direct" in errors and "in-band" in ways:
                # What is not let through in-band says nothing at all.
                nursery.cancel_scope.cancel()
    except BaseException:
        for _, wire in won:
            wire.close()
        raise
    if won:
        return won[0]
    other = next(path for path in ways if path != "direct")
    raise Unconnected(f"{errors['direct']}; nor {other}: {errors.get(other, 'no answer')}")
