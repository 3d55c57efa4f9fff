"""The sockets by which a tunnel dials: used again, and waited for."""

import socket

import pytest
import trio
import trio.testing

from liqod.tunnel import dialsockets
from liqod.tunnel.dialsockets import SPARE, DialSockets


@pytest.fixture
def sockets() -> DialSockets:
    made = DialSockets()
    made.add(dialsockets.made(0))
    return made


async def test_a_socket_is_used_again_once_its_connection_is_over(sockets: DialSockets) -> None:
    """However that ends: by this end, by the other, or before it has begun."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for number in range(3 * SPARE):
            with trio.fail_after(5):
                stream, give_back = await sockets.connect("127.0.0.1", port)
                came, _ = server.accept()
                with came:
                    if number % 2:
                        came.close()
                        assert await stream.receive_some(1) == b""
                    else:
                        await stream.send_all(b"x")
                        assert came.recv(1) == b"x"
                    await stream.aclose()
                    give_back()
    for _ in range(2 * SPARE):
        with pytest.raises(ConnectionRefusedError):
            await sockets.connect("127.0.0.1", port)
    sockets.close()


async def test_the_other_end_sees_at_once_that_a_connection_was_given_back(
    sockets: DialSockets,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        stream, give_back = await sockets.connect("127.0.0.1", server.getsockname()[1])
        came, _ = server.accept()
        with came:
            await stream.aclose()
            give_back()
            came.settimeout(5)
            with pytest.raises(ConnectionResetError):
                came.recv(1)
    sockets.close()


async def test_who_finds_no_socket_waits_for_one(sockets: DialSockets) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=2 * SPARE) as server:
        port = server.getsockname()[1]
        had = [await sockets.connect("127.0.0.1", port) for _ in range(SPARE)]
        more = trio.Event()

        async def one_more() -> None:
            stream, _ = await sockets.connect("127.0.0.1", port)
            await stream.aclose()
            more.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one_more)
            await trio.testing.wait_all_tasks_blocked(0.02)
            assert not more.is_set()
            stream, give_back = had.pop()
            await stream.aclose()
            give_back()
            with trio.fail_after(5):
                await more.wait()
        for stream, _ in had:
            await stream.aclose()
    sockets.close()
