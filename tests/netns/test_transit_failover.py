"""A hub's gateway goes while pods of one leaf call those of another by way of it.

Milan is the hub, with two candidates; rome's pod calls turin's.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Hashable, Iterator
from functools import partial
from pathlib import Path

import pytest
import trio

from liqod.model.network.ranges import translate
from liqod.network.dataplane.kernel.namespaces import enter
from tests.netns.flows import LATE, Datagrams, Flow, flowing
from tests.netns.lab import Pod
from tests.netns.test_failover import Site, alias_of, site
from tests.simulated.borrower import eventually

pytestmark = [pytest.mark.netns, pytest.mark.network, pytest.mark.usefixtures("networks")]

ALLOWED = 'transit = [["{r}", "{t}"]]\n'
PORT = Datagrams.port
PATIENCE = 20.0
"""Seconds in which TCP has sent again what was lost meanwhile."""


async def published(made: Site) -> str:
    """Publish turin's pod to rome; the address by which rome's pods find it."""
    rome, turin = made.leaves
    registry = made.milan.context.transit
    vars(registry)["users"] = lambda reader: set[Hashable]()  # nothing is offloaded here
    network = await alias_of(made.milan, turin.id)
    alias = f"{network.rpartition('.')[0]}.7"
    registry.publish("web", rome.id, [(turin.id, alias)])

    async def given() -> str | None:
        return registry.address(rome.id, turin.id, alias)

    shown = await eventually(given)
    ranges = rome.components.peers[made.milan.id].network.ranges
    assert ranges is not None
    found = translate(shown, ranges.peer, ranges.seen)
    assert found is not None
    return found


@contextlib.contextmanager
def returning(pod: Pod) -> Iterator[None]:
    """Something that sends each datagram back."""

    def opened() -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind(("", PORT))
        made.settimeout(0.1)
        return made

    listening = enter(pod.namespace, opened)
    done = threading.Event()

    def serve() -> None:
        while not done.is_set():
            with contextlib.suppress(TimeoutError):
                data, peer = listening.recvfrom(100)
                listening.sendto(data, peer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        listening.close()


async def connected(near: Pod, far: Pod, address: str) -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection."""

    def listen() -> socket.socket:
        return socket.create_server(("", PORT))

    def dial() -> socket.socket:
        return socket.create_connection((address, PORT), PATIENCE)

    with enter(far.namespace, listen) as listening:
        one = await trio.to_thread.run_sync(enter, near.namespace, dial)
        other, _ = listening.accept()
    other.settimeout(PATIENCE)
    return one, other


async def heard(receiver: socket.socket, count: int) -> bytes:
    """So many bytes of a connection. Candidates go on meanwhile, in this process as they are."""
    return await trio.to_thread.run_sync(receiver.recv, count, socket.MSG_WAITALL)


async def passes(sender: socket.socket, receiver: socket.socket, word: bytes) -> None:
    sender.sendall(word)
    assert await heard(receiver, len(word)) == word


async def test_calls_by_way_of_a_hub_go_on_by_its_next_gateway(
    wireguard: str, tmp_path: Path
) -> None:
    async with site(wireguard, tmp_path, network=ALLOWED, beside=True) as made:
        near, far = made.pods
        address = await published(made)
        with returning(far):
            async with flowing(near, address, Datagrams) as flow:
                await it_moves(made, flow, address, "its node is cordoned")
                await made.cordon(made.nodes[0], on=False)
                await it_moves(made, flow, address, "its node is unplugged")


async def it_moves(made: Site, flow: Flow, address: str, why: str) -> None:
    """The gateway goes; datagrams and connections of before go on."""
    await eventually(made.tells_of_peers)
    near, far = made.pods
    [index] = made.active()
    caller, called = await connected(near, far, address)
    silent, answering = await connected(near, far, address)
    with caller, called, silent, answering:
        await passes(caller, called, b"first")
        gone = made.nodes[index - 1]
        began = time.monotonic()
        if "cordoned" in why:
            await made.cordon(gone)
        else:
            gone.cut()
        await eventually(partial(made.is_gateway, 3 - index))
        gap = await flow.gets_well(began)
        lost = flow.lost(began, time.monotonic() - LATE)
        print(f"the hub's gateway moves, {why}: {lost} lost, {gap * 1000:.0f} ms gap")
        await passes(caller, called, b"then")
        await passes(called, caller, b"back")
        # The next gateway learns of a connection by a packet of who has begun it.
        answering.sendall(b"early")
        silent.settimeout(1)
        with pytest.raises(TimeoutError):
            await heard(silent, 5)
        silent.settimeout(PATIENCE)
        await passes(silent, answering, b"?")
        assert await heard(silent, 5) == b"early"
