"""Sends the doctor's probes: rare, bounded, and each behind a wall.

The version of this cluster's API server is requested every few seconds. The facts that checks need
of a peer are requested when they are old. A test write at the peer, a dry run of a patch that
changes nothing, is sent on request or after ten minutes without a write.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import trio

from liqod.cluster.context import ClusterContext
from liqod.consumer.link import skew
from liqod.errors import LiqodError, PluginError
from liqod.inspect.components import Components
from liqod.kube.client import MERGE_PATCH, PARTIAL, Client
from liqod.kube.times import date_of
from liqod.plugins.diagnosis import Check, Trip
from liqod.plugins.host import PluginHost
from liqod.resources import RESOURCE_SLICES
from liqod.runtime.polling import poll_until
from liqod.runtime.ticks import sleep_until_tick

if TYPE_CHECKING:
    from liqod.consumer.remote import Remote

SERVER_EVERY = 10.0
"""Seconds between two probes of this cluster's own API server."""
QUIET = 600.0
"""Seconds without a write at a peer after which a test write is sent."""
DEADLINE = 5.0
PROVING = 25.0
"""Seconds for a test of the webhook's path, which is retried several times on failure."""
CANARY = "liqod.io/canary"
"""The annotation of the test write, which is never executed."""
TURN = 1.0
ANSWERED = 3.0
"""Seconds since a response of a peer's server after which a check sends a new request."""
ANSWERING = 2.0
"""Seconds that its response is waited for then."""
PATIENCE = 60.0
"""Seconds before a failed probe is repeated."""
AT_ONCE = 4
DOUBTED = 2
"""Failures in a row of a probe after which its check has no result."""

log = logging.getLogger(__name__)


class _Taken(msgspec.Struct, frozen=True):
    at: float
    took: float
    error: str


class _Probed(msgspec.Struct, frozen=True):
    due: float
    value: Any
    failures: int = 0
    error: str = ""


class Reader:
    """The interface for a check's probe: it reads from one API server."""

    def __init__(self, client: Client, settings: Any) -> None:
        self._client = client
        self.settings = settings

    async def read(self, path: str) -> bytes:
        """The response to a GET. Raises a LiqodError."""
        return (await self._client.raw("GET", path)).body


