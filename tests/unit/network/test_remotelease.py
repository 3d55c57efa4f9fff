"""The machine's requests for the Lease: answered, refused, late, or never answered."""

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from liqod.errors import NetworkError
from liqod.network.machine.remotelease import RemoteLease
from liqod.network.orders.candidacy import (
    PATIENCE,
    Claim,
    LeaseAnswer,
    LeaseRecord,
    ReadLease,
    WriteLease,
)

RECORD = LeaseRecord(Claim("one", 1, "7"))


class Asked:
    """A lease whose daemon answers as a test says."""

    def __init__(self, answer: Callable[[int], LeaseAnswer | None]) -> None:
        self.sent: list[ReadLease | WriteLease] = []
        self._answer = answer
        self.lease = RemoteLease(self._take)

    def _take(self, request: ReadLease | WriteLease) -> None:
        self.sent.append(request)
        answer = self._answer(request.number)
        if answer is not None:
            self.lease.on_answer(answer)


async def test_a_write_has_the_version_of_its_answer():
    asked = Asked(lambda number: LeaseAnswer(number, "8"))
    assert await asked.lease.write(RECORD, taken=True) == "8"
    (request,) = asked.sent
    assert request == WriteLease(request.number, RECORD, True)


async def test_a_refused_one_says_why():
    asked = Asked(lambda number: LeaseAnswer(number, error="it is not allowed"))
    with pytest.raises(NetworkError, match="it is not allowed"):
        await asked.lease.read()


async def test_one_that_is_never_answered_has_failed(autojump_clock: MockClock):
    asked = Asked(lambda number: None)
    began = trio.current_time()
    with pytest.raises(NetworkError, match="has not answered"):
        await asked.lease.write(RECORD, taken=False)
    assert trio.current_time() - began == pytest.approx(PATIENCE)
