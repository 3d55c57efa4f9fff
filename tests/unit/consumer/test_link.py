"""The link, on a clock that jumps: how soon a lost host and a frozen server are noticed."""

from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from liqod.consumer.degradations import Degradation
from liqod.consumer.link import IDLE, Parted, PeerLink, dial_server
from liqod.consumer.remotes import Remotes
from liqod.errors import ConfigError, Unauthorized, Unreachable, Untrusted
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.http.wire import StreamWire
from liqod.kube.times import date_of
from liqod.model.peering.foreigncluster import ANSWERS
from liqod.model.peering.intervals import FROZEN_WITHIN, PROBE_EVERY, SECOND_DEADLINE
from liqod.model.view.facts import LinkFacts
from liqod.telemetry.events import PeerDaemonChanged, TopicEvent


class Host:
    """A server whose state a test changes, and the lines to it."""

    def __init__(self):
        self.state = "well"
        self.dials = 0
        self.lines = []
        self.stall = 0.0
        self.status, self.lease = 403, b"{}"
        self.leads: bool | None = None
        self.holder = "host-1"
        self.renewed = 0.0

    def seen(self):
        """The Lease, which a daemon that leads has renewed just now."""
        if self.leads is None:
            return self.status, self.lease
        if self.leads:
            self.renewed = trio.current_time()
        at = datetime.fromtimestamp(1795273200 + self.renewed % 1000, UTC).isoformat()
        spec = {"holderIdentity": self.holder, "renewTime": at}
        return 200, msgspec.json.encode({"metadata": {"name": "liqod"}, "spec": spec})

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
        self.closed = self.parted = False

    async def probe(self, deadline):
        with trio.move_on_after(deadline):
            await trio.sleep(self.host.stall)
            if self.host.state == "well":
                return
            await trio.sleep_forever()
        raise Unreachable("milan accepts connections but answers nothing")

    async def read_lease(self, deadline):
        return await self.probe(deadline), *self.host.seen()

    async def idle(self, seconds):
        with trio.move_on_after(seconds):
            await self.broken.wait()
            raise (Parted if self.parted else Unreachable)("connection broken")

    def acknowledged(self):
        return None

    def close(self):
        self.closed = True


class OneRemote(Remotes):
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


