"""Talks to a running daemon over the inspector's socket, for the commands that look inside.

``--socket`` names it, or ``--cluster-id``; else it is the daemon of the cluster that the kubeconfig
leads to. Where there is no kubeconfig, the only daemon of this machine is meant.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from glob import glob
from pathlib import Path
from typing import TypeVar

import trio

from liqod import websocket
from liqod.apimachinery import labels
from liqod.cli.clusters import AGENT
from liqod.cluster.ownid import cluster_id as own_id
from liqod.cluster.ownid import cluster_uid, original_id
from liqod.errors import ConfigError, LiqodError, ProtocolError, Unreachable
from liqod.inspect import protocol
from liqod.inspect.protocol import (
    ClientMessage,
    InspectorHello,
    RequestRefused,
    ServerMessage,
    StateSnapshot,
)
from liqod.kube.client import Client
from liqod.kube.credentials import credentials
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.http.wire import Wire, wire_of
from liqod.model.view import whereabouts
from liqod.model.view.state import LiveState, join
from liqod.runtime.supervise import leaves
from liqod.websocket import Websocket, WebsocketClosed

T = TypeVar("T")

CONNECT = 3.0
ASKING = 5.0
"""Seconds for asking an API server which cluster it is."""
KUBECONFIG_ONLY = "`liqod status` and `liqod doctor` need the kubeconfig only"
ELSEWHERE = (
    "start `liqod run`; where it runs on another machine, use this there, or `liqod top --url` and "
    f"its [inspector] host; {KUBECONFIG_ONLY}"
)
"""Advice where no daemon is at hand."""


class NoDaemon(LiqodError):
    """No daemon answers on this machine.

    Attributes:
        what: in a few words.
    """

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(f"{what}: {remedy}" if remedy else what)
        self.what = what


class InspectorClient:
    """A connection to a daemon.

    Attributes:
        hello: its greeting.
    """

    def __init__(self, connection: Websocket, hello: InspectorHello) -> None:
        self.hello = hello
        self._connection = connection
        self._ids = 0

    async def send(self, message: ClientMessage) -> None:
        """Say something. Raises Unreachable when the daemon is gone."""
        try:
            await self._connection.send(protocol.encode(message).decode())
        except WebsocketClosed as error:
            raise Unreachable("the daemon has closed the connection") from error

    async def receive(self) -> ServerMessage:
        """The next message; those of types that are not known here are skipped.

        Raises:
            Unreachable: the daemon is gone.
            ProtocolError: it sends nonsense.
        """
        while True:
            message = await receive(self._connection)
            if message is not None:
                return message

    def number(self) -> int:
        """An id for the next request."""
        self._ids += 1
        return self._ids

    async def request(self, request: protocol.InspectorRequest, expected: type[T]) -> T:
        """The answer to a request of which one message is expected.

        Raises:
            ConfigError: it is refused.
        """
        await self.send(request)  # type: ignore[arg-type]  # a request is one of them
        while True:
            message = await self.receive()
            if isinstance(message, RequestRefused) and message.id == request.id:
                raise ConfigError(message.reason)
            if isinstance(message, expected):
                return message

    async def snapshot(self, *, events: int = 0, lines: int = 0) -> tuple[StateSnapshot, LiveState]:
        """Begin to watch: the first part of the snapshot, and the whole state."""
        await self.send(protocol.Subscribe(events=events, lines=lines))
        first: StateSnapshot | None = None
        state = LiveState()
        while True:
            message = await self.receive()
            if not isinstance(message, StateSnapshot):
                continue
            state = message.state if first is None else join(state, message.state)
            first = first or message
            if not message.more:
                return first, state


async def receive(connection: Websocket) -> ServerMessage | None:
    """The next message, None for one that is not known here.

    Raises as :meth:`InspectorClient.receive`.
    """
    try:
        return protocol.read_server(await connection.receive())
    except WebsocketClosed as error:
        raise Unreachable(f"the daemon has closed the connection {error.reason}".strip()) from error
    except protocol.Unreadable as error:
        raise ProtocolError(f"the daemon says what cannot be read: {error}") from error


def here(cluster_id: str = "") -> list[Path]:
    """The sockets of this machine's daemons, or of that cluster's."""
    looked = whereabouts.patterns(os.environ, cluster_id)
    paths = [Path(each) for pattern in looked for each in sorted(glob(pattern))]
    shown = (each for each in paths if each.is_socket() and not whereabouts.is_of_node(each))
    return list(dict.fromkeys(shown))


async def refusal(cluster_id: str) -> str:
    """Says that a socket of that cluster on this machine has no daemon; empty where none shows it.

    Its process is gone where nobody accepts at it. Another daemon may lead all the same.
    """
    for each in here(cluster_id):
        try:
            with trio.move_on_after(CONNECT):
                await (await trio.open_unix_socket(str(each))).aclose()
        except ConnectionRefusedError:
            return f"nobody answers at {each}"
        except OSError:
            continue
    return ""


async def place(
    path: Path | None, cluster_id: str = "", kubeconfig: Path | None = None, context: str = ""
) -> Path:
    """The socket of the daemon that is meant.

    Args:
        path: the socket itself, if it was named.
        cluster_id: of this cluster, if it was named.
        kubeconfig: else of the cluster that it leads to; None for the usual places.
        context: in that kubeconfig.

    Raises:
        NoDaemon: it has none here.
        ConfigError: nothing says which of several is meant, or the kubeconfig makes no sense.
    """
    if path is not None or cluster_id:
        return find(path, cluster_id)
    try:
        found = await credentials.load(kubeconfig, context or None)
    except ConfigError:
        if kubeconfig is not None or os.environ.get("KUBECONFIG"):
            raise
        return find(None)
    near = await daemon_socket(found.server)
    if near is not None:
        return near
    if not here():
        return find(None)
    return await of_cluster(*await _id_of(found))


async def daemon_socket(server: str) -> Path | None:
    """The socket of the daemon that works with the API server of that URL; None for none."""
    for each in here():
        try:
            async with _connected(each) as viewer:
                if viewer.hello.server == server:
                    return each
        except LiqodError:
            continue
    return None


async def _id_of(found: Credentials) -> tuple[str, str]:
    """The id of a cluster and the UID of its kube-system, as its API server reports them."""
    problem = "it does not answer"
    with trio.move_on_after(ASKING):
        try:
            async with Client(found, user_agent=AGENT) as client:
                known = await original_id(client, labels.LIQO_NAMESPACE)
                known = known or await own_id(client, labels.LIQO_NAMESPACE)
                return known, await cluster_uid(client)
        except LiqodError as error:
            problem = str(error)
    names = ", ".join(str(each) for each in here())
    raise NoDaemon(
        f"whether a daemon of this machine ({names}) is that of {found.server} is not known: "
        f"{problem}; say --cluster-id or --socket"
    )


async def of_cluster(cluster_id: str, uid: str) -> Path:
    """The socket of the daemon of that very cluster: another on this machine may have its id.

    Args:
        cluster_id: its id.
        uid: of its kube-system, as :func:`liqod.cluster.ownid.cluster_uid`; empty where
            that is not known.

    Raises:
        NoDaemon: there is none that answers, or it is another cluster's.
        ConfigError: as :func:`find`.
    """
    near = here(cluster_id)
    if not uid or not near:
        return find(None, cluster_id)
    problem: LiqodError | None = None
    for each in near:
        try:
            async with _connected(each) as viewer:
                if viewer.hello.cluster_uid in ("", uid):  # older ones do not say it
                    return each
            what = f"the daemon at {each} is that of another cluster of the id {cluster_id}"
            problem = problem or NoDaemon(what, ELSEWHERE)
        except LiqodError as error:
            problem = problem or error
    raise problem or NoDaemon(f"no daemon of {cluster_id} answers here", ELSEWHERE)


async def preferred(kubeconfig: Path | None, context: str) -> tuple[Path | None, str]:
    """The socket of the daemon that the kubeconfig leads to, of several; or None, and why not.

    Args:
        kubeconfig, context: as :func:`place`.

    Raises:
        ConfigError: a kubeconfig that was named makes no sense.
    """
    try:
        return await place(None, "", kubeconfig, context), ""
    except ConfigError as error:
        if kubeconfig is not None:
            raise
        return None, str(error)
    except LiqodError as error:
        return None, str(error)


def find(path: Path | None, cluster_id: str = "") -> Path:
    """The socket to use.

    Raises:
        NoDaemon: there is none.
        ConfigError: there are several, and nothing says which.
    """
    if path is not None:
        return path
    found = here(cluster_id)
    if not found:
        whose = f" of {cluster_id}" if cluster_id else ""
        places = ", ".join(whereabouts.patterns(os.environ, cluster_id))
        raise NoDaemon(f"no daemon{whose} has a socket here ({places})", ELSEWHERE)
    if len(found) > 1:
        names = ", ".join(str(each) for each in found)
        raise ConfigError(f"several daemons run here: say --socket, or --cluster-id: {names}")
    return found[0]


@asynccontextmanager
async def connect(
    path: Path | None, cluster_id: str = "", kubeconfig: Path | None = None, context: str = ""
) -> AsyncIterator[InspectorClient]:
    """A connection to a daemon on this machine; arguments as :func:`place`.

    Raises:
        NoDaemon: none answers.
        ConfigError: as :func:`place`.
    """
    async with _connected(await place(path, cluster_id, kubeconfig, context)) as viewer:
        yield viewer


@asynccontextmanager
async def _connected(where: Path) -> AsyncIterator[InspectorClient]:
    try:
        wire = await _open(where)
        try:
            async with trio.open_nursery() as nursery:
                connection, hello = await _greet(nursery, wire, where)
                try:
                    yield InspectorClient(connection, hello)
                finally:
                    await connection.close()
                    nursery.cancel_scope.cancel()
        finally:
            wire.close()
    except BaseExceptionGroup as group:  # the nursery is nobody's affair but ours
        found = leaves(group)
        if len(found) == 1:
            raise found[0] from None
        raise


async def _open(where: Path) -> Wire:
    try:
        return wire_of(await trio.open_unix_socket(str(where)))
    except OSError as error:
        raise NoDaemon(f"no daemon answers at {where}: {error.strerror or error}") from error


async def _greet(
    nursery: trio.Nursery, wire: Wire, where: Path
) -> tuple[Websocket, InspectorHello]:
    with trio.move_on_after(CONNECT):
        try:
            connection = await websocket.connect(
                nursery, wire, "localhost", protocol.PATH, largest=protocol.SERVER_LIMIT
            )
            hello = await receive(connection)
        except Unreachable as error:
            raise NoDaemon(f"no daemon answers at {where}: {error}") from error
        if isinstance(hello, InspectorHello):
            return connection, hello
    raise NoDaemon(f"the daemon at {where} does not answer")
