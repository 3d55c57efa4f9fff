"""An API server behind an HTTP proxy: everything goes through it, and nobody sees its password."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from liqod.apimachinery.kinds import CONFIG_MAPS, SECRETS
from liqod.consumer.link import dial_server
from liqod.errors import ProtocolError, Unconnected, Unreachable
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.http import proxies
from liqod.kube.selection import Selection
from liqod.kube.watch import WatchEvent
from liqod.resources import FOREIGN_CLUSTERS, RESOURCE_SLICES, TENANTS
from simulator import EmbeddedCluster
from tests.simulated.borrower import eventually
from tests.simulated.members import Member, members

PASSWORD = "hunter2 and/or 3"
WHO = "liqod:hunter2%20and%2For%203"


class Proxy:
    """Connects to whatever it is asked for, and keeps what it was asked."""

    def __init__(self) -> None:
        self.port = 0
        self.asked: list[str] = []
        self.answer = b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n"

    @property
    def url(self) -> str:
        return f"http://{WHO}@127.0.0.1:{self.port}"

    async def serve(self, stream: trio.SocketStream) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            data = await stream.receive_some(100)
            if not data:
                return
            head += data
        method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
        expected = base64.b64encode(f"liqod:{PASSWORD}".encode())
        if b"\r\nProxy-Authorization: Basic " + expected + b"\r\n" not in head:
            await stream.send_all(b"HTTP/1.1 407 Who are you\r\n\r\n")
            return
        assert method == "CONNECT"
        self.asked.append(target)
        await stream.send_all(self.answer)
        host, _, port = target.rpartition(":")
        there = await trio.open_tcp_stream(host, int(port))
        async with there, trio.open_nursery() as both:

            async def pipe(source: trio.SocketStream, target: trio.SocketStream) -> None:
                with trio.CancelScope() as scope:
                    try:
                        while data := await source.receive_some():
                            await target.send_all(data)
                    except (trio.BrokenResourceError, trio.ClosedResourceError):
                        scope.cancel()
                both.cancel_scope.cancel()

            both.start_soon(pipe, stream, there)
            both.start_soon(pipe, there, stream)


@asynccontextmanager
async def proxied() -> AsyncIterator[Proxy]:
    proxy = Proxy()
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        proxy.port = listeners[0].socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, proxy.serve, listeners)
        yield proxy
        nursery.cancel_scope.cancel()


@pytest.fixture
async def cluster():
    async with EmbeddedCluster("milan") as embedded:
        yield embedded


def behind(cluster: EmbeddedCluster, url: str) -> Any:
    """The administrator's credentials, by way of a proxy."""
    text = cluster.kubeconfig.replace(
        f"server: {cluster.server}", f"server: {cluster.server}\n    proxy-url: '{url}'"
    )
    assert "proxy-url" in text
    return from_kubeconfig(text)


async def test_requests_and_watches_go_through_it(cluster):
    async with proxied() as proxy, Client(behind(cluster, proxy.url)) as client:
        await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "default")
        async with client.watch(CONFIG_MAPS, Selection("default")) as watch:
            await watch.next(5)
            await client.create(CONFIG_MAPS, {"metadata": {"name": "b"}}, "default")
            with trio.fail_after(5):
                while (event := await watch.next(5)) is not None:
                    if isinstance(event, WatchEvent) and event.item.key[1] == "b":
                        break
        place = cluster.server.removeprefix("https://")
        assert set(proxy.asked) == {place}
        line = await dial_server(behind(cluster, proxy.url))
        await line.probe(5.0)
        line.close()
        assert len(proxy.asked) == client.stats.connections + 1


async def test_what_a_proxy_refuses_is_told_without_the_password(cluster, caplog):
    async with proxied() as proxy:
        wrong = proxy.url.replace("hunter2", "hunter3")
        for url, answer, text in (
            (wrong, b"", "asks for another user and password"),
            (proxy.url, b"HTTP/1.1 403 No\r\n\r\n", "it answers 403"),
            (proxy.url, b"SSH-2.0-nonsense\r\n\r\n", "does not answer in HTTP"),
            (proxy.url, b"x" * 20_000, "more than a head"),
            (proxy.url, b"HTTP/1.1 200 OK\r\n\r\nsurprise", "nobody asked for"),
        ):
            proxy.answer = answer
            credentials = behind(cluster, url)
            async with Client(credentials, deadline=3.0) as client:
                with pytest.raises((Unconnected, ProtocolError)) as caught:
                    await client.list(CONFIG_MAPS, Selection("default"))
            assert text in str(caught.value)
            told = f"{caught.value!r} {credentials!r} {caplog.text}"
            assert "hunter" not in told
    async with Client(behind(cluster, proxy.url), deadline=3.0) as client:
        with pytest.raises(Unreachable) as gone:
            await client.list(CONFIG_MAPS, Selection("default"))
    assert "hunter" not in str(gone.value)


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("http://u:p@proxy:3128", "http://proxy:3128"),
        ("https://proxy", "https://proxy"),
        ("http://u:p@[::1]:8080/", "http://[::1]:8080"),
        ("", ""),
        ("http://[", ""),
    ],
)
def test_a_proxy_is_shown_without_who_uses_it(url, seen):
    assert proxies.shown(url) == seen


async def is_granted_more(rome: Member) -> None:
    """The peering works: a wish of rome's reaches milan, and its answer rome."""
    more = {"spec": {"resources": {"cpu": "3"}}}
    await rome.admin.patch(RESOURCE_SLICES, "milan", more, "liqo-tenant-milan")
    await rome.until(
        RESOURCE_SLICES,
        "milan",
        "liqo-tenant-milan",
        lambda found: found["status"]["resources"]["cpu"] == "3",
    )


@pytest.mark.long
async def test_a_peering_goes_on_by_way_of_a_proxy():
    async with proxied() as proxy, members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        asked = {"spec": {"proxyURL": proxy.url}}
        await milan.admin.patch(TENANTS, "rome", asked, "liqo-tenant-rome")

        async def moved():
            found = await rome.admin.list(SECRETS, Selection("liqo-tenant-milan"))
            texts = [base64.b64decode(each["data"].get("kubeconfig", "")) for each in found]
            named = [text for text in texts if b"proxy-url" in text]
            return len(named) == 2 and proxy.asked

        await eventually(moved)
        await is_granted_more(rome)
        shown = await rome.until(
            FOREIGN_CLUSTERS, "milan", None, lambda found: "127.0.0.1" in str(found["status"])
        )
        assert "hunter2" not in str(shown["status"])


@pytest.mark.long
async def test_a_proxy_that_is_none_ends_no_peering():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        asked = {"spec": {"proxyURL": "socks5://u:hunter2@127.0.0.1:1"}}
        await milan.admin.patch(TENANTS, "rome", asked, "liqo-tenant-rome")
        await trio.sleep(2)
        await is_granted_more(rome)
