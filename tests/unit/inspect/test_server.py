"""The websocket on a Unix socket: who may come, what it answers, and where it listens."""

import os
import socket
import stat
from pathlib import Path

import pytest
import trio

from liqod.cli import inspectorclient, live
from liqod.config import InspectorSettings as Settings
from liqod.errors import ConfigError, Unreachable
from liqod.inspect import inspectorserver, protocol
from liqod.inspect.protocol import (
    CancelRequest,
    Examine,
    GetHistory,
    GetLogs,
    RequestDone,
    RequestRefused,
    Text,
    Update,
)
from tests.unit.inspect.serving import GREETING, eventually, responds, serving
from tests.unit.model.states import peer, state


async def test_a_client_is_greeted_and_follows(tmp_path: Path):
    async with serving(tmp_path) as served, served.look() as viewer:
        assert viewer.hello.protocol == protocol.VERSION
        assert viewer.hello.cluster_id == "rome"
        assert viewer.hello.acting
        first, known = await viewer.snapshot()
        assert known.peers.keys() == {"milan"}
        served.publish(state(peer(), peer("oslo")))
        message = await viewer.receive()
        assert isinstance(message, Update)
        assert message.sequence == first.sequence + 1
        assert message.delta.peers.keys() == {"oslo"}


async def test_requests_are_answered_refused_and_cancelled(tmp_path: Path):
    async with serving(tmp_path) as served, served.look() as viewer:
        assert (await viewer.request(Examine(id=1), RequestDone)).text == "done"
        with pytest.raises(ConfigError, match="no such metric"):
            await viewer.request(GetHistory(id=2, metric="x"), RequestDone)
        await viewer.request(GetLogs(id=3, namespace="shop", pod="web", follow=True), Text)
        await viewer.send(CancelRequest(id=3))
        while not isinstance(message := await viewer.receive(), RequestDone):
            assert isinstance(message, Text)
        assert message == RequestDone(id=3, text="cancelled")


async def test_too_many_requests_at_once_are_refused(tmp_path: Path):
    async with serving(tmp_path) as served, served.look() as viewer:
        for number in range(protocol.REQUESTS):
            await viewer.send(GetLogs(id=number, namespace="a", pod="b", follow=True))
        await viewer.send(Examine(id=99))
        while not isinstance(message := await viewer.receive(), RequestRefused):
            pass
        assert (message.id, message.code) == (99, "busy")


async def test_a_fault_of_ours_costs_that_client_only(tmp_path: Path):
    async with serving(tmp_path) as served:
        with pytest.raises(Unreachable):
            async with served.look() as viewer:
                await viewer.request(GetHistory(id=1, metric="bug"), RequestDone)
        await responds(served)


async def test_the_socket_is_for_owner_and_group_and_goes_with_the_server(tmp_path: Path):
    async with serving(tmp_path) as served:
        found = served.path.stat()
        assert stat.S_ISSOCK(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o660
    assert not served.path.exists()


async def test_what_a_dead_daemon_left_is_replaced(tmp_path: Path):
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "i.sock"))
    left.close()
    async with serving(tmp_path) as served:
        await responds(served)


async def test_the_mask_of_the_process_is_left_alone(tmp_path: Path, monkeypatch):
    """Files that other threads make meanwhile would be for the group, too."""
    asked: list[int] = []
    monkeypatch.setattr(os, "umask", asked.append)
    async with serving(tmp_path) as served:
        assert stat.S_IMODE(served.path.stat().st_mode) == 0o660
    assert not asked


async def test_a_living_daemon_keeps_its_socket(tmp_path: Path):
    async with serving(tmp_path) as served:
        with pytest.raises(inspectorserver.Taken, match="another daemon"):
            async with inspectorserver.unix_listener(served.path):
                pass
        await responds(served)


async def test_something_else_of_that_name_is_not_removed(tmp_path: Path):
    path = tmp_path / "i.sock"
    path.write_text("precious")
    with pytest.raises(ConfigError, match="something else"):
        async with inspectorserver.unix_listener(path):
            pass
    assert path.read_text() == "precious"


