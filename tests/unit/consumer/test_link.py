"""The link, on a clock that jumps: how soon a lost host and a frozen server are noticed."""

from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace

import trio

from liqod.consumer.link import ANSWERS, IDLE, Link
from liqod.errors import Unreachable


class Host:
    """A server whose state a test changes, and the lines to it."""

    def __init__(self):
        self.state = "well"
        self.dials = 0
        self.lines = []
        self.stall = 0.0

    async def dial(self, credentials):
        self.dials += 1
        if self.state == "gone":
            await trio.sleep(1.5)
            raise Unreachable("milan does not answer")
        if self.state == "refusing":
            raise Unreachable("cannot connect to milan: Connection refused")
        line = FakeLine(self)
        self.lines.append(line)
        return line


class FakeLine:
    """A line as long as its host is well."""

    def __init__(self, host):
        self.host = host
        self.broken = trio.Event()
        self.closed = False

    async def ask(self, deadline):
        with trio.move_on_after(deadline):
            await trio.sleep(self.host.stall)
            if self.host.state == "well":
                return
            await trio.sleep_forever()
        raise Unreachable("milan accepts connections but answers nothing")

    async def idle(self, seconds):
        with trio.move_on_after(seconds):
            await self.broken.wait()
            raise Unreachable("connection broken")

    def close(self):
        self.closed = True


class Remotes:
    """An identity that comes and goes."""

    def __init__(self):
        self.remote = SimpleNamespace(credentials=None)
        self.event = trio.Event()

    def control(self):
        return self.remote

    def any_slice(self):
        return None

    async def changed(self):
        await self.event.wait()

    def set(self, remote):
        self.remote = remote
        event, self.event = self.event, trio.Event()
        event.set()


async def seconds_until_changed(link):
    """How long until the link changes."""
    since = trio.current_time()
    with trio.fail_after(60):
        await link.wait_changed()
    return trio.current_time() - since


@asynccontextmanager
async def linked():
    """A link to a host, up."""
    host, remotes, link = Host(), Remotes(), Link()
    said = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            partial(link.run, remotes, lambda *_, **facts: said.append(facts), dial=host.dial)
        )
        await link.wait_changed()
        assert (link.up, link.reason, link.looked) == (True, ANSWERS, True)
        yield host, remotes, link, said
        nursery.cancel_scope.cancel()
    assert all(line.closed for line in host.lines)


async def test_a_lost_host_is_noticed_within_five_seconds(autojump_clock):
    async with linked() as (host, _, link, _):
        await trio.sleep(4.2)
        host.state = "gone"
        await trio.sleep(3)  # what TCP keep-alive takes with KEEP_ALIVE
        host.lines[-1].broken.set()
        assert await seconds_until_changed(link) < 2
        assert not link.up
        assert link.reason == "milan does not answer"


async def test_a_host_lost_while_it_is_asked_is_noticed_within_five_seconds(autojump_clock):
    async with linked() as (host, _, link, _):
        host.stall = 0.5
        await trio.sleep(10.1)
        host.state = "gone"
        assert await seconds_until_changed(link) < 5
        assert not link.up


async def test_a_frozen_server_is_noticed_within_twenty_five_seconds(autojump_clock):
    async with linked() as (host, _, link, _):
        await trio.sleep(0.1)
        host.state = "frozen"
        assert await seconds_until_changed(link) < 25
        assert "answers nothing" in link.reason


async def test_one_failure_is_none(autojump_clock):
    async with linked() as (host, _, link, said):
        for _ in range(5):
            await trio.sleep(7)
            host.lines[-1].broken.set()
        await trio.sleep(30)
        assert link.up
        assert len(said) == 1


async def test_a_slow_server_gets_its_second_chance(autojump_clock):
    async with linked() as (host, _, link, _):
        host.stall = 4
        await trio.sleep(60)
        assert link.up


async def test_it_comes_back(autojump_clock):
    async with linked() as (host, _, link, _):
        host.state = "refusing"
        host.lines[-1].broken.set()
        assert await seconds_until_changed(link) < 1
        await trio.sleep(100)
        assert host.dials < 30
        host.state = "well"
        assert await seconds_until_changed(link) <= 5
        assert link.up


async def test_without_an_identity_nothing_is_asked(autojump_clock):
    async with linked() as (host, remotes, link, _):
        remotes.set(None)
        await link.wait_changed()
        assert (link.up, link.reason, link.looked) == (True, IDLE, False)
        dials = host.dials
        await trio.sleep(100)
        assert host.dials == dials
