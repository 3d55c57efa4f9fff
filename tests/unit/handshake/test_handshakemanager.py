"""Where a daemon says that it is met, if it is met nowhere."""

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from liqod.apimachinery import labels
from liqod.errors import Forbidden, NetworkError, Unreachable
from liqod.handshake.transport.advertisedlistener import (
    AGAIN,
    SHARED_AGAIN,
    AdvertisedListener,
)
from liqod.handshake.transport.peerlistener import PeerListener
from liqod.sharedport import SHARED


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
    context: Any = SimpleNamespace(client=client, namespace="liqo", config=config, apart=False)
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


class Sharing:
    """A program that has the port for tunnels, too, which is there or is not."""

    def __init__(self) -> None:
        self.problem = ""
        self.given: list[socket.socket] = []
        self.ports: list[int] = []

    async def connect(self, port: int) -> trio.SocketStream:
        self.ports.append(port)
        if self.problem:
            raise NetworkError(self.problem)
        own, other = socket.socketpair()
        self.given.append(other)
        own.setblocking(False)
        return trio.SocketStream(trio.socket.from_stdlib_socket(own))


@pytest.fixture
def sharing() -> Iterator[Sharing]:
    made = Sharing()
    yield made
    for each in made.given:
        each.close()


class Met(PeerListener):
    """Notes what it is handed, and meets nobody."""

    def __init__(self) -> None:
        self.sharing = 0

    async def share(self, stream: trio.SocketStream, nursery: trio.Nursery) -> None:
        self.sharing += 1
        await stream.receive_some(1)


def shared(
    client: Any, sharing: Sharing, *, apart: bool = False, **handshake: object
) -> AdvertisedListener:
    settings = {"port": SHARED, "host": "", "advertise": ("rome.example:443",), **handshake}
    config = SimpleNamespace(handshake=SimpleNamespace(**settings))
    context: Any = SimpleNamespace(
        client=client, namespace="liqo", config=config, apart=apart, machine_address="192.0.2.5"
    )
    return AdvertisedListener(context, sharing.connect)


def said_at(client: Client) -> list[str | None]:
    return [each["metadata"]["annotations"][labels.MET_AT] for each in client.patches]


async def test_a_daemon_that_may_not_listen_at_a_shared_port_is_met_there(
    nursery: trio.Nursery, sharing: Sharing, autojump_clock: Any
):
    client, met = Client(), Met()
    sharing.problem = "no liqod node answers"
    room = shared(client, sharing)
    await nursery.start(room.run, met)
    assert room.problem == "port 443 cannot be listened on: no liqod node answers"
    assert said_at(client) == [None]
    sharing.problem = ""
    await trio.sleep(2 * SHARED_AGAIN)
    assert (room.port, room.problem, met.sharing) == (SHARED, "", 1)
    assert said_at(client) == [None, "rome.example:443"]


async def test_a_program_that_begins_anew_changes_nothing_of_where_it_is_said_to_be_met(
    nursery: trio.Nursery, sharing: Sharing, autojump_clock: Any
):
    client, met = Client(), Met()
    room = shared(client, sharing)
    await nursery.start(room.run, met)
    sharing.problem = "no liqod node answers"
    sharing.given[-1].close()
    await trio.sleep(3 * SHARED_AGAIN)
    assert room.port == 0
    assert "no liqod node answers" in room.problem
    sharing.problem = ""
    await trio.sleep(2 * SHARED_AGAIN)
    assert (room.port, met.sharing) == (SHARED, 2)
    assert said_at(client) == ["rome.example:443"]
    # One that stays away is no way to meet this daemon.
    sharing.problem = "no liqod node answers"
    sharing.given[-1].close()
    await trio.sleep(2 * AGAIN)
    assert said_at(client) == ["rome.example:443", None]


async def test_a_daemon_in_a_pod_is_met_at_its_node(
    nursery: trio.Nursery, sharing: Sharing, autojump_clock: Any
):
    client, met = Client(), Met()
    room = shared(client, sharing, apart=True, port=6446, advertise=())
    await nursery.start(room.run, met)
    assert (room.port, room.problem, met.sharing) == (6446, "", 1)
    assert sharing.ports == [6446]
    assert said_at(client) == ["192.0.2.5:6446"]


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("handshake", [{"port": 0}, {"host": "127.0.0.1", "port": 0}])
async def test_another_port_is_the_daemon_s_own(
    nursery: trio.Nursery, sharing: Sharing, handshake: Any, apart: bool
):
    room = shared(Client(), sharing, apart=apart, **{"host": "127.0.0.1", **handshake})
    nursery.start_soon(room.run, cast("PeerListener", Listening()))
    with trio.fail_after(5):
        while not room.port:  # noqa: ASYNC110
            await trio.sleep(0.01)
    assert not sharing.given


class Listening:
    """Listens for nobody."""

    async def run(self, listeners: object) -> None:
        await trio.sleep_forever()
