"""The pictures of the documentation: `make screenshots`.

They are drawn of real daemons beside embedded clusters: two peers with an offloaded namespace, the
pods on them, then one peer that has died, and why.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import trio

from simulator.demo.shop import shop_objects
from tests.viewer.scenes import federation, offload, peer

PICTURES = Path(__file__).parents[2] / "docs" / "images"


async def main() -> None:
    """Draw them all."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        async with federation(Path(folder)) as (rome, milan, turin):
            for provider in (milan, turin):
                await peer(rome, provider)
            await offload(rome, "shop")
            for kind, obj in shop_objects():
                await rome.admin.create(kind, obj, "shop")
            socket = rome.daemon.inspector
            await trio.sleep(20)
            await draw(socket, "peers", " 2 up ")
            await draw(socket, "offloaded", " 2 up ", "2")
            await milan.cluster.stop()
            await draw(socket, "down", "milan: ")
            await draw(socket, "ladder", "milan: ", "enter")


async def draw(socket: Path, name: str, wanted: str, *keys: str) -> None:
    """Draw one picture."""
    file = PICTURES / f"{name}.svg"
    words = ["-m", "tests.viewer.paint", str(socket), str(file), wanted, *keys]
    await trio.run_process([sys.executable, *words])
    print(f"drawn: {file.name}")


if __name__ == "__main__":
    trio.run(main)
