"""What every call of the Kubernetes API shares: identity, paths, queries, and how it is sent.

The verbs are in :mod:`liqod.kube.reads` and :mod:`liqod.kube.client`.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import msgspec

from liqod.errors import ProtocolError
from liqod.kube.cache.outage import Outage
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.http.transport import ClientStats, Dial, Request, Response, Stream, Transport
from liqod.kube.http.turns import Budget
from liqod.kube.http.wire import connect
from liqod.kube.kinds import LEASES, Kind
from liqod.kube.objects import MAX_OBJECT, UNREADABLE

Query = Mapping[str, str | Sequence[str]]

JSON = "application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
URGENT = frozenset({LEASES.plural})
"""Kinds whose requests do not wait behind others: who renews a Lease late is taken for dead."""


class Caller:
    """One identity at one API server. Owns its connections: use ``async with``, or :meth:`aclose`.

    Args:
        credentials: who we are, and where; read from files, they are read again when those change.
        connections: bound of requests under way at once; watches and logs do not count.
        deadline: seconds for a request, retries included.
        user_agent: how we name ourselves.
        dial: makes connections; tests pass their own.
        budget: of the peer whose API server it is; None for this cluster's own.

    Every method raises the errors of :mod:`liqod.errors`; Unreachable after the deadline.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        connections: int = 8,
        deadline: float = 30.0,
        user_agent: str = "liqod",
        dial: Dial = connect,
        budget: Budget | None = None,
    ) -> None:
        self.deadline = deadline
        self.budget = budget
        self.watch_list = True
        """Whether the server may know ``sendInitialEvents``; an informer clears it if not."""
        self.outage = Outage()
        """The informers that cannot follow: the first says so for all, and the first that is back
        has the others try."""
        self.missing: dict[Kind, float] = {}
        """When (Trio time) the definition of a kind was last seen to be missing."""
        self.definitions: dict[Kind, str] = {}
        """The UID of the definition of a kind: one that was made anew was missing in between."""
        self._transport = Transport(
            credentials,
            connections=connections,
            user_agent=user_agent,
            dial=dial,
            budget=budget,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; those in use close when their request ends."""
        self._transport.close()

    def tidy(self) -> None:
        """Close the connections that a burst has left and nobody used for a while."""
        self._transport.tidy()

    def reconnect(self) -> None:
        """Use no connection again that was made before: the way to the server was lost."""
        self._transport.reconnect()

    def wake(self) -> None:
        """Have those that wait after a failure try again now: the server is said to be back."""
        self.outage.wake()

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self._transport.source.peek().server

    @property
    def namespace(self) -> str:
        """The default namespace of the credentials."""
        return self._transport.source.peek().namespace

    @property
    def authority(self) -> bytes | None:
        """PEM of the authorities that the server is held to; None for the system's."""
        return self._transport.source.peek().ca

    @property
    def certificate(self) -> bytes | None:
        """PEM of the client certificate in use, if there is one."""
        return self._transport.source.peek().client_cert

    @property
    def stats(self) -> ClientStats:
        """Requests by verb and kind, bytes, retries, connections."""
        return self._transport.stats

    def busy(self) -> tuple[int, int, int]:
        """How many requests are under way, how many wait for a connection, and open streams."""
        return self._transport.busy()

    def renew(self, credentials: Credentials) -> None:
        """Use other credentials from now on; requests under way end on their old connections."""
        self._transport.source.replace(credentials)

    async def raw(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        deadline: float | None = None,
        limit: int = MAX_OBJECT,
    ) -> Response:
        """Any request; the answer if it is a success.

        Args:
            method: such as ``GET``.
            path: such as ``/version``, percent-encoded.
            query: parameters, encoded here.
            body: sent as ``application/json`` unless ``headers`` say otherwise.
            headers: more headers.
            deadline: seconds, instead of the client's.
            limit: bytes of the answer; TooLarge is raised for more.
        """
        request = Request(
            method,
            target(path, query),
            (method.lower(), "raw"),
            _headers(JSON if headers is None else "", body, headers),
            body,
            limit,
        )
        return await self._transport.send(request, deadline or self.deadline)

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        deadline: float | None = None,
        label: tuple[str, str] | None = None,
    ) -> AbstractAsyncContextManager[Stream]:
        """A request whose answer comes bit by bit, such as ``logs -f``, on its own connection.

        ``deadline`` is for the head of the answer; how long to wait for more is up to the reader.
        """
        request = Request(
            method,
            target(path, query),
            label or (method.lower(), "stream"),
            _headers("*/*", body, headers),
            body,
        )
        return self._transport.open(request, deadline or self.deadline)

    async def _send(
        self,
        method: str,
        path: str,
        label: tuple[str, str],
        *,
        query: Query | None = None,
        accept: str = JSON,
        body: bytes | None = None,
        content: str = JSON,
        limit: int = MAX_OBJECT,
    ) -> Response:
        headers = [("Accept", accept)]
        if body is not None:
            headers.append(("Content-Type", content))
        urgent = label[1] in URGENT
        request = Request(method, target(path, query), label, tuple(headers), body, limit, urgent)
        return await self._transport.send(request, self.deadline)


def _headers(
    accept: str, body: bytes | None, more: Mapping[str, str] | None
) -> tuple[tuple[str, str], ...]:
    headers = {"accept": accept} if accept else {}
    if body is not None:
        headers["content-type"] = JSON
    headers |= {name.lower(): value for name, value in (more or {}).items()}
    return tuple(headers.items())


def target(path: str, query: Query | None) -> str:
    """Path and query as the request line has them."""
    return f"{path}?{urlencode(query, doseq=True)}" if query else path


def label(verb: str, kind: Kind, subresource: str = "") -> tuple[str, str]:
    """What statistics call a request."""
    return verb, f"{kind.plural}/{subresource}" if subresource else kind.plural


def selectors(labels: str, fields: str) -> dict[str, str]:
    """The query of a selection."""
    query = {"labelSelector": labels, "fieldSelector": fields}
    return {name: value for name, value in query.items() if value}


def decode_as(body: bytes, kind: Any) -> Any:
    """JSON as ``kind``. Raises ProtocolError for what is no such thing."""
    try:
        return msgspec.json.decode(body, type=kind)
    except UNREADABLE as error:
        raise ProtocolError(f"the answer is not what it should be: {error}") from error
