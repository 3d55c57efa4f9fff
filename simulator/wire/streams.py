"""Streams to a pod: ``exec``, ``attach`` and ``port-forward`` echo what they receive.

The protocol is agreed on as the real server does; what is said in it is not taken apart. Each byte
comes back, behind a line of JSON that says what was asked for, until the client has ended.
"""

import base64
import hashlib
from typing import Any

import msgspec

from liqod.kube.http.httpserver import HttpRequest, HttpResponse
from liqod.kube.http.wire import Wire
from simulator.storage.storage import Item
from simulator.wire.failures import bad_request

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""Of RFC 6455, section 1.3."""


def answer(pod: Item, action: str, request: HttpRequest) -> HttpResponse:
    """Switch to the protocol that is asked for.

    Raises:
        ApiError: 400, for another or none, and for what a pod cannot do.
    """
    _check(pod, action, request)
    name = request.headers.get("upgrade", "").lower()
    headers = {"Connection": "Upgrade", "Upgrade": request.headers.get("upgrade", "")}
    if not request.upgrade or name not in ("spdy/3.1", "websocket"):
        raise bad_request("Upgrade request required")
    field = "sec-websocket-protocol" if name == "websocket" else "x-stream-protocol-version"
    if offered := request.headers.get(field, ""):
        headers[field] = offered.split(",")[0].strip()
    if name == "websocket":
        key = request.headers["sec-websocket-key"] + _GUID
        digest = hashlib.sha1(key.encode(), usedforsecurity=False).digest()
        headers["sec-websocket-accept"] = base64.b64encode(digest).decode()
    said: dict[str, Any] = {"pod": f"{pod.namespace}/{pod.name}", "action": action}
    return HttpResponse(101, headers=headers, takeover=_Echo({**said, "query": request.query}))


def _check(pod: Item, action: str, request: HttpRequest) -> None:
    if action == "portforward":
        return
    names = [each["name"] for each in pod.decode()["spec"]["containers"]]
    container = request.one("container") or names[0]
    if container not in names:
        raise bad_request(f"container {container} is not valid for pod {pod.name}")
    if action == "exec" and not request.query.get("command"):
        raise bad_request("you must specify at least 1 command for the container")


class _Echo:
    """Sends what was asked for, then echoes what it receives."""

    def __init__(self, said: dict[str, Any]) -> None:
        self._said = said

    async def run(self, wire: Wire, early: bytes, /) -> None:
        await wire.send(msgspec.json.encode(self._said) + b"\n" + early)
        while data := await wire.receive():
            await wire.send(data)

    def close(self) -> None:
        """There is nothing to release."""
