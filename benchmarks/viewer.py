"""The cost of looking: the terminal program with many peers that all change every second.

A process of its own speaks the inspector's protocol as a daemon with that many peers would. The
program runs without a terminal, at 160 by 50; its time from the connection to the first drawing,
and its share of a core while the peers change, are printed for each view.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from websockets.asyncio.server import ServerConnection, unix_serve

from benchmarks.report import Aim, Report
from benchmarks.stage import run
from liqod.inspect.protocol import InspectorHello, StateSnapshot, Update, encode, read_client
from liqod.model.view.daemonfacts import ProcessFacts
from liqod.model.view.rows import Pulse, WidePeerRow
from liqod.model.view.state import Delta, LiveState
from tui.app import Top
from tui.link import Address, Link

SIZE = (160, 50)
VIEWS = {"1": "peers", "2": "offloaded", "4": "timeline"}
PARTS = 4
"""Updates a second, as many as a daemon sends."""
CPU = Aim("liqod top, 100 peers changing each second, % of a core", "-", 3.0)
PAINT = Aim("liqod top, first drawing after connecting, ms", "-", 300.0)


def arguments() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.viewer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--peers", type=int, default=100)
    made.add_argument("--seconds", type=float, default=15.0, help="for each view")
    made.add_argument("--json", metavar="FILE", help="write every figure there too")
    made.add_argument("--serve", metavar="SOCKET", help=argparse.SUPPRESS)
    made.set_defaults(embedded=True)
    return made


def names(count: int) -> list[str]:
    """As many peers."""
    return [f"edge-{number:03}" for number in range(count)]


def peer(name: str) -> WidePeerRow:
    """One that is well."""
    values: dict[str, Any] = {"pods_out": 3, "pods_in": 0, "certificate_days": 300.0}
    return WidePeerRow(name, "Provider", "up", "none", state="active", link="up", **values)


def pulse() -> Pulse:
    """The values that may have changed within a second."""
    trip = random.uniform(0.001, 0.02)
    return Pulse(
        heard=time.time(), rtt=trip, p50=trip, p95=2 * trip, loss=0.0, sent=1e4 * random.random()
    )


async def serve(socket: str, count: int) -> None:
    """Speak as a daemon would, until killed."""
    every = names(count)

    async def handler(connection: ServerConnection) -> None:
        now = time.time()
        greeting = InspectorHello(protocol=1, version="0", cluster_id="rome", started=now, at=now)
        await connection.send(encode(greeting).decode())
        read_client(await connection.recv())
        peers = {name: peer(name) for name in every}
        state = LiveState(
            ProcessFacts("rome", state="leading"), peers, {name: pulse() for name in every}
        )
        await connection.send(encode(StateSnapshot(sequence=0, at=now, state=state)).decode())
        number = 0
        while True:
            await asyncio.sleep(1 / PARTS)
            number += 1
            delta = Delta(pulses={name: pulse() for name in every[number % PARTS :: PARTS]})
            update = Update(sequence=number, at=time.time(), delta=delta)
            await connection.send(encode(update).decode())

    async with unix_serve(handler, socket, compression=None):
        await asyncio.get_running_loop().create_future()


class Timed(Top):
    """The program, which remembers when it first drew a peer."""

    drawn = 0.0

    def _draw(self) -> None:
        super()._draw()
        if not self.drawn and self.view_state.session.state.peers:
            self.call_after_refresh(self._note)

    def _note(self) -> None:
        self.drawn = self.drawn or time.monotonic()


async def look(socket: Path, seconds: float) -> tuple[float, dict[str, float]]:
    """Seconds to the first drawing, and the share of a core in each view."""
    app = Timed([Link(Address(socket=socket))])
    shares: dict[str, float] = {}
    async with app.run_test(size=SIZE) as pilot:
        began = time.monotonic()
        while not app.drawn:
            await pilot.pause(0.01)
        for key, view in VIEWS.items():
            await pilot.press(key)
            await pilot.pause(1.0)
            used, clock = time.process_time(), time.monotonic()
            await asyncio.sleep(seconds)
            shares[view] = (time.process_time() - used) / (time.monotonic() - clock)
    return max(0.0, app.drawn - began), shares


def measure(chosen: argparse.Namespace) -> Report:
    """Look, and report."""
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder) / "rome.sock"
        words = ["-m", "benchmarks.viewer", "--serve", str(socket), "--peers", str(chosen.peers)]
        daemon = subprocess.Popen([sys.executable, *words])
        try:
            while not socket.exists():
                time.sleep(0.05)
            painted, shares = asyncio.run(look(socket, chosen.seconds))
        finally:
            daemon.kill()
            daemon.wait()
    report = Report(f"liqod top with {chosen.peers} peers that change every second")
    report.rows = [("view", "% of a core"), *((v, f"{100 * s:.1f}") for v, s in shares.items())]
    report.aims = [(CPU, 100 * max(shares.values())), (PAINT, 1000 * painted)]
    report.figures = {"shares": shares, "first_drawing_seconds": painted}
    return report


def main() -> int:
    """Measure, or be what is measured against."""
    chosen = arguments().parse_args()
    if chosen.serve:
        asyncio.run(serve(chosen.serve, chosen.peers))
    return run(measure, arguments())


if __name__ == "__main__":
    sys.exit(main())
