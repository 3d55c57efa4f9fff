"""The same program in a browser: a peer is seen in a page."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import trio

from tests.testbed.api import wait_until
from tests.testbed.errors import TestbedError
from tests.testbed.processes import Child, free_ports, plain_environment
from tests.viewer.browser import Browser
from tests.viewer.scenes import federation, peer
from tests.viewer.terminal import top

pytestmark = [pytest.mark.viewer, pytest.mark.usefixtures("viewers")]


def look(url: str, folder: Path, wanted: str) -> str:
    """What a browser shows of a page, once that is in it."""
    browser, seen = Browser(folder), [""]

    def there() -> bool:
        seen[0] = browser.text()
        return wanted in seen[0]

    try:
        browser.open(url)
        wait_until(f"{wanted} in the page", there, 90, pause=0.3)
    except TestbedError as error:
        error.add_note(f"it is\n{seen[0]}")
        raise
    finally:
        browser.close()
    return seen[0]


async def test_a_peer_is_seen_in_a_real_browser(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    async with federation(tmp_path) as (rome, milan, _):
        await peer(rome, milan)
        words = top("--web", "--port", str(port), "--socket", str(rome.daemon.inspector))
        served = Child("web", words, tmp_path / "web.log", environment=plain_environment())
        try:
            url = f"http://127.0.0.1:{port}/"
            await trio.to_thread.run_sync(wait_until, "somebody listens", lambda: listens(port), 60)
            text = await trio.to_thread.run_sync(look, url, tmp_path / "browser", "milan")
            assert "liqod rome" in text
        finally:
            served.kill()


def listens(port: int) -> bool:
    """Whether somebody does, on loopback."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
