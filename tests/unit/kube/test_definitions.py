"""Detection of a kind's definition, and of how long it has existed."""

from datetime import UTC, datetime, timedelta
from typing import Any

import trio

from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.kube.definitions import RETURN, is_defined
from liqod.resources import TENANTS


class Server:
    """A client of an API server with one definition."""

    def __init__(self) -> None:
        self.missing: dict[Any, float] = {}
        self.definitions: dict[Any, str] = {}
        self.uid: str | None = "1"
        self.made = ""

    async def find(self, kind, name, *, decode):
        assert name == "tenants.authentication.liqo.io"
        if self.uid is None:
            return None
        return Partial(metadata=ObjectMeta(name=name, uid=self.uid, creation_timestamp=self.made))


async def test_a_definition_that_returns_is_doubted_for_a_while(autojump_clock):
    server: Any = Server()
    assert await is_defined(server, TENANTS)
    server.uid = None
    assert not await is_defined(server, TENANTS)
    server.uid = "1"
    await trio.sleep(RETURN - 1)
    assert not await is_defined(server, TENANTS)
    await trio.sleep(1)
    assert await is_defined(server, TENANTS)


async def test_so_is_one_that_went_and_came_back_before_anybody_asked(autojump_clock):
    server: Any = Server()
    assert await is_defined(server, TENANTS)
    server.uid = "2"
    assert not await is_defined(server, TENANTS)
    await trio.sleep(RETURN)
    assert await is_defined(server, TENANTS)


async def test_it_is_doubted_from_its_return_on_and_not_from_the_first_question(autojump_clock):
    server: Any = Server()
    assert await is_defined(server, TENANTS)
    server.uid, server.made = "2", "2026-01-01T00:00:00Z"
    assert await is_defined(server, TENANTS)
    server.uid, server.made = "3", (datetime.now(UTC) - timedelta(seconds=RETURN / 2)).isoformat()
    assert not await is_defined(server, TENANTS)
    await trio.sleep(RETURN / 2 + 1)
    assert await is_defined(server, TENANTS)
