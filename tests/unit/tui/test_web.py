"""The page of ``liqod top --web``: who is let in, and what others get, over real connections."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import Awaitable, Callable
from html import unescape
from http.client import HTTPConnection
from typing import ClassVar
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.testbed.processes import free_ports
from tui import web as served
from tui.__main__ import main
from tui.web import HEADERS, Page, command

TOKEN = "a-token"


class Window:
    """Stands for the program of a window: keeps what is typed into each."""

    started: ClassVar[list[Window]] = []

    def __init__(self, command: str, **options: object) -> None:
        self.typed = asyncio.Queue[bytes]()

    async def start(self, width: int, height: int) -> None:
        self.started.append(self)

    async def stop(self) -> None:
        pass

    async def send_bytes(self, data: bytes) -> None:
        self.typed.put_nowait(data)


class Served:
    """A page on a port of its own."""

    def __init__(self) -> None:
        (self.port,) = free_ports(1)
        self.page = Page("liqod top", self.port, TOKEN)
        self.host = f"127.0.0.1:{self.port}"

    def run(self, scenario: Callable[[], Awaitable[None]]) -> None:
        """Serve while the scenario runs."""

        async def inner() -> None:
            runner = web.AppRunner(self.page.application(), access_log=None)
            await runner.setup()
            try:
                await web.TCPSite(runner, "127.0.0.1", self.port).start()
                await scenario()
            finally:
                await runner.cleanup()

        asyncio.run(inner())

    async def type(self, text: str, *, name: str = "", token: str = TOKEN, origin: str) -> bytes:
        """Shake hands as a browser would and type; what arrives. Raises InvalidStatus."""
        url = f"ws://{name or self.host}/{token}/ws"
        async with connect(
            url,
            host="127.0.0.1",
            port=self.port,
            proxy=None,
            additional_headers={"Origin": origin} if origin else {},
        ) as socket:
            await socket.send(json.dumps(["stdin", text]))
            (window,) = Window.started
            async with asyncio.timeout(20):
                return await window.typed.get()

    async def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
        """The answer to a plain request: status, headers and text."""

        def ask() -> tuple[int, dict[str, str], str]:
            connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
            connection.request("GET", path, headers={"Host": self.host, **headers})
            answer = connection.getresponse()
            found = answer.status, dict(answer.getheaders()), answer.read().decode("latin-1")
            connection.close()
            return found

        return await asyncio.to_thread(ask)


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Served:
    monkeypatch.setattr("textual_serve.server.AppService", Window)
    monkeypatch.setattr(Window, "started", [])
    return Served()


def test_who_has_the_address_types_into_the_program(page: Served) -> None:
    async def scenario() -> None:
        assert await page.type("q", origin=f"http://{page.host}") == b"q"

    page.run(scenario)


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param({"origin": "http://evil.example"}, id="another site's page"),
        pytest.param({"origin": "http://127.0.0.1:1"}, id="a page of another port"),
        pytest.param({"origin": "null"}, id="a sandboxed page"),
        pytest.param({"origin": ""}, id="a program that names no origin"),
        pytest.param({"token": "another-token"}, id="a guessed token"),
        pytest.param({"token": ""}, id="no token"),
        pytest.param({"token": "ä"}, id="no ASCII"),
        pytest.param({"name": "evil.example:{port}"}, id="a name that leads here"),
        pytest.param(
            {"name": "evil.example:{port}", "origin": "http://evil.example:{port}"},
            id="a page under a name that leads here",
        ),
        pytest.param({"name": "localhost:{port}"}, id="another name of this host"),
    ],
)
def test_a_websocket_of_others_is_refused_and_starts_nothing(page: Served, attack) -> None:
    async def scenario() -> None:
        wrong = {key: value.format(port=page.port) for key, value in attack.items()}
        with pytest.raises(InvalidStatus) as caught:
            await page.type("D", **{"origin": f"http://{page.host}", **wrong})
        assert caught.value.response.status_code in (403, 404)
        assert not Window.started

    page.run(scenario)


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", {}),
        ("/guessed/", {}),
        ("/guessed/textual.js", {}),
        (f"//{TOKEN}/", {}),
        (f"/{TOKEN}/", {"Host": "evil.example"}),
        (f"/{TOKEN}/", {"Host": "localhost"}),
        (f"/{TOKEN}/", {"Origin": "http://evil.example"}),
    ],
)
def test_a_page_is_not_shown_to_others(page: Served, path: str, headers: dict[str, str]) -> None:
    async def scenario() -> None:
        status, _, text = await page.get(path, **headers)
        assert status == 403
        assert TOKEN not in text
        said = (
            "open the address that `liqod top --web` printed",
            f"this is served at {page.host} and by no other name",
            "another page may not use this one",
        )
        assert text.strip() in said

    page.run(scenario)


def test_the_page_loads_what_it_needs_from_here_and_nothing_from_elsewhere(page: Served) -> None:
    async def scenario() -> None:
        status, headers, text = await page.get(f"/{TOKEN}/")
        assert status == 200
        assert headers.keys() >= HEADERS.keys()
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "script-src 'self';" in headers["Content-Security-Policy"]
        assert headers["Referrer-Policy"] == "no-referrer"
        addresses = [word for word in unescape(text).split('"') if "://" in word]
        assert addresses == [f"ws://{page.host}/{TOKEN}/ws"]
        for file in served.FILES:
            assert file in text
            status, _, _ = await page.get(f"/{TOKEN}/{file}")
            assert status == 200
        for wanted in ("images", "page.html", "..%2f..%2fapp_service.py", "js/textual.js"):
            status, _, _ = await page.get(f"/{TOKEN}/{wanted}")
            assert status == 404

    page.run(scenario)


def test_a_window_acts_only_where_that_was_asked_for() -> None:
    words = ["--web", "--socket", "a b.sock"]
    assert shlex.split(command(words, write=False))[1:] == [
        *("-m", "liqod", "top", "--socket", "a b.sock", "--read-only")
    ]
    assert "--read-only" not in command(["--web-write"], write=True)
    assert "--web" not in command(["--web", "--web-write"], write=True)


def test_a_token_is_new_with_each_start_and_printed_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_app(app: web.Application, **options: object) -> None:
        assert options["host"] == "127.0.0.1"
        assert options["access_log"] is None
        assert capsys.readouterr().out == "", "the port is not had yet"
        told = options["print"]
        assert callable(told)
        told("======== Running on http://127.0.0.1:8391 ========\n(Press CTRL+C to quit)")
        printed.append(capsys.readouterr().out)

    printed: list[str] = []
    monkeypatch.setattr(web, "run_app", run_app)
    assert main(["--web", "--port", "8391"]) == main(["--web", "--port", "8391"]) == 0
    first, second = "".join(printed).splitlines()
    tokens = {urlsplit(line.split()[2]).path.strip("/") for line in (first, second)}
    assert len(tokens) == 2
    assert all(len(token) >= 32 for token in tokens)


def test_without_the_server_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tui.web", None)
    assert main(["--web"]) == 2
    assert f"{sys.executable} -m pip install textual-serve" in capsys.readouterr().err
