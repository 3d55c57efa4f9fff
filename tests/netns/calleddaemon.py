"""A daemon without any right that is called at a port of its machine, as a process of its own.

    python -m tests.netns.calleddaemon FOLDER USER PORT CLUSTER

It says ``ready`` each time that calls are handed over, and answers each with its user's id and its
effective capabilities.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401
import os
import socket
import sys
from pathlib import Path

import trio

from liqod.errors import NetworkError
from liqod.network import machinesocketdial
from liqod.network.orders.tunnels import MachineRead, ReadMachine, Surroundings
from liqod.runtime.connectionlimit import ConnectionLimiter
from liqod.sharedport import be_handed
from tests.unit.network.ordering import admitted, hello, reply

AROUND = Surroundings(address="192.0.2.5")
AGAIN = 0.2


def give_up(user: int) -> None:
    """Be a user without a right, and without a way back."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


async def order(folder: Path, cluster: str) -> None:
    """Have the machine looked at, as often as it begins anew."""
    while True:
        try:
            async with await machinesocketdial.dial(folder) as stream:
                connection = await admitted(stream, hello(5, of=cluster))
                await connection.deliver(ReadMachine(1, AROUND))
                while True:
                    facts = (await reply(connection, MachineRead)).facts
                    if facts.problem:
                        print(facts.problem, flush=True)
        except NetworkError as error:
            print(f"no orders: {error}", flush=True)
            await trio.sleep(AGAIN)


async def be_called(folder: Path, port: int, nursery: trio.Nursery) -> None:
    """Answer what calls, as often as the machine begins anew."""
    while True:
        try:
            stream = await machinesocketdial.calls(folder, port)
        except NetworkError as error:
            print(f"no calls: {error}", flush=True)
            await trio.sleep(AGAIN)
            continue
        print("ready", flush=True)
        await be_handed(stream, answer, ConnectionLimiter(8), nursery)


async def answer(came: trio.socket.SocketType) -> None:
    """Say who has it, to each line of a caller."""
    said = f"{os.geteuid()} {rights()} {mark_of(came)}\n".encode()
    with came:
        while await came.recv(1 << 16):
            await came.send(said)


def rights() -> int:
    """The effective capabilities of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff"))


def mark_of(came: trio.socket.SocketType) -> int:
    """The firewall mark of a connection."""
    found: int = came.getsockopt(socket.SOL_SOCKET, socket.SO_MARK)
    return found


async def main(folder: Path, port: int, cluster: str) -> None:
    """Until it is killed."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(order, folder, cluster)
        nursery.start_soon(be_called, folder, port, nursery)


if __name__ == "__main__":
    give_up(int(sys.argv[2]))
    trio.run(main, Path(sys.argv[1]), int(sys.argv[3]), sys.argv[4])
