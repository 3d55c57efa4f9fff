"""Draws the terminal program as it shows a running daemon, into an SVG file.

`python -m tests.viewer.paint SOCKET FILE WANTED [KEY ...]` waits until WANTED is on the screen,
presses the keys, and writes the drawing.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.unit.tui.screens import lines
from tui.app import Top
from tui.link import Address, Link

SIZE = (118, 22)
SECONDS = 60.0
SETTLED = 1.5


async def paint(socket: Path, file: Path, wanted: str, keys: list[str]) -> bool:
    """True if the wanted text was seen, and is drawn."""
    app = Top([Link(Address(socket=socket))])
    async with app.run_test(size=SIZE) as pilot:
        for _ in range(int(SECONDS / 0.2)):
            await pilot.pause(0.2)
            shown = "\n".join(lines(app))
            if wanted in shown:
                break
        else:
            print(f"{wanted!r} is not in:\n{shown}", file=sys.stderr)
            return False
        await pilot.press(*keys)
        await pilot.pause(SETTLED)
        await asyncio.to_thread(file.write_text, app.export_screenshot())
    return True


if __name__ == "__main__":
    socket, file, wanted, *keys = sys.argv[1:]
    sys.exit(not asyncio.run(paint(Path(socket), Path(file), wanted, keys)))
