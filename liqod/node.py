"""``liqod node``: the small daemon of every node, which leads from there to the gateway.

    health ⊃ client ⊃ what it watches ⊃ the agent

Leading to the gateway is the work of :mod:`liqod.network.overlay.agent`, which knows nothing of
peers. On the gateway's machine it has the tunnels, as the daemon orders over a socket
(:mod:`liqod.network.machineprogram`): without the API server, and without the daemon, too. The
state that it has applied to the kernel outlives it; ``--clean`` removes it, and ``--clean-all``
with it that of other daemons.
"""

import argparse
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn
from urllib.parse import urlsplit

import msgspec
import trio

from liqod import __version__, healthz
from liqod.config import Config, load
from liqod.errors import ConfigError, LiqodError, NetworkError, Unreachable
from liqod.kube.cache.informers import Informers
from liqod.kube.client import Client
from liqod.kube.controller import report_failures
from liqod.kube.credentials import credentials
from liqod.kube.http.resolver import HostResolver
from liqod.model.crossing.addresses import parse
from liqod.network.dataplane.kernel import capabilities
from liqod.network.machineprogram import MachineProgram
from liqod.network.overlay.agent import NodeAgent
from liqod.network.overlay.kernel import NodeKernel
from liqod.runtime import account, log, sdnotify
from liqod.runtime.account import Account
from liqod.runtime.arguments import Parser
from liqod.runtime.backoff import Backoff
from liqod.runtime.log import Seldom
from liqod.runtime.sourceaddress import source_address
from liqod.runtime.supervise import Failure, Supervision, explain
from liqod.telemetry import registry

HEALTH_PORT = 10273
"""Another than the daemon's, which may be on the same node."""
METRICS = "text/plain; version=0.0.4; charset=utf-8"
RETRIES: Final = Backoff(first=1.0, last=30.0)
"""Seconds until the cluster is tried again, whose credentials cannot be read."""

logger = logging.getLogger("liqod.node")


def parser() -> Parser:
    """The options of ``liqod node``."""
    made = Parser(
        prog="liqod node",
        description="Lead from this node of a cluster to its gateway, until SIGTERM.",
    )
    made.add_argument("--config", metavar="FILE", help="TOML file (default: $LIQOD_CONFIG)")
    made.add_argument(
        "--name", default="", help="of the Node (default: [network] node, or the host's name)"
    )
    made.add_argument(
        "--health-port", type=int, default=HEALTH_PORT, metavar="PORT", help="0: serve no health"
    )
    made.add_argument("--clean", action="store_true", help="take away what it has applied, and end")
    made.add_argument(
        "--clean-all",
        action="store_true",
        help="take away what the daemons of any cluster have applied to this machine, and end",
    )
    # For tests: a namespace below /run/netns that stands for a node.
    made.add_argument("--network-namespace", default="", help=argparse.SUPPRESS)
    made.add_argument("--verbose", "-v", action="store_true", help="log more")
    return made


def command(arguments: list[str]) -> int:
    """``liqod node``: parse its options, run until SIGTERM, return the exit status."""
    options = parser().parse_args(arguments)
    log.set_up(os.environ, verbose=options.verbose)
    kernel = NodeKernel(options.network_namespace or None)
    try:
        config = load(options.config, os.environ)
    except ConfigError as error:
        logger.error("%s", error)
        return 2
    try:
        lacks = capabilities.look(tunnels=False)
    except NetworkError as error:
        logger.error("%s", error)
        return 1
    if lacks is not None:
        logger.error("%s: run it as root, or by the unit that systemd.md describes", lacks)
        return 2
    status = 0
    try:
        if options.clean_all:
            # Here: it brings every backend, for which a daemon of a node has no use.
            from liqod.network.cleaning import sweep_machine

            trio.run(_tell, sweep_machine)
        elif options.clean:
            trio.run(_tell, kernel.remove)
        else:
            name = options.name or config.network.node or socket.gethostname().lower()
            place = options.network_namespace or None
            trio.run(NodeDaemon(config, name, kernel, options.health_port, place).run)
    except* LiqodError as group:
        logger.error("%s", explain(group))
        status = 1
    return status


async def _tell(remove: Callable[[], Awaitable[list[str]]]) -> None:
    for line in await remove():
        logger.info("%s", line)


@dataclass(frozen=True)
class _Host:
    """For whom the agent works."""

    informers: Informers

    def failures(self, topic: str) -> Callable[[object, Exception], None]:
        return report_failures(lambda key, reason: None, topic)


