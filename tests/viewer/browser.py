"""A real browser without a window: Chromium, spoken to by its DevTools protocol."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

STARTED_WITHIN = 60.0
# The terminal in the page paints on a canvas; without one it writes text, which can be read.
WITHOUT_CANVAS = "HTMLCanvasElement.prototype.getContext = () => null"


class Browser:
    """One page. It reaches this machine and nothing else."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [
                *("chromium", "--headless=new", "--no-sandbox", "--disable-gpu"),
                *(
                    "--remote-debugging-port=0",
                    f"--user-data-dir={folder}",
                    "--window-size=1400,800",
                ),
                *("--no-first-run", "--disable-background-networking", "--disable-dev-shm-usage"),
                "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._numbers = itertools.count(1)
        self._open = contextlib.ExitStack()
        try:
            self._page = self._open.enter_context(self._attach(folder))
        except BaseException:
            self.close()
            raise

    def _attach(self, folder: Path) -> ClientConnection:
        deadline = time.monotonic() + STARTED_WITHIN
        told = folder / "DevToolsActivePort"
        while not (told.exists() and told.read_text().strip()):
            assert time.monotonic() < deadline, "Chromium did not start"
            assert self._process.poll() is None, "Chromium ended"
            time.sleep(0.1)
        port = told.read_text().split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=10) as answer:
            pages = json.load(answer)
        (url,) = (page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
        return connect(url, max_size=None, compression=None)

    def call(self, method: str, **parameters: Any) -> Any:
        """One command; its result."""
        number = next(self._numbers)
        self._page.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._page.recv(timeout=30))
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, url: str) -> None:
        """Go to a page."""
        self.call("Page.enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", source=WITHOUT_CANVAS)
        self.call("Page.navigate", url=url)

    def text(self) -> str:
        """The terminal in the page, as text."""
        found = self.result("document.querySelector('.xterm-rows')?.innerText ?? ''")
        return found.replace("\xa0", " ")

    def result(self, script: str) -> str:
        """The value of a script in the page, or of the promise that it makes."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True)
        return str(found["result"].get("value", ""))

    def close(self) -> None:
        """End it."""
        self._open.close()
        self._process.kill()
        self._process.wait()
