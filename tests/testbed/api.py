"""The plainest possible access to an API server, for what the testbed itself needs to know.

Synchronous and of the standard library: `liqod.kube` is under test here, and a session-scoped
fixture has no event loop.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import ssl
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.testbed.errors import Missing, TestbedError

_SAMPLE = re.compile(r"^apiserver_request_total\{(?P<labels>[^}]*)\} (?P<value>\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')

LONGEST_PAUSE = 0.5
"""Seconds between two looks at what takes long."""
PATIENCE = 10.0
"""Seconds for which an answer of 429 is followed by another try."""


class Api:
    """Requests to one API server with one client certificate.

    Connections are kept for reading, since a handshake costs more than most answers, and a test
    that waits reads all the time. A request that changes something has a connection of its own: one
    that the server had closed meanwhile would leave it unknown if it was done.
    """

    def __init__(self, host: str, port: int, authority: Path, certificate: Path, key: Path) -> None:
        self._address = (host, port)
        self._context = ssl.create_default_context(cafile=str(authority))
        self._context.load_cert_chain(certificate, key)
        self._idle: list[http.client.HTTPSConnection] = []

    def close(self) -> None:
        """Closes the connections that were kept; it can be used again."""
        while self._idle:
            self._idle.pop().close()

    def __del__(self) -> None:
        self.close()

    def raw(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content: str = "application/json",
        timeout: float = 10.0,
    ) -> tuple[int, bytes]:
        """Status and body of the answer. Raises OSError where there is none."""
        if method == "GET":
            with contextlib.suppress(IndexError):
                kept = self._idle.pop()
                with contextlib.suppress(ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
                    return self._exchange(kept, timeout, method, path)
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content} if data else {}
        fresh = http.client.HTTPSConnection(*self._address, context=self._context, timeout=timeout)
        return self._exchange(fresh, timeout, method, path, data, headers)

    def _exchange(
        self, connection: http.client.HTTPSConnection, timeout: float, method: str, *request: Any
    ) -> tuple[int, bytes]:
        """One request and its answer; keeps the connection if it is good for another to read."""
        good = False
        try:
            if connection.sock is not None:
                connection.sock.settimeout(timeout)
            connection.request(method, *request)
            answer = connection.getresponse()
            found = answer.status, answer.read()
            good = method == "GET" and not answer.will_close
        except http.client.HTTPException as error:
            if isinstance(error, OSError):
                raise
            raise OSError(f"{method} {request[0]}: {error!r}") from error
        finally:
            if good:
                self._idle.append(connection)
            else:
                connection.close()
        return found

    def call(self, method: str, path: str, body: object = None, **options: Any) -> Any:
        """The decoded answer; raises `TestbedError` with the server's words on an error status.

        That is `Missing` where there is no such object.
        """
        status, answer = self.raw(method, path, body, **options)
        # A kind that was just defined, or a server that was just started, asks for patience.
        deadline = time.monotonic() + PATIENCE
        while status == 429 and time.monotonic() < deadline:
            time.sleep(0.2)
            status, answer = self.raw(method, path, body, **options)
        if status >= 400:
            kind = Missing if status == 404 else TestbedError
            raise kind(f"{method} {path}: {status} {answer.decode(errors='replace')[:500]}")
        return json.loads(answer)

    def get(self, path: str) -> Any:
        """`call` with GET."""
        return self.call("GET", path)

    def exists(self, path: str) -> bool:
        """True if there is an object at `path`."""
        status, answer = self.raw("GET", path)
        if status not in {200, 404}:
            raise TestbedError(f"GET {path}: {status} {answer.decode(errors='replace')[:500]}")
        return status == 200

    def ready(self, path: str = "/readyz") -> bool:
        """True if a health endpoint answers ok; an unreachable server is not ready."""
        try:
            return self.raw("GET", path, timeout=2.0)[0] == 200
        except OSError:
            return False

    def requests(self) -> Counter[tuple[str, str]]:
        """How many requests were served so far, by (verb, resource with its sub-resource)."""
        metrics = self.raw("GET", "/metrics", timeout=30.0)[1].decode()
        counted: Counter[tuple[str, str]] = Counter()
        for sample in _SAMPLE.finditer(metrics):
            labels = dict(_LABEL.findall(sample["labels"]))
            resource = "/".join(filter(None, (labels["resource"], labels.get("subresource", ""))))
            counted[labels["verb"], resource or "-"] += int(float(sample["value"]))
        return counted


BUSY = 3
"""How many times longer things may take where the machine has much other work."""


def wait_until(what: str, happens: Any, seconds: float, pause: float = 0.05) -> None:
    """Polls `happens()` until it is true; raises `TestbedError` where it takes far too long.

    `seconds` is what it takes at the most on a machine that is not busy, and a failure waits
    :data:`BUSY` times that. While an object that it asks for is not there, or a field of one, it is
    not true yet. A condition that takes long is polled less often: ten tests that poll keep the
    servers from what they wait for.
    """
    begin = time.monotonic()
    while True:
        asked = time.monotonic()
        missing: Exception | None = None
        try:
            if happens():
                return
        except (Missing, LookupError) as error:
            missing = error
        now = time.monotonic()
        if now > begin + BUSY * seconds:
            why = f", for want of {missing!r}" if missing is not None else ""
            raise TestbedError(f"{what}: not within {BUSY * seconds:.0f} s{why}") from missing
        time.sleep(max(pause, now - asked, min((now - begin) / 10, LONGEST_PAUSE)))
