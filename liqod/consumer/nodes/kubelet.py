"""The kubelet API of all virtual nodes: logs, streams and figures of pods that run at peers.

This cluster's API server calls it for ``kubectl logs``, ``exec``, ``attach``, ``port-forward`` and
``cp``. The caller is checked as a kubelet checks it; then the same request goes to the peer's API
server, with the identity that the peer gave this cluster, and bytes are carried as they are. A
metrics-server reads the usage of pods; a request that is for a node itself names it
(:mod:`liqod.model.crossing.noderequests`). No caller reaches a pod there that was made for
another local one, whatever both are called.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Final, NoReturn

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import PODS
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.consumer.nodes import nodepages
from liqod.consumer.nodes.kubeletaccess import Access
from liqod.consumer.nodes.podproxy import PodProxies, PodProxy
from liqod.consumer.nodes.podusage import PodLocation
from liqod.consumer.nodes.servingcertificate import ServingCertificate
from liqod.consumer.timings import ORDINARY, ConsumerTimings
from liqod.errors import (
    Conflict,
    Forbidden,
    Invalid,
    LiqodError,
    NotFound,
    Overloaded,
    ProtocolError,
    Unauthorized,
    Unreachable,
)
from liqod.kube.http.httpserver import HttpRequest, HttpResponse, Limits, Open
from liqod.kube.http.listener import listen, wildcard
from liqod.kube.http.splice import splice
from liqod.kube.http.transport import ApiStream, Upgraded
from liqod.kube.http.wire import Wire
from liqod.model.crossing import noderequests
from liqod.model.crossing.noderequests import NodeRequest, node_request
from liqod.model.crossing.podrequests import LOG, PodRequest, agreed, pod_request, switch
from liqod.model.objects.partial import Pod
from liqod.runtime import account
from liqod.runtime.account import Account
from liqod.runtime.splice import Broken, Silent

IDLE: Final = 4 * 3600.0
"""Seconds after which a stream ends without traffic: a kubelet's own default."""
LINGER: Final = 30.0
"""The same once one side has ended its direction."""
AUTHORITY_EVERY: Final = 300.0
"""Seconds between reads of the authority for client certificates; fewer while it is unknown."""
AUTHORITY_AGAIN: Final = 10.0
LIMITS: Final = Limits(
    head=65536,
    body=65536,
    idle=30.0,
    paced=True,
    stall=IDLE,
    parameters=4096,
)
_TEXT: Final = {"content-type": "text/plain; charset=utf-8"}
_JSON: Final = {"content-type": "application/json"}

log = logging.getLogger(__name__)


