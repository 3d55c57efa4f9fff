"""The machine's side as a program of its own, at a socket, in the namespace that it is started in.

    python -m tests.netns.machineprogram FOLDER USER GROUP

It says ``ready`` once it listens, and the same after each line of input.
"""

from __future__ import annotations

import sys
from pathlib import Path

import trio

from liqod.network.failover.role import Role
from liqod.network.machine.machineside import MachineSide
from liqod.network.machine.machinesocket import DaemonAccount, MachineSocket
from liqod.network.orders.greeting import CALLS, SOCKET
from liqod.sharedport import HANDED
from tests.simulated.pairedmachine import nowhere

CLUSTER = "rome"


async def agree(daemon: trio.abc.Stream) -> None:
    """Agree to hand over calls, of which there are none."""
    await daemon.send_all(HANDED)
    await daemon.receive_some(1)


async def main(folder: Path, account: DaemonAccount) -> None:
    """Serves until its input ends."""
    side = MachineSide(lambda cluster: nowhere, Role())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(side.run)
        faces = {SOCKET: side.serve, CALLS: agree}
        await nursery.start(MachineSocket(folder, account, faces).run)
        print("ready", flush=True)
        while await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            print("ready", flush=True)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), DaemonAccount(*map(int, sys.argv[2:4])))
