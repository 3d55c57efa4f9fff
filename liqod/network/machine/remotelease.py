"""The Lease as the machine has it: read and written by the daemon, each time by one request."""

import secrets
from collections.abc import Callable

import trio

from liqod.errors import NetworkError
from liqod.network.orders.candidacy import (
    PATIENCE,
    LeaseAnswer,
    LeaseRecord,
    ReadLease,
    WriteLease,
)


class RemoteLease:
    """Requests reads and writes of the Lease, one at a time.

    Args:
        send: sends a request to the daemon, if one is connected.
    """

    def __init__(self, send: Callable[[ReadLease | WriteLease], None]) -> None:
        self._send = send
        # A daemon may still answer a request of an earlier process.
        self._number = secrets.randbits(62)
        self._answer: LeaseAnswer | None = None
        self._answered = trio.Event()

    async def read(self) -> None:
        """Have the daemon read the Lease; it sends what it finds before it answers.

        Raises:
            NetworkError: it is not read.
        """
        self._number += 1
        await self._request(ReadLease(self._number))

    async def write(self, record: LeaseRecord, *, taken: bool) -> str:
        """Have the daemon write the Lease; its version, empty where it met another version.

        Raises:
            NetworkError: it is not written, or that is not known.
        """
        self._number += 1
        return (await self._request(WriteLease(self._number, record, taken))).version

    def on_answer(self, answer: LeaseAnswer) -> None:
        """The daemon answers a request; an answer that comes late counts for nothing."""
        if answer.number == self._number:
            self._answer = answer
            self._answered.set()

    async def _request(self, request: ReadLease | WriteLease) -> LeaseAnswer:
        self._answer, self._answered = None, trio.Event()
        self._send(request)
        with trio.move_on_after(PATIENCE):
            await self._answered.wait()
        answer = self._answer
        if answer is None:
            raise NetworkError(f"the daemon has not answered within {PATIENCE:.0f} s")
        if answer.error:
            raise NetworkError(answer.error)
        return answer