class CheckProbes:
    """Sends the probes, and keeps their results.

    Attributes:
        skew: seconds by which this cluster's API server's clock is ahead; None: unknown.
    """

    def __init__(
        self, context: ClusterContext, components: Components, plugins: PluginHost
    ) -> None:
        self.skew: float | None = None
        self._context, self._components, self._plugins = context, components, plugins
        self._checks = [check for check in plugins.loaded.checks if check.probe is not None]
        self._server: _Taken | None = None
        self._canaries: dict[str, _Taken] = {}
        self._found: dict[tuple[str, str], _Probed] = {}
        self._busy: set[tuple[str, str]] = set()
        self._limit = trio.CapacityLimiter(AT_ONCE)

    async def run(self) -> NoReturn:
        """Probe until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow_server)
            while True:
                await sleep_until_tick(TURN)
                for key, job in self._due():
                    self._busy.add(key)
                    nursery.start_soon(self._do, key, job)
        raise AssertionError("it probes until it is cancelled")

    async def now(self, peer: str = "") -> None:
        """Send all probes of one peer, or of all and this cluster, and wait for them."""
        peers = [peer] if peer else sorted(self._components.peers)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._probe_server)
            nursery.start_soon(self._prove_webhook)
            for name in peers:
                working = self._components.peers.get(name)
                if working is not None:
                    working.link.probe_now()
                nursery.start_soon(self._do, (name, ""), self._canary)
                for check in self._checks:
                    if check.scope == "peer":
                        nursery.start_soon(self._do, (name, check.name), self._check(check))
            for check in self._checks:
                if check.scope == "cluster":
                    nursery.start_soon(self._do, ("", check.name), self._check(check))

    async def look(self, peer: str = "") -> None:
        """Have links without a recent response of their servers send a probe, and wait a moment.

        They read the Lease of the peer's daemon, which shows the state of both.
        """
        began = trio.current_time()
        peers = self._components.peers
        found = [peers.get(peer)] if peer else list(peers.values())
        links = [each.link for each in found if each is not None]
        old = [each for each in links if (each.since_last_word or 0.0) > ANSWERED]
        for link in old:
            link.daemon.doubt()
            link.probe_now()

        async def answered() -> bool:
            took = trio.current_time() - began
            return took > ANSWERING or all((each.since_last_word or 0.0) < took for each in old)

        await poll_until(answered, longest_pause=ANSWERING / 20)

    async def _prove_webhook(self) -> None:
        webhook = self._components.webhook
        if webhook is not None and self._context.config.webhook.enabled:
            with trio.move_on_after(PROVING):
                await webhook.prove()

    def found(self, peer: str, check: str) -> Any:
        """The last result of a check's probe; None: no result yet."""
        probed = self._found.get((peer, check))
        return None if probed is None else probed.value

    def failure(self, peer: str, check: str) -> str:
        """The reason that a check's probe failed repeatedly; empty if it did not."""
        probed = self._found.get((peer, check))
        return probed.error if probed is not None and probed.failures >= DOUBTED else ""

    def server(self) -> Trip | None:
        """The newest request to this cluster's API server."""
        return _trip(self._server)

    def canary(self, peer: str) -> Trip | None:
        """The newest test write at a peer."""
        return _trip(self._canaries.get(peer))

    def _due(self) -> list[tuple[tuple[str, str], Callable[..., Awaitable[None]]]]:
        """The fetches that are due now."""
        now = trio.current_time()
        jobs: list[tuple[tuple[str, str], Callable[..., Awaitable[None]]]] = []
        peers = self._components.borrowing()
        for check in self._checks:
            for name in peers if check.scope == "peer" else ("",):
                probed = self._found.get((name, check.name))
                # As soon as a peer can be probed: its connections are open then.
                if (probed is None or probed.due <= now) and self._client(name) is not None:
                    jobs.append(((name, check.name), self._check(check)))
        for name, borrowing in peers.items():
            tried = self._canaries.get(name)
            last = max(borrowing.replication.queue.worked, tried.at if tried else float("-inf"))
            if now - last > QUIET:
                jobs.append(((name, ""), self._canary))
        for key in self._found.keys() | {(name, "") for name in self._canaries}:
            if key[0] and key[0] not in peers:
                if key[1]:
                    self._plugins.gauge("probe", key[1]).forget_peer(key[0])
                self._found.pop(key, None)
                self._canaries.pop(key[0], None)
        return [job for job in jobs if job[0] not in self._busy]

    async def _do(self, key: tuple[str, str], job: Callable[..., Awaitable[None]]) -> None:
        """Send one probe behind its wall."""
        try:
            async with self._limit:
                with trio.move_on_after(DEADLINE):
                    await job(key)
        except* Exception as group:
            log.debug("a probe failed", extra={"peer": key[0], "reason": repr(group)})
        finally:
            self._busy.discard(key)

    def _check(self, check: Check) -> Callable[[tuple[str, str]], Awaitable[None]]:
        async def job(key: tuple[str, str]) -> None:
            client = self._client(key[0])
            gauge = self._plugins.gauge("probe", check.name)
            before = self._found.get(key, _Probed(0.0, None))
            failed = msgspec.structs.replace(before, failures=before.failures + 1)
            if client is None or check.probe is None or gauge.rests:
                later = trio.current_time() + PATIENCE
                self._found[key] = msgspec.structs.replace(before, due=later)
                return
            settings = self._plugins.settings("check", check.name)
            text = f"no answer within {DEADLINE:g} s"
            try:
                value = await gauge.run(check.probe, Reader(client, settings))
                failed, text = _Probed(0.0, value), ""
            except LiqodError as error:
                text = str(error)
                if isinstance(error, PluginError):
                    gauge.rest((key[0], "probe"), text)
                raise
            else:
                gauge.resting.pop((key[0], "probe"), None)
            finally:
                pause = PATIENCE if text else check.every
                due = trio.current_time() + pause
                self._found[key] = msgspec.structs.replace(failed, due=due, error=text)

        return job

    def _client(self, peer: str) -> Client | None:
        if not peer:
            return self._context.client
        remote = self._remote(peer)
        return None if remote is None else remote.client

    def _remote(self, peer: str) -> "Remote | None":
        found = self._components.peers.get(peer)
        borrowing = self._components.borrowing().get(peer)
        if found is None or borrowing is None or not found.link.up:
            return None
        return borrowing.remotes.control()

    async def _canary(self, key: tuple[str, str]) -> None:
        """Send a test write to a peer: our own slice, patched as a dry run, unchanged."""
        peer = key[0]
        remote, borrowing = self._remote(peer), self._components.borrowing().get(peer)
        ours = [] if borrowing is None else borrowing.replication.slices
        if remote is None or not ours:
            return
        began, error = trio.current_time(), ""
        try:
            await remote.client.raw(
                "PATCH",
                RESOURCE_SLICES.path(remote.namespace, ours[0]),
                query={"dryRun": "All"},
                headers={"Accept": PARTIAL, "Content-Type": MERGE_PATCH},
                body=msgspec.json.encode({"metadata": {"annotations": {CANARY: str(began)}}}),
            )
        except LiqodError as failure:
            error = str(failure)
        took = trio.current_time() - began
        self._canaries[peer] = _Taken(trio.current_time(), took, error)

    async def _follow_server(self) -> NoReturn:
        while True:
            await self._probe_server()
            await trio.sleep(SERVER_EVERY)

    async def _probe_server(self) -> None:
        began, clock, error = trio.current_time(), time.time(), "it does not answer"
        with trio.move_on_after(DEADLINE):
            try:
                answer = await self._context.client.raw("GET", "/livez")
                error = ""
                took = trio.current_time() - began
                date = date_of(answer.headers.get("date", ""))
                self.skew = None if date is None else skew(date, clock, took)
            except LiqodError as failure:
                error = str(failure)
        self._server = _Taken(trio.current_time(), trio.current_time() - began, error)


def _trip(taken: _Taken | None) -> Trip | None:
    if taken is None:
        return None
    return Trip(trio.current_time() - taken.at, taken.took, taken.error)
