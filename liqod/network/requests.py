"""Requests between the daemon and its machine's side, by one connection that may begin anew.

An answer names its request: by a number, or by what was asked for. One that comes late, or that
nobody waits for, counts for nothing.
"""

import secrets
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, NoReturn, TypeVar

import trio

from liqod.runtime.observable import Observable

Q = TypeVar("Q")
A = TypeVar("A")


class Requests(Generic[Q]):
    """Requests that this side makes of the other.

    Args:
        send: sends one, if the other side is connected.
    """

    def __init__(self, send: Callable[[Q], None]) -> None:
        self._send = send
        # The other side may still answer a request of an earlier process.
        self._number = secrets.randbits(62)
        self._open: dict[Hashable, _Open[Q]] = {}

    @property
    def unanswered(self) -> list[Q]:
        """Those that are waited for, to be sent again to a side that has begun anew."""
        return [each.request for each in self._open.values()]

    def number(self) -> int:
        """A number that no other request has."""
        self._number += 1
        return self._number

    async def ask(
        self,
        name: Hashable,
        request: Q,
        kind: type[A],
        *waits: float,
        gives_up: Callable[[], object] = bool,
    ) -> A | None:
        """Send a request, and wait for its answer; None where none has come.

        Args:
            name: by which the answer names it; not that of another that is waited for.
            kind: of the answer.
            waits: seconds from now on, ascending, at which it may be given up, at the last surely.
            gives_up: returns whether it is, at each of them.
        """
        self._open[name] = asked = _Open(request)
        began = trio.current_time()
        try:
            self._send(request)
            for seconds in waits:
                with trio.move_on_at(began + seconds):
                    await asked.answered.wait()
                if gives_up():
                    break
        finally:
            del self._open[name]
        return asked.answer if isinstance(asked.answer, kind) else None

    def on_answer(self, name: Hashable, answer: object) -> None:
        """The other side answers a request."""
        if name in self._open:
            self._open[name].answer = answer
            self._open[name].answered.set()


class _Open(Generic[Q]):
    """A request that is not answered yet."""

    def __init__(self, request: Q) -> None:
        self.request = request
        self.answer: object = None
        self.answered = trio.Event()


class NewestRequest(Generic[Q]):
    """The newest request of the other side, which is answered; those before it are not.

    It waits for one at a time, and has given up the others.

    Args:
        answer: carries a request out, and makes the answer.
        send: sends that.
    """

    def __init__(self, answer: Callable[[Q], Awaitable[A]], send: Callable[[A], None]) -> None:
        self._answer: Callable[[Q], Awaitable[Any]] = answer
        self._send: Callable[[Any], None] = send
        self._newest: Observable[Q | None] = Observable(None)
        """The last one that was not answered."""

    def receive(self, request: Q) -> None:
        """Take a request, which is answered as soon as this runs."""
        self._newest.set(request)

    async def run(self) -> NoReturn:
        """Answer until cancelled; what was not answered then is by the next run."""
        while True:
            request = self._newest.now
            if request is None:
                await self._newest.wait_changed()
                continue
            answer = await self._answer(request)
            if self._newest.now is request:
                self._newest.set(None)
            self._send(answer)