class KubeletServer:
    """Listens for every virtual node of this daemon.

    Args:
        proxies: to the pods at peers.
        open_listeners: the listeners; tests have listeners without sockets.

    Attributes:
        port: the TCP port in use, once :meth:`run` has started.
        streams: how many are open.
    """

    def __init__(
        self,
        context: ClusterContext,
        proxies: PodProxies,
        callers: Account,
        *,
        open_listeners: Open = trio.open_tcp_listeners,
        timings: ConsumerTimings = ORDINARY,
    ) -> None:
        self._context, self._proxies, self._account = context, proxies, callers
        self._open_listeners = open_listeners
        self._access = Access(context, proxies, timings)
        self._places = callers[account.KUBELET]
        self.port = 0
        self.streams = 0

    async def run(self, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; starts with the port.

        Raises:
            ConfigError: the address cannot be bound.
        """
        settings = self._context.config.kubelet
        await self._access.renew()  # else the first caller is refused
        async with trio.open_nursery() as nursery:
            self.port = await nursery.start(
                partial(
                    listen,
                    "kubelet",
                    self.answer,
                    host=settings.listen or wildcard(self._context.node_address),
                    port=settings.port,
                    ssl_context=self._access.context,
                    limits=LIMITS,
                    places=self._account[account.KUBELET_STRANGERS],
                    known=self._places,
                    open_listeners=self._open_listeners,
                )
            )
            task_status.started(self.port)
            nursery.start_soon(self._access.serving.run)
            await self._follow_authority()

    @property
    def serving(self) -> ServingCertificate:
        """The keeper of the certificate that is shown."""
        return self._access.serving

    async def _follow_authority(self) -> NoReturn:
        told = ""
        while True:
            problem = self._access.problem
            if problem and problem != told:
                log.warning("kubelet API: client certificates are refused: %s", problem)
            told = problem
            await trio.sleep(AUTHORITY_AGAIN if problem else AUTHORITY_EVERY)
            await self._access.renew()

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer one request; a refusal gives its reason."""
        try:
            page = node_request(request.path, request.headers)
            if page is not None:
                return await self._page(request, page)
            user = await self._access.user(request)
            asked = pod_request(request.path, request.query)
            found = await self._context.client.find(PODS, asked.pod, asked.namespace, decode=Pod)
            node = found.spec.node_name if found is not None else ""
            await self._access.check(user, node)
            proxy = next((each for each in self._proxies.values() if each.has(node)), None)
            if found is None or proxy is None:
                raise NotFound(f"the pod {asked.namespace}/{asked.pod} is on no virtual node here")
            if self.streams >= self._places.most:
                self._places.refuse("", "full")
                raise Overloaded(f"{self._places.most} streams are open at once", status=429)
        except LiqodError as error:
            return _refused(error, str(error), upgrade=request.upgrade)
        self.streams += 1
        proxy.streams += 1
        try:
            place = proxy.resolve(node, asked.namespace)
            await _check(place, asked.pod, found.metadata.uid)
            open_ = self._logs if asked.action == LOG else self._stream
            return await open_(asked, request, proxy, place)
        except LiqodError as error:
            self._ended(proxy)
            return _refusal_response(_of_peer(error, proxy.id, upgrade=request.upgrade), asked)
        except BaseException:
            self._ended(proxy)
            raise

    async def _page(self, request: HttpRequest, asked: NodeRequest) -> HttpResponse:
        """Answer a request about a virtual node itself and its pods.

        Raises:
            LiqodError: there is no answer, with the reason.
        """
        proxies = list(self._proxies.values())
        every = [(node, proxy) for proxy in proxies for node in proxy.nodes]
        node = asked.node or (every[0][0] if len(every) == 1 else "")
        user = await self._access.reader(request)
        await self._access.check_reader(user, node, asked.subresources)
        if request.method != "GET":
            raise Invalid("what a virtual node says of itself is asked for by GET")
        if asked.page not in noderequests.SERVED:
            raise NotFound(f"a virtual node has no {asked.page}")
        proxy = next((each for name, each in every if name == node), None)
        if proxy is None:
            several = f"name one, as {noderequests.ROOT}/NAME{asked.page} or through the API server"
            why = f"{node} is no virtual node here" if node else several
            raise NotFound(why if every else "there is no virtual node here")
        try:
            return await _page_response(asked.page, node, proxy)
        except LiqodError as error:
            return _of_peer(error, proxy.id, upgrade=request.upgrade)

    async def _logs(
        self, asked: PodRequest, request: HttpRequest, proxy: PodProxy, place: PodLocation
    ) -> HttpResponse:
        if request.method != "GET" or request.upgrade:
            raise Invalid("logs are asked for by GET")
        stack = AsyncExitStack()
        path = PODS.path(place.namespace, asked.pod, asked.action)
        opening = place.client.stream(
            "GET", path, query=asked.parameters, label=("get", "pods/log")
        )
        stream = await stack.enter_async_context(opening)
        stack.enter_context(proxy.hold(stream.connection.close))
        stack.callback(self._ended, proxy)
        return HttpResponse(200, _Log(stream, stack, proxy.id), dict(_TEXT))

    async def _stream(
        self, asked: PodRequest, request: HttpRequest, proxy: PodProxy, place: PodLocation
    ) -> HttpResponse:
        if request.method not in ("GET", "POST") or not request.upgrade:
            raise Invalid(f"{asked.action} is asked for with an upgrade, by GET or POST")
        wanted = switch(request.headers)
        there = await place.client.upgrade(
            request.method,
            PODS.path(place.namespace, asked.pod, asked.action),
            query=asked.parameters,
            headers=wanted.headers,
            label=("create", f"pods/{asked.action}"),
        )
        try:
            headers = agreed(wanted, there.headers)
        except BaseException:
            there.wire.close()
            raise
        return HttpResponse(
            101, headers=headers, takeover=_Relayed(there, proxy, partial(self._ended, proxy))
        )

    def _ended(self, proxy: PodProxy) -> None:
        self.streams -= 1
        proxy.streams -= 1


class _Relayed:
    """A stream to a pod at a peer, from the moment at which the peer has agreed to it."""

    def __init__(self, there: Upgraded, proxy: PodProxy, ended: Callable[[], None]) -> None:
        self._there, self._first, self._proxy, self._ended = there.wire, there.early, proxy, ended

    async def run(self, wire: Wire, early: bytes, /) -> None:
        """Carry bytes both ways; those that came before the other side was connected go first."""
        there, first, self._first = self._there, self._first, b""
        with self._proxy.hold(there.close):
            try:
                if early:
                    await _in_time(there.send(early))
                if first:
                    await _in_time(wire.send(first))
                del early, first
                limits = {"idle": IDLE, "lingering": LINGER}
                await splice(wire, there, budget=self._proxy.budget, **limits)
            except Broken as error:
                if not error.first:
                    _tell(self._proxy.id, str(error))
            except Silent as error:
                _tell(self._proxy.id, str(error))

    def close(self) -> None:
        """Close the connection to the peer."""
        self._there.close()
        self._ended()


class _Log:
    """The log of a container at a peer, as the body of an answer."""

    def __init__(self, stream: ApiStream, stack: AsyncExitStack, peer: str) -> None:
        self._stream, self._stack, self._peer = stream, stack, peer

    def __aiter__(self) -> "_Log":
        return self

    async def __anext__(self) -> bytes:
        try:
            data = await self._stream.receive()
        except Unreachable as error:
            _tell(self._peer, str(error))
            raise
        if not data:
            raise StopAsyncIteration
        return data

    async def aclose(self) -> None:
        """Close the connection to the peer."""
        await self._stack.aclose()


async def _check(place: PodLocation, pod: str, uid: str) -> None:
    """Check that the pod there was made for the local one; one that Liqo made does not show it.

    Raises:
        NotFound: it was made for another one, which is still to end there.
    """
    there = await place.client.find(PODS, pod, place.namespace, decode=Partial)
    if there is not None and there.metadata.annotations.get(labels.LOCAL_UID, uid) != uid:
        raise NotFound(f"the pod {pod} there is not this one's: that has still to end, or to begin")


async def _page_response(page: str, node: str, proxy: PodProxy) -> HttpResponse:
    """One page of a node."""
    if page == noderequests.PODS:
        return HttpResponse(200, _pieces(nodepages.pod_list(proxy.pods(node))), dict(_JSON))
    if page == noderequests.HEALTHZ:
        proxy.healthy()
        return HttpResponse(200, b"ok", dict(_TEXT))
    reading, complete = await proxy.usage.of(node, proxy.pods(node))
    if page == noderequests.STATS:
        return HttpResponse(200, nodepages.stats_summary(reading), dict(_JSON))
    body = nodepages.resource_metrics(reading, complete=complete)
    return HttpResponse(200, body, {"content-type": nodepages.PROMETHEUS})


async def _pieces(found: Iterator[bytes]) -> AsyncIterator[bytes]:
    for each in found:
        yield each


async def _in_time(sending: Awaitable[None]) -> None:
    with trio.move_on_after(LINGER) as scope:
        await sending
    if scope.cancelled_caught:
        raise Unreachable("what came early is not taken")


def _tell(peer: str, why: str) -> None:
    log.warning("a stream of a pod ended: the peer %s: %s", peer, why)


def _of_peer(error: LiqodError, peer: str, *, upgrade: bool) -> HttpResponse:
    """The response for a request that the peer refuses or cannot answer."""
    if isinstance(error, Unauthorized):  # it is not the caller that the peer refuses
        error = ProtocolError(str(error))
    return _refused(error, f"the peer {peer}: {error}", upgrade=upgrade)


def _refused(error: LiqodError, message: str, *, upgrade: bool) -> HttpResponse:
    """The response for a refusal: text, or a Status where an upgrade was requested."""
    code, reason = _code(error)
    if not upgrade:
        return HttpResponse(code, f"{message}\n".encode(), dict(_TEXT))
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return HttpResponse(code, msgspec.json.encode(status), dict(_JSON))


def _refusal_response(refusal: HttpResponse, asked: PodRequest) -> HttpResponse:
    """A refusal as an API server passes it on to its caller.

    Of the answer to a request without an upgrade it drops the text that comes with a 503, and only
    reports that the server is unable to handle the request; that of a 500 it passes on.
    """
    if asked.action == LOG and refusal.status == 503:
        refusal.status = 500
    return refusal


def _code(error: LiqodError) -> tuple[int, str]:
    match error:
        case Unauthorized():
            return 401, "Unauthorized"
        case Forbidden():
            return 403, "Forbidden"
        case NotFound():
            return 404, "NotFound"
        case Conflict():
            return 409, "Conflict"
        case Invalid():
            return 400, "BadRequest"
        case Overloaded() if error.status == 429:
            return 429, "TooManyRequests"
        case ProtocolError():
            return 502, "InternalError"
    return 503, "ServiceUnavailable"
