"""A daemon without a right is called at a port of its machine, by that one's real programs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trio

from liqod.network.dataplane.kernel.namespaces import enter
from liqod.network.hostcapabilities import FOLDER
from liqod.plugins.network import uapi
from liqod.sharedport import DAEMON
from tests.netns.nodeprogram import NodeProgram
from tests.simulated.borrower import eventually
from tests.testbed.netns import Networks, inside
from tests.testbed.processes import Child, plain_environment, tail
from tests.unit.sharedports import hello

pytestmark = [pytest.mark.netns, pytest.mark.network]

USER = 64711
CALLED = f"{USER} 0 0\n".encode()


class Called:
    """A machine, and a daemon on it.

    Args:
        node: name of its network namespace.
        folder: below /run, as others pass through no folder of pytest's.
        port: where the daemon is called.
        cluster: id of its cluster.
    """

    def __init__(self, node: str, folder: Path, port: int, cluster: str = "rome") -> None:
        self.node, self.folder, self.port = node, folder, port
        folder.mkdir(mode=0o755)
        self.program = NodeProgram(node, "192.0.2.5", "", folder / "node", daemon=str(USER))
        self.program.start()
        words = (
            "-m",
            "tests.netns.calleddaemon",
            str(folder / "node" / "machine"),
            str(USER),
            str(port),
            cluster,
        )
        self.log = folder / "daemon.log"
        environment = {**plain_environment(), "PYTHONPATH": str(Path(__file__).parents[2])}
        self.daemon = Child("a daemon", [sys.executable, *words], self.log, environment=environment)

    async def ready(self, times: int) -> None:
        """Waits until calls were handed over so many times."""
        try:
            await eventually(
                lambda: self.log.read_text().splitlines().count("ready") >= times, seconds=30
            )
        except BaseException:
            print(tail(self.log, 20), self.program.said())
            raise

    async def call(self, name: str = f"{DAEMON}.milan.example") -> socket.socket:
        """A connection to the port that has called a name."""
        made = await trio.to_thread.run_sync(enter, self.node, partial(connected, self.port))
        made.sendall(hello(name))
        return made

    async def process(self) -> int | None:
        """Id of the tunnels' process."""
        return await uapi.process(Path(FOLDER) / f"tunnels-{self.node}.socket")


def connected(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), 10)
    made.settimeout(10)
    return made


def heard(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 10)
    except ConnectionResetError:
        return b""


@pytest.fixture(params=[443, 6446])
def called(networks: Networks, request: pytest.FixtureRequest) -> Iterator[Called]:
    node = networks.make("called")
    inside(node, "ip link set lo up")
    folder = Path(f"/run/liqod-test-{os.urandom(4).hex()}")
    made = Called(node, folder, request.param)
    yield made
    made.daemon.kill()
    trio.run(made.program.close)
    subprocess.run(["rm", "-rf", str(folder)], check=True)


async def test_it_is_handed_its_calls_and_no_other_and_none_has_a_mark(called: Called):
    await called.ready(1)
    with await called.call() as connection:
        assert await trio.to_thread.run_sync(partial(heard, connection)) == CALLED
    with await called.call("www.example.org") as connection:
        assert await trio.to_thread.run_sync(partial(heard, connection)) == b""


async def test_each_program_is_killed_and_calls_come_again_while_those_that_came_go_on(
    called: Called,
):
    await called.ready(1)
    with await called.call() as connection:
        assert await trio.to_thread.run_sync(partial(heard, connection)) == CALLED
        called.program.kill()
        called.program.start()
        await called.ready(2)
        process = await called.process()
        assert process is not None
        os.kill(process, 9)
        await called.ready(3)
        connection.sendall(b"more")
        assert await trio.to_thread.run_sync(partial(heard, connection)) == CALLED
    with await called.call() as connection:
        assert await trio.to_thread.run_sync(partial(heard, connection)) == CALLED


async def test_of_two_clusters_on_a_machine_one_is_called_and_the_other_is_told_why(
    called: Called,
):
    await called.ready(1)
    other = Called(called.node, called.folder / "oslo", called.port, "oslo")
    try:
        why = f"TCP port {called.port}: the daemon of the cluster 'rome' is called there"
        try:
            await eventually(lambda: why in other.log.read_text(), seconds=30)
        except trio.TooSlowError:
            raise AssertionError(tail(other.log, 20) + other.program.said()) from None
        assert "ready" not in other.log.read_text()
        with await called.call() as connection:
            assert await trio.to_thread.run_sync(partial(heard, connection)) == CALLED
        called.daemon.kill()
        await other.ready(1)
        with await called.call() as connection:
            assert await trio.to_thread.run_sync(partial(heard, connection)) == CALLED
    finally:
        other.daemon.kill()
        other.program.kill()
