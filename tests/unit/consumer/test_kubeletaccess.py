"""How often an API server is asked about those who read what virtual nodes say."""

from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from liqod.apimachinery.kinds import TOKEN_REVIEWS
from liqod.consumer.nodes.kubeletaccess import Access
from liqod.consumer.nodes.podproxy import PodProxies
from liqod.consumer.timings import ORDINARY
from liqod.errors import Forbidden, Unauthorized
from liqod.kube.http.httpserver import HttpRequest

METRICS = ("metrics",)


class Server:
    """Knows one token, and allows what it is set to; it counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.allowed = {("get", "metrics", "")}

    async def create_full(self, kind: Any, body: dict[str, Any]) -> dict[str, Any]:
        spec = body["spec"]
        if kind == TOKEN_REVIEWS:
            self.asked.append(("token",))
            known = spec["token"] == "scrape"
            return {"status": {"authenticated": known, "user": {"username": "scraper"}}}
        wanted = spec["resourceAttributes"]
        asked = (wanted["verb"], wanted["subresource"], wanted["name"])
        self.asked.append(asked)
        return {"status": {"allowed": asked in self.allowed}}


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def context(server: Server) -> Any:
    return SimpleNamespace(
        client=server,
        config=SimpleNamespace(certificates=SimpleNamespace(renew_at=0.5)),
        node_address="192.0.2.1",
    )


@pytest.fixture
def access(context: Any) -> Access:
    return Access(context, PodProxies())


def request(token: str = "scrape") -> HttpRequest:
    return HttpRequest("GET", "/metrics/resource", {}, {"authorization": f"Bearer {token}"})


async def scrape(access: Access, *nodes: str) -> None:
    for node in nodes:
        user = await access.reader(request())
        await access.check_reader(user, node, METRICS)


async def test_a_yes_is_remembered_for_a_minute(
    autojump_clock: trio.testing.MockClock, server: Server, access: Access
) -> None:
    nodes = [f"peer-{number}" for number in range(100)]
    await scrape(access, *nodes)
    assert server.asked == [("token",), ("get", "metrics", "")]
    await trio.sleep(ORDINARY.readers_kept - 1)
    await scrape(access, *nodes)
    assert len(server.asked) == 2
    server.allowed.clear()
    await trio.sleep(2)
    with pytest.raises(Forbidden, match="scraper may not get nodes/metrics"):
        await scrape(access, "peer-1")


async def test_a_right_to_one_node_is_none_to_another(
    autojump_clock: trio.testing.MockClock, server: Server, access: Access
) -> None:
    server.allowed = {("get", "metrics", "milan")}
    await scrape(access, "milan")
    for _ in range(2):
        with pytest.raises(Forbidden):
            await scrape(access, "turin")
    assert server.asked.count(("get", "metrics", "turin")) == 2, "a no is not remembered"
    user = await access.reader(request())
    with pytest.raises(Forbidden):
        await access.check_reader(user, "milan", ("stats",))


async def test_nothing_is_remembered_of_streams_and_strangers(
    autojump_clock: trio.testing.MockClock, server: Server, access: Access
) -> None:
    server.allowed.add(("create", "proxy", "milan"))
    for _ in range(2):
        user = await access.user(request())
        await access.check(user, "milan")
    assert server.asked == [("token",), ("create", "proxy", "milan")] * 2
    for _ in range(2):
        with pytest.raises(Unauthorized):
            await access.reader(request("wrong"))
    assert server.asked[4:] == [("token",)] * 2


async def test_so_much_and_no_more_is_remembered(
    autojump_clock: trio.testing.MockClock,
    server: Server,
    context: Any,
) -> None:
    access = Access(context, PodProxies(), most=8)
    nodes = [f"peer-{number}" for number in range(50)]
    server.allowed = {("get", "metrics", node) for node in nodes}
    await scrape(access, *nodes)
    before = len(server.asked)
    await scrape(access, *reversed(nodes))
    known = set(nodes) - {asked[-1] for asked in server.asked[before:]}
    assert known == set(nodes[-7:]), "the eighth is the token"
