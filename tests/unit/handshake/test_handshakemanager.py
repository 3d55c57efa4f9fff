"""Where a daemon says that it is met, if it is met nowhere."""

import socket
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from liqod.apimachinery import labels
from liqod.errors import Forbidden, Unreachable
from liqod.handshake.transport.advertisedlistener import AGAIN, AdvertisedListener
from liqod.handshake.transport.peerlistener import PeerListener


class Client:
    """An API server that fails some times first."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.patches: list[Any] = []

    async def patch(self, kind: Any, name: str, patch: Any, namespace: str) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.patches.append(patch)


async def test_it_is_taken_back_at_last_and_said_while_it_is_not(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture
):
    client = Client(Unreachable("nobody answers"), Forbidden("no such right"))
    context: Any = SimpleNamespace(client=client, namespace="liqo")
    began = autojump_clock.current_time()
    await AdvertisedListener(context).withdraw()
    assert [each["metadata"]["annotations"] for each in client.patches] == [{labels.MET_AT: None}]
    assert autojump_clock.current_time() - began == pytest.approx(2 * AGAIN)
    said = [each.getMessage() for each in caplog.records]
    assert "nobody answers" in said[0]
    assert "no such right" in said[1]


class Silent:
    """An API server that does not answer."""

    def __init__(self) -> None:
        self.asked = trio.Event()

    async def patch(self, kind: Any, name: str, patch: Any, namespace: str) -> None:
        self.asked.set()
        await trio.sleep_forever()


async def test_its_port_is_free_where_it_ends_before_it_is_said_where_it_is_met(
    nursery: trio.Nursery,
):
    client = Silent()
    handshake = SimpleNamespace(port=0, host="127.0.0.1", advertise=())
    config = SimpleNamespace(handshake=handshake)
    context: Any = SimpleNamespace(client=client, namespace="liqo", config=config)
    room = AdvertisedListener(context)
    nursery.start_soon(room.run, cast("PeerListener", None))
    await client.asked.wait()
    port = room.port
    nursery.cancel_scope.cancel()
    with trio.CancelScope(shield=True):
        await trio.testing.wait_all_tasks_blocked()
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