@pytest.mark.parametrize(
    ("header", "date"),
    [
        ("Sat, 21 Nov 2026 15:00:00 GMT", 1795273200.0),
        ("Sat, 21 Nov 2026 15:00:00 +99999999999999", None),
        ("Sat, 21 Nov 99999999999 15:00:00 GMT", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_a_date_is_read_or_is_none(header, date):
    assert date_of(header) == date


@pytest.mark.parametrize(
    "unusable",
    [
        Credentials("https://milan", ca=b"nonsense"),
        Credentials("http://milan", token="a\r\nb"),
    ],
)
async def test_credentials_that_cannot_be_used_leave_nothing_open(unusable):
    wire = StreamWire(trio.testing.memory_stream_pair()[0])

    async def connect(host, port):
        return wire

    with pytest.raises(ConfigError):
        await dial_server(unusable, connect)
    assert wire.stale()


async def seconds_until_changed(link):
    """How long until the link changes."""
    since = trio.current_time()
    with trio.fail_after(60):
        await link.wait_changed()
    return trio.current_time() - since


@asynccontextmanager
async def linked():
    """A link to a host, up."""
    host, remotes, link = Host(), OneRemote(), PeerLink()
    said: list[TopicEvent] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(link.run, remotes, said.append, dial=host.dial))
        await link.wait_changed()
        assert (link.up, link.reason, link.probed) == (True, ANSWERS, True)
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
        await trio.sleep(PROBE_EVERY + 0.1)
        host.state = "gone"
        assert await seconds_until_changed(link) < 5
        assert not link.up


async def test_a_frozen_server_is_noticed_in_the_time_that_probes_take(autojump_clock):
    async with linked() as (host, _, link, _):
        await trio.sleep(0.1)
        host.state = "frozen"
        assert await seconds_until_changed(link) <= FROZEN_WITHIN
        assert "answers nothing" in link.reason


async def test_the_way_is_lost_where_an_answer_is_and_seldom_counted_again(autojump_clock):
    async with linked() as (host, _, link, _):
        for lost, after in ((1, 1), (1, 1), (2, 40)):
            await trio.sleep(after)
            host.lines[-1].broken.set()
            await trio.sleep(1)
            assert (link.up, link.reconnections) == (True, lost)
        host.state = "frozen"
        await seconds_until_changed(link)
        assert link.reconnections == 2
        host.state = "well"
        await seconds_until_changed(link)
        assert (link.up, link.reconnections) == (True, 3)


async def test_a_server_that_parts_in_order_loses_no_way(autojump_clock):
    async with linked() as (host, _, link, _):
        for _ in range(3):
            await trio.sleep(1)
            host.lines[-1].parted = True
            host.lines[-1].broken.set()
        await trio.sleep(1)
        assert (link.up, link.reconnections) == (True, 0)
        assert len(host.lines) == 4


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
        host.stall = 0.8 * SECOND_DEADLINE
        await trio.sleep(6 * PROBE_EVERY)
        assert link.up


async def test_it_comes_back(autojump_clock):
    async with linked() as (host, _, link, _):
        host.state = "refusing"
        host.lines[-1].broken.set()
        assert await seconds_until_changed(link) < 1
        await trio.sleep(100)
        assert host.dials < 45
        host.state = "well"
        assert await seconds_until_changed(link) <= 5
        assert link.up


async def test_without_an_identity_nothing_is_asked(autojump_clock):
    async with linked() as (host, remotes, link, _):
        remotes.set(None)
        await link.wait_changed()
        assert (link.up, link.reason, link.probed) == (True, IDLE, False)
        dials = host.dials
        await trio.sleep(100)
        assert host.dials == dials


async def test_a_peer_that_is_not_asked_any_more_is_not_said_to_answer(autojump_clock, caplog):
    caplog.set_level("INFO")
    async with linked() as (host, remotes, link, _):
        host.state = "refusing"
        host.lines[-1].broken.set()
        await link.wait_changed()
        remotes.set(None)
        await link.wait_changed()
        assert link.reason == IDLE
    assert "does not answer" in caplog.text
    assert "answers again" not in caplog.text


async def test_many_that_do_not_answer_are_tried_a_few_at_a_time(autojump_clock):
    busy = most = 0
    tried = set()

    async def stuck(link, _credentials):
        nonlocal busy, most
        late = not link.up
        busy += late
        most = max(most, busy)
        if late:
            tried.add(link)
        try:
            await trio.sleep(1.5)
        finally:
            busy -= late
        raise Unreachable("does not answer")

    tries = trio.CapacityLimiter(3)
    links = [PeerLink(tries) for _ in range(20)]
    async with trio.open_nursery() as nursery:
        for link in links:
            nursery.start_soon(partial(link.run, OneRemote(), dial=partial(stuck, link)))
        await trio.sleep(3.1)
        assert not any(link.up for link in links)  # all are noticed at once
        await trio.sleep(15)
        nursery.cancel_scope.cancel()
    assert most == 3
    assert tried == set(links)


async def test_a_peers_daemon_is_known_by_its_lease(autojump_clock):
    async with linked() as (host, _, link, said):
        host.leads = True
        assert link.daemon.verdict.state == "untold"
        await trio.sleep(700)  # it is asked again, though it refused
        assert link.daemon.verdict.state == "runs"
        host.leads = False
        assert await seconds_until_changed(link) < 55
        assert link.daemon.verdict.state == "silent"
        assert "last renewed at 2026-11-21 " in link.daemon.verdict.why
        await trio.sleep(300)
        host.leads = True
        assert await seconds_until_changed(link) < 25
        assert link.daemon.verdict.state == "runs"
        assert [each.runs for each in said if isinstance(each, PeerDaemonChanged)] == [
            True,
            False,
            True,
        ]


async def test_a_lease_that_was_let_go_is_not_renewed_by_anybody(autojump_clock):
    async with linked() as (host, _, link, _):
        host.leads = True
        link.daemon.lose()
        await trio.sleep(60)
        host.holder, host.leads = "", False
        await trio.sleep(60)
        assert "it was stopped at 2026-11-21 " in link.daemon.verdict.why


async def test_after_an_outage_a_daemon_gets_time_to_lead_again(autojump_clock):
    async with linked() as (host, _, link, _):
        host.leads = True
        link.daemon.lose()
        await trio.sleep(100)
        assert link.daemon.verdict.state == "runs"
        host.state, host.leads = "gone", False
        host.lines[-1].broken.set()
        await link.wait_changed()
        await trio.sleep(300)
        host.state = "well"
        await link.wait_changed()
        await trio.sleep(5)
        host.leads = True
        for _ in range(50):
            await trio.sleep(1)
            assert link.daemon.verdict.state == "runs"


async def test_nonsense_in_a_peers_lease_tells_nothing(autojump_clock):
    async with linked() as (host, _, link, _):
        for body in (b"", b"[]", b'{"spec":{"renewTime":7}}', b"\xff"):
            link.daemon.lose()
            host.status, host.lease = 200, body
            await trio.sleep(30)
            assert link.daemon.verdict.state == "untold"
        link.daemon.lose()
        host.lease = b'{"spec":{"holderIdentity":"a","renewTime":"\\u001b[2J"}}'
        await trio.sleep(60)
        assert link.daemon.verdict.why == (
            "its Lease was last renewed at no time that can be read by its clock"
        )


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (Unauthorized("milan refuses our certificate"), "refused"),
        (Untrusted("the server's certificate is not trusted: self-signed"), "untrusted"),
        (Unreachable("nobody accepts"), ""),
    ],
)
async def test_what_kind_of_trouble_it_is_is_told_by_the_error(
    error, problem, autojump_clock, nursery
):
    link = PeerLink()

    async def dial(credentials: object) -> Any:
        raise error

    nursery.start_soon(partial(link.run, OneRemote(), lambda told: None, dial=dial))
    await trio.sleep(10)
    assert (link.up, link.reason, link.problem) == (False, str(error), problem)


async def test_what_is_known_of_a_link_is_one_value():
    link = PeerLink()
    assert link.facts() == LinkFacts(reason=IDLE, since=link.since)
    link.probed, link.reason = True, ANSWERS
    link.rounds.extend((0.1, None, 0.3))
    link.degradations.report("reflection", Degradation("pods cannot be written", grave=True))
    found = link.facts()
    assert (found.state, found.rtt, found.lost, found.grave) == ("up", 0.3, 0.333, True)
    assert found.why == link.why == f"{ANSWERS}, but pods cannot be written"
