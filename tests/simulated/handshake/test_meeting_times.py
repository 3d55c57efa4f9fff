"""Events that take an hour, and clocks that differ by one: requests, invitations, certificates."""

import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any

import pytest
import time_machine
import trio

from liqod.apimachinery.kinds import NODES
from liqod.errors import ConfigError
from liqod.kube import times
from liqod.procedures import answering, peeringrequest
from tests.simulated.borrower import eventually
from tests.simulated.meeting import (
    ALONE,
    ask,
    by_token,
    entries,
    invite,
    key_of,
    meeting,
    outgoing,
    peered,
)
from tests.simulated.members import Member, member

HOUR = 3600.0
NO_CHECK_TIME = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME of openssl/x509_vfy.h."""
AHEAD: ContextVar[float] = ContextVar("AHEAD", default=0.0)
"""Seconds by which clocks are ahead in this task, and in those that it begins."""


@pytest.fixture(autouse=True)
def skewed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks of this process may differ by task; OpenSSL's, which nobody moves, is not asked."""
    clock, wrap = time_machine.Traveller.time_ns, ssl.SSLContext.wrap_bio

    def time_ns(self: time_machine.Traveller) -> int:
        return clock(self) + int(AHEAD.get() * 1e9)

    def wrap_bio(self: ssl.SSLContext, *words: Any, **more: Any) -> ssl.SSLObject:
        self.verify_flags |= NO_CHECK_TIME
        return wrap(self, *words, **more)

    monkeypatch.setattr(time_machine.Traveller, "time_ns", time_ns)
    monkeypatch.setattr(ssl.SSLContext, "wrap_bio", wrap_bio)


@contextmanager
def ahead(seconds: float) -> Iterator[None]:
    """Runs the block, and the tasks that it starts, by another clock."""
    token = AHEAD.set(seconds)
    try:
        yield
    finally:
        AHEAD.reset(token)


@asynccontextmanager
async def apart(seconds: float) -> AsyncIterator[list[Member]]:
    """Rome, whose clock is ahead by so much, and milan: API servers, daemons, operators."""
    async with trio.open_nursery() as nursery:
        with ahead(seconds):
            first = member("rome", nursery, settings=ALONE, meets=True)
            rome = await first.__aenter__()
        async with member("milan", nursery, settings=ALONE, meets=True) as milan:
            yield [rome, milan]
        with ahead(seconds):
            await first.__aexit__(None, None, None)
        nursery.cancel_scope.cancel()


async def are(host: Member, *phases: str) -> bool:
    """True if these are the phases of the host's requests."""
    return tuple(entry.status.phase for entry in await entries(host)) == phases


@pytest.mark.long
@pytest.mark.handshake
async def test_an_operator_answers_after_an_hour():
    async with meeting("rome", "milan") as [rome, milan]:
        await ask(rome, milan, key=await key_of(milan), resources={"cpu": "2"})
        await eventually(lambda: are(milan, "Waiting"))
        words = (await outgoing(rome, "milan")).status.words
        await trio.sleep(HOUR)
        [entry] = await entries(milan)
        assert entry.status.words == words  # one meeting has lasted
        await answering.decide(milan.admin, "liqo", entry, answering.acceptance(entry, {}))
        await peered(rome, "milan")
        assert await rome.admin.find(NODES, "milan") is not None


@pytest.mark.long
@pytest.mark.handshake
@pytest.mark.parametrize("seconds", [HOUR, -HOUR])
async def test_clocks_that_differ_by_an_hour_do_no_harm(seconds: float):
    async with apart(seconds) as [rome, milan]:
        token = await invite(milan, lifetime=600, resources={"cpu": "2"})
        with ahead(seconds):
            await peeringrequest.ensure_request(rome.admin, "liqo", by_token(token))
            await peered(rome, token.id)
        assert await rome.admin.find(NODES, "milan") is not None
        await eventually(lambda: are(milan, "Done"))
        [entry] = await entries(milan)
        made = [entry, await outgoing(rome, token.id)]
        there, here = (times.seconds(each.metadata.creation_timestamp or "") for each in made)
        assert abs(here - there - seconds) < 60  # they do differ
        with ahead(seconds):
            assert (await rome.unpeer(milan)).complete
        assert (await milan.unpeer(rome)).complete


@pytest.mark.long
@pytest.mark.parametrize("seconds", [HOUR, pytest.param(-HOUR, marks=pytest.mark.handshake)])
async def test_an_invitation_lasts_by_the_clusters_clock_whatever_that_of_its_operator(
    seconds: float,
):
    async with meeting("rome", "milan") as [rome, milan]:
        with ahead(seconds):
            token = await invite(milan, lifetime=60)
        await trio.sleep(30)
        await peeringrequest.ensure_request(rome.admin, "liqo", by_token(token))
        await peered(rome, token.id)
        with ahead(seconds):
            token = await invite(milan, lifetime=60)
        await trio.sleep(70)
        await peeringrequest.ensure_request(rome.admin, "liqo", by_token(token))
        with pytest.raises(ConfigError, match="the invitation has expired"):
            await peered(rome, token.id)