def test_the_socket_has_the_clusters_name_in_the_first_folder_that_there_is(tmp_path: Path):
    environ = {"RUNTIME_DIRECTORY": f"{tmp_path}/own", "XDG_RUNTIME_DIR": str(tmp_path)}
    assert inspectorserver.place(Settings(), environ, "rome") == tmp_path / "own" / "rome.sock"
    assert inspectorserver.place(Settings(socket="/x/y"), environ, "rome") == Path("/x/y")


def test_of_several_daemons_one_is_to_be_named(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "liqod"))
    with pytest.raises(inspectorclient.NoDaemon):
        inspectorclient.find(None, "one-of-two")
    kept = []
    for folder, name in (("liqod", "one-of-two"), ("liqod-milan", "other-of-two")):
        (tmp_path / folder).mkdir()
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(str(tmp_path / folder / f"{name}.sock"))
        kept.append(sock)
    with pytest.raises(ConfigError, match="several"):
        inspectorclient.find(None)
    other = tmp_path / "liqod-milan" / "other-of-two.sock"
    assert inspectorclient.find(None, "other-of-two") == other
    for sock in kept:
        sock.close()


def open_to_all(path: Path) -> None:
    path.chmod(0o666)
    for folder in path.parents[:-2]:
        folder.chmod(folder.stat().st_mode | 0o011)


OTHER = """
import os, socket, sys
os.setgid(65534); os.setuid(65534)
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
sock.sendall(sys.argv[2].encode())
said = b""
while b"hello" not in said:
    said += sock.recv(65536)
print(said[said.index(b"{"):].decode())
"""
"""Needs nothing but the interpreter, since another user may not read what is installed here."""


@pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/usr/bin/python3").exists(),
    reason="only root can become another user",
)
async def test_another_user_may_look_and_not_act(tmp_path: Path):
    async with serving(tmp_path) as served:
        open_to_all(served.path)
        command = ["/usr/bin/python3", "-c", OTHER, str(served.path), GREETING.decode()]
        done = await trio.run_process(command, capture_stdout=True)
        hello = protocol.read_server(done.stdout)
        assert isinstance(hello, protocol.InspectorHello)
        assert not hello.acting
        assert hello.verbs == ()


async def test_a_daemon_that_stops_says_so(tmp_path: Path):
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            ready = trio.Event()
            reasons: list[object] = []

            async def serve() -> None:
                async with serving(tmp_path):
                    ready.set()
                    await stop.wait()

            async def look() -> None:
                async with inspectorclient.connect(tmp_path / "i.sock") as viewer:
                    greeted.set()
                    try:
                        await viewer.receive()
                    except Unreachable as error:
                        reasons.append(str(error))

            stop, greeted = trio.Event(), trio.Event()
            nursery.start_soon(serve)
            await ready.wait()
            nursery.start_soon(look)
            await greeted.wait()
            stop.set()
    assert reasons == ["the daemon has closed the connection the daemon stops"]
    await eventually(lambda: not (tmp_path / "i.sock").exists())


async def test_the_daemon_of_another_cluster_of_the_same_id_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "liqod"))
    (tmp_path / "liqod").mkdir()
    async with serving(tmp_path) as served:
        near = tmp_path / "liqod" / "one-of-two.sock"
        near.symlink_to(served.path)
        assert await inspectorclient.of_cluster("one-of-two", "of-rome") == near
        assert await inspectorclient.of_cluster("one-of-two", "") == near
        assert await live.fetch_report(None, "one-of-two", "of-another") is None
        with pytest.raises(inspectorclient.NoDaemon, match="another cluster of the id one-of-two"):
            await inspectorclient.of_cluster("one-of-two", "of-another")
        # That of the right one is found beside it.
        (tmp_path / "liqod-b").mkdir()
        async with serving(tmp_path / "liqod-b", uid="of-another") as other:
            beside = tmp_path / "liqod-b" / "one-of-two.sock"
            beside.symlink_to(other.path)
            assert await inspectorclient.of_cluster("one-of-two", "of-another") == beside
            assert await inspectorclient.of_cluster("one-of-two", "of-rome") == near
