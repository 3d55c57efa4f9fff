"""The same program in a browser: a peer is seen in a page."""

from __future__ import annotations

import re
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

pytestmark = [pytest.mark.viewer, pytest.mark.top, pytest.mark.usefixtures("viewers")]


def look(browser: Browser, wanted: str) -> str:
    """The text of a browser's page, once the wanted one is in it."""
    seen = [""]

    def there() -> bool:
        seen[0] = browser.text()
        return wanted in seen[0]

    try:
        wait_until(f"{wanted} in the page", there, 90, pause=0.3)
    except TestbedError as error:
        error.add_note(f"it is\n{seen[0]}")
        raise
    return seen[0]


FOREIGN = """
new Promise(done => {
  const socket = new WebSocket("%s");
  socket.onopen = () => { socket.send('["stdin", "q"]'); done("let in"); };
  socket.onerror = () => done("refused");
})
"""


async def test_a_peer_is_seen_in_a_real_browser_and_by_no_other_page(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    log = tmp_path / "web.log"
    async with federation(tmp_path) as (rome, milan, _):
        await peer(rome, milan)
        words = top("--web", "--port", str(port), "--socket", str(rome.daemon.inspector))
        served = Child("web", words, log, environment=plain_environment())
        browser = Browser(tmp_path / "browser")
        try:
            await trio.to_thread.run_sync(wait_until, "somebody listens", lambda: listens(port), 60)
            (url,) = re.findall(rf"http://127\.0\.0\.1:{port}/[\w-]+/", log.read_text())
            browser.open(url)
            text = await trio.to_thread.run_sync(look, browser, "milan")
            assert "liqod rome" in text
            assert "c cordon" not in text
            browser.open("data:text/html,<title>elsewhere</title>")
            for path in (url.split("/", 3)[3] + "ws", "ws"):
                script = FOREIGN % f"ws://127.0.0.1:{port}/{path}"
                assert browser.result(script) == "refused"
        finally:
            browser.close()
            served.kill()


def listens(port: int) -> bool:
    """True if a process listens on this port of loopback."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
