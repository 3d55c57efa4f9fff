"""How an embedded API server calls webhooks: on connections that are kept while they hold."""

import base64
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
import trio

from liqod.errors import LiqodError, ProtocolError
from liqod.identity import certificates
from liqod.kube.http.httpserver import HttpRequest, HttpResponse, serve
from simulator.access.calls import Calls


class Webhook:
    """A server that answers everything; it counts its connections."""

    def __init__(self, nursery: trio.Nursery, folder):
        self.ca = certificates.make_ca("hook")
        self.bundle = base64.b64encode(self.ca.certificate).decode()
        self.connections = self.port = 0
        self.status = 200
        self._nursery = nursery
        self._scope = trio.CancelScope()
        pair = certificates.make_server(self.ca, ["127.0.0.1"])
        (folder / "pair.pem").write_bytes(pair.certificate + pair.key)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "pair.pem")

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}/review"

    async def start(self) -> None:
        self.port = await self._nursery.start(self._run)

    async def _run(self, task_status: trio.TaskStatus[int]) -> None:
        serving = partial(serve, self._answer, ssl_context=self._context, gate=self._greet)
        with trio.CancelScope() as self._scope:
            await serving(port=self.port, task_status=task_status)

    async def restart(self) -> None:
        self._scope.cancel()
        await self.start()

    async def _greet(self) -> None:
        self.connections += 1

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        await trio.sleep(0.05)  # so long that calls overlap
        return HttpResponse(self.status, request.body)


@pytest.fixture
async def webhook(nursery, tmp_path):
    found = Webhook(nursery, tmp_path)
    await found.start()
    yield found
    nursery.cancel_scope.cancel()


@contextmanager
def kept(calls: Calls) -> Iterator[Calls]:
    """Its connections, which are closed in the end."""
    yield calls
    calls.forget()


@pytest.fixture
async def calls():
    with kept(Calls()) as made:
        yield made


async def several(calls: Calls, webhook: Webhook, count: int) -> None:
    """So many calls at once."""
    async with trio.open_nursery() as callers:
        for _ in range(count):
            callers.start_soon(calls.post, webhook.url, webhook.bundle, b"{}")


async def test_one_connection_serves_one_call_after_another(calls, webhook):
    for number in range(5):
        body = b"%d" % number
        assert await calls.post(webhook.url, webhook.bundle, body) == body
    assert webhook.connections == 1


async def test_as_many_as_there_are_calls_at_once_and_no_more_stay(webhook):
    with kept(Calls(max_idle=2)) as calls:
        await several(calls, webhook, 4)
        assert webhook.connections == 4
        await several(calls, webhook, 4)
    assert webhook.connections == 6


async def test_one_that_was_idle_for_long_is_not_used_again(webhook):
    with kept(Calls(idle=-1.0)) as calls:
        await several(calls, webhook, 1)
        await several(calls, webhook, 1)
    assert webhook.connections == 2


async def test_a_server_that_was_started_anew_is_asked_on_a_new_one(calls, webhook):
    await several(calls, webhook, 2)
    await webhook.restart()
    assert await calls.post(webhook.url, webhook.bundle, b"again") == b"again"


async def test_what_is_no_success_is_said_and_the_connection_stays(calls, webhook):
    webhook.status = 500
    for _ in range(2):
        with pytest.raises(ProtocolError, match="answered 500"):
            await calls.post(webhook.url, webhook.bundle, b"{}")
    assert webhook.connections == 1


async def test_who_does_not_trust_it_gets_no_connection_of_who_does(calls, webhook):
    await several(calls, webhook, 1)
    other = base64.b64encode(certificates.make_ca("other").certificate).decode()
    with pytest.raises(LiqodError, match="not trusted"):
        await calls.post(webhook.url, other, b"{}")
