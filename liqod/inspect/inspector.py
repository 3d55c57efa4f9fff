"""The inspector as a whole: measures, runs checks, keeps history, and serves viewers.

It runs beside the components and none of them waits for it. If it cannot serve (the socket's
folder is missing, the address is in use) it logs that and the daemon works on without it.
"""

import grp
import logging
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import NoReturn

import trio

from liqod.cluster.context import ClusterContext
from liqod.cluster.ownid import cluster_uid
from liqod.config import InspectorSettings as Settings
from liqod.errors import ConfigError, LiqodError
from liqod.inspect import inspectorserver
from liqod.inspect.access import Guest, Reviewer
from liqod.inspect.answers import Answers
from liqod.inspect.components import Components
from liqod.inspect.doctor import Doctor
from liqod.inspect.inspectorsession import InspectorSession
from liqod.inspect.memoryfacts import FactsInMemory
from liqod.inspect.metrichistory import Histories, Sampler
from liqod.inspect.probing import CheckProbes
from liqod.inspect.stream import Collector, Stream
from liqod.inspect.summary import EventSummary
from liqod.model.view.daemonfacts import LEADING
from liqod.model.view.redact import scrub
from liqod.model.view.rows import Line
from liqod.plugins.host import PluginHost
from liqod.runtime.account import Account
from liqod.runtime.log import PEER, facts
from liqod.websocket import Websocket

TICK = 0.25
"""Seconds in which changes are collected into one update."""
AGAIN = 30.0
"""Seconds until a failed part is restarted."""
WHOLE = 4
"""Ticks between two complete collections."""

log = logging.getLogger(__name__)


class Inspector:
    """The inspector of one daemon."""

    def __init__(
        self, context: ClusterContext, components: Components, plugins: PluginHost, callers: Account
    ) -> None:
        self.summary = EventSummary()
        self.histories = Histories()
        probes = CheckProbes(context, components, plugins)
        self.facts = FactsInMemory(context, components, plugins, self.summary, probes)
        self.sampler = Sampler(self.facts, self.histories)
        self.doctor = Doctor(context, plugins, self.facts, probes)
        self.stream = Stream(context.hub)
        self.context, self.components, self.callers = context, components, callers
        self.hub = context.hub
        self._collector = Collector(context, self.facts, lambda: self.doctor.ladders)
        self._answers = Answers(context, components, self.histories, self.facts, self.doctor)
        context.hub.listen(self.summary.take)

    def become(self, state: str) -> None:
        """Set the daemon's state, such as ``leading``."""
        if state != LEADING:
            self.summary.rest()
        self.sampler.become(state)

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Work until cancelled; started once viewers can connect."""
        lines = LineHandler(self.stream)
        logging.getLogger().addHandler(lines)
        try:
            async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
                for part in (self.sampler.run, self.doctor.run, self._collect, self._identify):
                    nursery.start_soon(_behind_wall, part)
                if self.context.config.inspector.enabled:
                    await self._serve(stack, nursery)
                task_status.started()
                await trio.sleep_forever()
        finally:
            logging.getLogger().removeHandler(lines)
        raise AssertionError("it works until it is cancelled")

    async def _identify(self) -> NoReturn:
        """Read the UID that distinguishes clusters of one id, once the API server answers."""
        while True:
            with suppress(LiqodError):
                self._answers.cluster_uid = await cluster_uid(self.context.client)
                await trio.sleep_forever()
            await trio.sleep(AGAIN)

    async def _collect(self) -> NoReturn:
        """Send the changes while there are viewers."""
        while True:
            await self.stream.wanted.wait()
            tick = 0
            while not self.stream.idle():
                whole = tick % WHOLE == 0
                tick += 1
                try:
                    self.sampler.watched(len(self.stream))
                    self.stream.publish(await self._collector.collect(whole=whole))
                except Exception:  # a wall: a fault of the view affects no component
                    log.exception("the state could not be collected")
                await trio.sleep(TICK)
            self._collector.release()
            self.sampler.watched(0)

    async def _serve(self, stack: AsyncExitStack, nursery: trio.Nursery) -> None:
        settings = self.context.config.inspector
        serving = inspectorserver.Server(self._talk, Reviewer(self.context.client), self.callers)
        try:
            path = inspectorserver.place(settings, os.environ, self.context.cluster_id)
            if path is None:
                log.info("no folder for the inspector's socket; set inspector.socket")
            else:
                listener, path = await self._listen(stack, path)
                nursery.start_soon(serving.run, [listener], None)
                log.info("the inspector listens at %s", path)
            await self._serve_tcp(serving, settings, nursery)
        except ConfigError as error:
            log.error("the inspector is not served: %s", error)

    async def _listen(self, stack: AsyncExitStack, path: Path) -> tuple[trio.SocketListener, Path]:
        """Open the socket; of two daemons of one cluster on a host the second uses another name."""
        settings = self.context.config.inspector
        group = _group(settings.group)
        if not settings.socket:
            with suppress(inspectorserver.Taken):
                return await stack.enter_async_context(
                    inspectorserver.unix_listener(path, group)
                ), path
            path = path.with_stem(f"{path.stem}-{os.getpid()}")
        return await stack.enter_async_context(inspectorserver.unix_listener(path, group)), path

    async def _serve_tcp(
        self, serving: inspectorserver.Server, settings: Settings, nursery: trio.Nursery
    ) -> None:
        if not settings.host:
            return
        certificate = inspectorserver.Certificate(settings.cert_file, settings.key_file)
        certificate.context()
        listeners = await inspectorserver.tcp_listeners(settings.host, settings.port)
        nursery.start_soon(serving.run, listeners, certificate.context)
        port = listeners[0].socket.getsockname()[1]
        log.info("the inspector listens at %s:%d", settings.host, port)

    async def _talk(self, connection: Websocket, guest: Guest) -> None:
        await InspectorSession(connection, guest, self.stream, self._answers).run()


async def _behind_wall(part: Callable[[], Awaitable[object]]) -> NoReturn:
    """Run a part of the inspector for ever: a fault in it is logged, and stops no component."""
    while True:
        try:
            await part()
        except* Exception:
            log.exception("a part of the inspector failed, and is begun anew")
        await trio.sleep(AGAIN)


def _group(name: str) -> int | None:
    """The numeric id of a group. Raises ConfigError for an unknown name."""
    if not name:
        return None
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise ConfigError(f"inspector.group: there is no group {name}") from None


class LineHandler(logging.Handler):
    """Passes log lines to viewers, from any thread; tracebacks stay in the log itself."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        """Pass one record on."""
        tail = "".join(f" {key}={value}" for key, value in facts(record).items())
        line = Line(
            at=round(time.time(), 3),
            level=record.levelname.lower(),
            text=scrub(record.getMessage() + tail)[:2000],
            peer=PEER.get(),
            logger=record.name,
        )
        self._stream.log(line)
