"""The Lease as the machine has it: read and written by the daemon, each time by one request."""

from collections.abc import Callable

from liqod.errors import NetworkError
from liqod.network.orders.candidacy import (
    PATIENCE,
    LeaseAnswer,
    LeaseRecord,
    ReadLease,
    WriteLease,
)
from liqod.network.requests import Requests


class RemoteLease:
    """Requests reads and writes of the Lease.

    Args:
        send: sends a request to the daemon, if one is connected.
    """

    def __init__(self, send: Callable[[ReadLease | WriteLease], None]) -> None:
        self._requests = Requests(send)

    async def read(self) -> None:
        """Have the daemon read the Lease; it sends what it finds before it answers.

        Raises:
            NetworkError: it is not read.
        """
        await self._ask(ReadLease(self._requests.number()))

    async def write(self, record: LeaseRecord, *, taken: bool) -> str:
        """Have the daemon write the Lease; its version, empty where it met another version.

        Raises:
            NetworkError: it is not written, or that is not known.
        """
        return (await self._ask(WriteLease(self._requests.number(), record, taken))).version

    def on_answer(self, answer: LeaseAnswer) -> None:
        """The daemon answers a request."""
        self._requests.on_answer(answer.number, answer)

    async def _ask(self, request: ReadLease | WriteLease) -> LeaseAnswer:
        answer = await self._requests.ask(request.number, request, LeaseAnswer, PATIENCE)
        if answer is None:
            raise NetworkError(f"the daemon has not answered within {PATIENCE:.0f} s")
        if answer.error:
            raise NetworkError(answer.error)
        return answer