class NodeDaemon:
    """One process.

    Args:
        config: the configuration, of which it goes by ``[cluster]``, ``[network]``, ``[plugins]``
            and ``[health]``.
        name: of the Node.
        kernel: of the node.
        port: of the health probes; 0 for none.
        place: name of the node's network namespace; None for the one that this process is in.
    """

    def __init__(
        self, config: Config, name: str, kernel: NodeKernel, port: int, place: str | None = None
    ) -> None:
        self._config, self._place = config, place
        self._name = name
        self._kernel = kernel
        self._port = port
        self._health = healthz.HealthServer()
        self._agent: NodeAgent | None = None

    async def run(self) -> None:
        """Everything, until SIGTERM or SIGINT."""
        registry.new_registry()
        trio.socket.set_custom_hostname_resolver(HostResolver())
        callers = self._callers = account.derived(account.NODE_SHARES)
        machine = MachineProgram(self._config, callers, node=self._place)
        async with trio.open_nursery() as outer:
            outer.start_soon(_until_signalled, outer.cancel_scope)
            outer.start_soon(sdnotify.watchdog)
            if self._config.health.enabled and self._port:
                where = msgspec.structs.replace(self._config.health, port=self._port)
                self._health.metrics = self._metrics
                places = callers[account.PROBES]
                await outer.start(self._health.serve, where, places)
            outer.start_soon(machine.run)
            self._report("looking for the API server", False)
            sdnotify.notify("READY=1")
            await self._follow(machine)

    async def _follow(self, machine: MachineProgram) -> NoReturn:
        """Follow the cluster, as often as it takes: the tunnels here stand without it."""
        seldom, failures = Seldom(), 0
        while True:
            try:
                await self._attend(machine)
            except* (LiqodError, OSError) as group:
                why = explain(group)
                self._report(f"the cluster is not followed: {why}", False)
                if seldom.allows(why):
                    logger.error("the cluster is not followed: %s", why)
            failures += 1
            await trio.sleep(RETRIES.delay(failures))

    async def _attend(self, machine: MachineProgram) -> None:
        """Follow it with the credentials that there are now."""
        settings = self._config.cluster
        found = await credentials.load(
            Path(settings.kubeconfig) if settings.kubeconfig else None,
            settings.context or None,
        )
        async with Client(found, user_agent=f"liqod-node/{__version__}") as client:
            await self._serve(client, machine)

    async def _serve(self, client: Client, machine: MachineProgram) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Supervision(self._kernel.run, self._unheard).forever)
            servers = _ApiServers(client.server)
            nursery.start_soon(_reserve, servers, machine)
            self._agent = NodeAgent(
                _Host(Informers(client, nursery)),
                client,
                self._name,
                self._config.cluster.namespace,
                self._kernel,
                servers.look,
                self._report,
                machine,
                self._config.network.reserved,
            )
            await self._agent.run()

    def _unheard(self, failure: Failure | None, error: BaseException | None) -> None:
        if failure is not None:
            logger.warning("changes of the network are not heard: %s", failure.reason)

    def _report(self, state: str, settled: bool) -> None:
        """Keep the probes' and systemd's words true."""
        self._health.become(f"{self._name}: {state}", ready=settled)
        sdnotify.notify(f"STATUS={self._name}: {state}")

    def _metrics(self, accept: str) -> tuple[bytes, str]:
        lines = ["# TYPE liqod_node_applied gauge"]
        agent = self._agent
        lines.append(f"liqod_node_applied {int(agent is not None and agent.settled)}")
        pinged = agent.pinged if agent is not None else None
        if pinged is not None:
            lines.append("# TYPE liqod_node_gateway_reachable gauge")
            lines.append(f"liqod_node_gateway_reachable {int(pinged.reached)}")
            if pinged.latency is not None:
                lines.append("# TYPE liqod_node_gateway_latency_seconds gauge")
                lines.append(f"liqod_node_gateway_latency_seconds {pinged.latency:.6f}")
        if agent is not None and agent.dropped:
            lines.append("# TYPE liqod_node_dropped_packets_total counter")
            for name, count in sorted(agent.dropped.items()):
                lines.append(f'liqod_node_dropped_packets_total{{reason="{name}"}} {count}')
        lines += _places(self._callers)
        return ("\n".join(lines) + "\n").encode(), METRICS


def _places(callers: Account) -> Iterator[str]:
    """How full each face is, and who was refused, by the names that the daemon has for its own."""
    faces = tuple(callers.faces())
    yield "# TYPE liqod_places_taken gauge"
    yield from (f'liqod_places_taken{{face="{face}"}} {len(each)}' for face, _, each in faces)
    yield "# TYPE liqod_places gauge"
    yield from (f'liqod_places{{face="{face}"}} {each.most}' for face, _, each in faces)
    yield "# TYPE liqod_places_of_one gauge"
    yield from (f'liqod_places_of_one{{face="{face}"}} {each.of_one}' for face, _, each in faces)
    yield "# TYPE liqod_places_refused_total counter"
    for face, share, each in faces:
        for (sort, why), count in sorted(each.refused.items()):
            words = f'face="{face}",reason="{why}",source="{sort or share.source}"'
            yield f"liqod_places_refused_total{{{words}}} {count}"


class _ApiServers:
    """The addresses at which the API server is reached; names are looked up once."""

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).hostname or ""
        self._found: tuple[str, ...] = ()

    async def look(self) -> tuple[str, ...]:
        """The addresses.

        Raises:
            Unreachable: the name is not known; it is looked up again when asked again.
        """
        if not self._found and parse(self._host) is not None:
            self._found = (self._host,)
        if not self._found:
            try:
                every = await trio.socket.getaddrinfo(self._host, 443, type=socket.SOCK_STREAM)
            except OSError as error:
                raise Unreachable(f"{self._host}: {error}") from error
            self._found = tuple(sorted({str(each[4][0]) for each in every}))
        return self._found


async def _reserve(servers: _ApiServers, machine: MachineProgram) -> None:
    """Have no tunnel take the way to the API server, as soon as that is known."""
    while True:
        try:
            found = await servers.look()
            break
        except Unreachable:
            await trio.sleep(RETRIES.last)
    own = []
    for address in found:
        with suppress(OSError):  # there is no way to that one
            own.append(source_address(address))
    machine.reserve(found, tuple(own))


async def _until_signalled(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            logger.info("stopping on %s", signal.Signals(number).name)
            sdnotify.notify("STOPPING=1", "STATUS=stopping")
            scope.cancel()
            return
