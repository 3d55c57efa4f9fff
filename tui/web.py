"""``liqod top --web``: the same program in a browser, on loopback, for anyone who has its address.

All that a page sends is typed into a program with this user's rights, and neither loopback nor a
browser keeps others out: every program of this host reaches the port, and so does every web page
that the user opens. So the address holds a token that is new with each start, each request has to
name this address as its host, a websocket this page as its origin, and nothing acts unless that was
asked for. The token is in the path, not in a cookie: browsers send those to every port of a host.
"""

import hmac
import secrets
import shlex
import string
import sys
from collections.abc import Awaitable, Callable
from html import escape
from pathlib import Path

import textual_serve
from aiohttp import web
from textual_serve.server import Server

HOST = "127.0.0.1"
TITLE = "liqod top"
PAGE = Path(__file__).with_name("page.html")
STATIC = Path(textual_serve.__file__).parent / "static"
FILES = {
    "xterm.css": "css/xterm.css",
    "textual.js": "js/textual.js",
    "RobotoMono.ttf": "fonts/RobotoMono-VariableFont_wght.ttf",
}
"""Files that the page loads, by the name that it uses: nothing else of the package is served."""
OWN = ("--web", "--web-write")
"""Options of the server, which the program in a window is not started with."""
HEADERS = {
    # The terminal in the page makes style elements; scripts come from this server alone.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; font-src 'self'; connect-src 'self' ws://{host}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Page(Server):
    """The page and the websocket behind it.

    Args:
        command: the program of each window, as a line for the shell.
        port: on loopback.
        token: what the address has to hold.
    """

    def __init__(self, command: str, port: int, token: str) -> None:
        super().__init__(command, host=HOST, port=port, title=TITLE)
        self._token = token
        self._host = f"{HOST}:{port}"

    @property
    def address(self) -> str:
        """The URL to open, with the token."""
        return f"http://{self._host}/{self._token}/"

    def application(self) -> web.Application:
        """Everything that is served."""
        made = web.Application(middlewares=[self._guard])
        made.add_routes(
            [
                web.get("/{token}/", self._page),
                web.get("/{token}/ws", self.handle_websocket),
                web.get("/{token}/{file}", self._file),
            ]
        )
        return made

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        why = self.refusal(request)
        try:
            answer = web.Response(status=403, text=f"{why}\n") if why else await handler(request)
        except web.HTTPException as error:
            answer = web.Response(status=error.status, text=f"{error.reason}\n")
        if not answer.prepared:
            for name, value in HEADERS.items():
                answer.headers[name] = value.format(host=self._host)
        return answer

    def refusal(self, request: web.Request) -> str:
        """Why a request is not answered; empty where it is.

        A name that is made to lead here (DNS rebinding) is seen at the host, another page at the
        origin, which browsers send with every websocket.
        """
        if request.host != self._host:
            return f"this is served at {self._host} and by no other name"
        shown = request.path.removeprefix("/").partition("/")[0]
        if not hmac.compare_digest(shown.encode(errors="replace"), self._token.encode()):
            return f"open the address that `{TITLE} --web` printed"
        websocket = request.headers.get("Upgrade", "").lower() == "websocket"
        origin = request.headers.get("Origin", "" if websocket else None)
        if origin not in (None, f"http://{self._host}"):
            return "another page may not use this one"
        return ""

    async def _page(self, request: web.Request) -> web.Response:
        page = string.Template(PAGE.read_text()).substitute(
            title=escape(TITLE), websocket=escape(f"ws://{self._host}/{self._token}/ws")
        )
        return web.Response(text=page, content_type="text/html")

    async def _file(self, request: web.Request) -> web.StreamResponse:
        path = FILES.get(request.match_info["file"])
        if path is None:
            raise web.HTTPNotFound
        return web.FileResponse(STATIC / path)

    def serve(self, debug: bool = False) -> None:
        """Serve until interrupted. Raises OSError where the port is taken."""
        # A line for each request would hold the token.
        web.run_app(
            self.application(), host=HOST, port=self.port, print=self._print, access_log=None
        )

    def _print(self, listening: str) -> None:
        """Print the address, once the port is had."""
        print(f"liqod top: {self.address}  (Ctrl-C ends it)", flush=True)


def command(arguments: list[str], *, write: bool) -> str:
    """The command line of a window's program, which acts only where that was asked for."""
    rest = [word for word in arguments if word not in OWN]
    may = [] if write else ["--read-only"]
    return shlex.join([sys.executable, "-m", "liqod", "top", *rest, *may])


def serve(arguments: list[str], port: int, *, write: bool) -> int:
    """Serve until interrupted; one program for each browser window. Raises OSError."""
    Page(command(arguments, write=write), port, secrets.token_urlsafe(32)).serve()
    return 0
