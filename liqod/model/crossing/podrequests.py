"""Translates requests for a pod at a peer, from the kubelet's API to that of the peer's API server.

This cluster's API server sends a kubelet ``/exec/NAMESPACE/POD/CONTAINER?input=1``; a peer's API
server gets a request for a sub-resource (``pods/POD/exec?stdin=true``). Only these parts cross:
valid names, the parameters of these lists, and the headers that agree on a protocol. Credentials
never do, in any header or protocol.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from liqod.errors import Invalid, NotFound, ProtocolError
from liqod.model.ids import is_dns_label, is_dns_subdomain

LOG: Final = "log"
_TRUE: Final = ("1", "true", "True")
_STREAMS: Final = {"input": "stdin", "output": "stdout", "error": "stderr", "tty": "tty"}
"""Parameters of exec and attach, at a kubelet and at an API server."""
_SWITCHES: Final = ("follow", "previous", "timestamps")
_NUMBERS: Final = ("sinceSeconds", "tailLines", "limitBytes")
_ACTIONS: Final = {"containerLogs": LOG, "exec": "exec", "attach": "attach"}
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_TIME: Final = re.compile(r"[0-9TtZz:.+-]{10,40}")
_PORTS: Final = re.compile(r"[0-9]{1,5}(,[0-9]{1,5}){0,63}")

SPDY: Final = "spdy/3.1"
WEBSOCKET: Final = "websocket"
_SPOKEN: Final = re.compile(
    r"(v[0-9]{1,2}\.)?(base64\.)?(channel|portforward)\.k8s\.io|SPDY/3\.1\+portforward\.k8s\.io"
)
"""Names of Kubernetes' stream protocols; a bearer token can be put in the place of one."""
_KEY: Final = re.compile(r"[A-Za-z0-9+/]{22}==")
MOST_SPOKEN: Final = 16
_AGREED: Final = ("sec-websocket-accept", "sec-websocket-protocol", "x-stream-protocol-version")
"""Headers of the answer by which a protocol is agreed on."""
_VALUE: Final = re.compile(r"[\x21-\x7e][\x20-\x7e]{0,255}")


class PodRequest(msgspec.Struct, frozen=True):
    """A request for a sub-resource of a pod.

    Attributes:
        action: the sub-resource at the peer.
        namespace, pod: the pod, by its names in this cluster.
        query: the parameters at the peer.
    """

    action: str
    namespace: str
    pod: str
    query: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def parameters(self) -> dict[str, Sequence[str]]:
        """The query, to be encoded."""
        return dict(self.query)


class Switch(msgspec.Struct, frozen=True):
    """The requested protocol.

    Attributes:
        name: ``spdy/3.1`` or ``websocket``.
        headers: that request it.
    """

    name: str
    headers: tuple[tuple[str, str], ...]


def pod_request(path: str, query: Mapping[str, Sequence[str]]) -> PodRequest:
    """The request for a pod's sub-resource at a peer, made from a request to a kubelet.

    Args:
        path: decoded.
        query: each parameter with its values.

    Raises:
        NotFound: it requests nothing that is served.
        Invalid: a name or a value is not valid.
    """
    parts = path.split("/")
    if len(parts) == 4 and parts[:2] == ["", "portForward"]:
        return _checked(PodRequest("portforward", parts[2], parts[3], _ports(query)))
    if len(parts) != 5 or parts[0] or parts[1] not in _ACTIONS:
        raise NotFound("a virtual node serves logs, exec, attach and port-forward of its pods")
    action, container = _ACTIONS[parts[1]], parts[4]
    if not is_dns_label(container):
        raise Invalid("that is no name of a container")
    asked = _of_log(query) if action == LOG else _of_streams(query)
    if action == "exec":
        asked["command"] = tuple(query.get("command", ()))
    asked["container"] = (container,)
    return _checked(PodRequest(action, parts[2], parts[3], tuple(asked.items())))


def _checked(request: PodRequest) -> PodRequest:
    if not is_dns_label(request.namespace) or not is_dns_subdomain(request.pod):
        raise Invalid("that is no name of a pod")
    return request


def _of_streams(query: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    # An API server's defaults are not a kubelet's: parameters that are off are sent, too.
    return {
        there: ("true" if _first(query, here) in _TRUE else "false",)
        for here, there in _STREAMS.items()
    }


def _of_log(query: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {
        name: ("true",) for name in _SWITCHES if _first(query, name) in _TRUE
    }
    for name in _NUMBERS:
        if value := _first(query, name):
            found[name] = (_fitting(_NUMBER, name, value),)
    if value := _first(query, "sinceTime"):
        found["sinceTime"] = (_fitting(_TIME, "sinceTime", value),)
    if value := _first(query, "stream"):
        if value not in ("All", "Stdout", "Stderr"):
            raise Invalid("stream: All, Stdout or Stderr can be")
        found["stream"] = (value,)
    return found


def _ports(query: Mapping[str, Sequence[str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    value = _first(query, "port")
    return (("ports", (_fitting(_PORTS, "port", value),)),) if value else ()


def _first(query: Mapping[str, Sequence[str]], name: str) -> str:
    values = query.get(name, ())
    return values[0] if values else ""


def _fitting(pattern: re.Pattern[str], name: str, value: str) -> str:
    if not pattern.fullmatch(value):
        raise Invalid(f"{name}: that cannot be")
    return value


def switch(headers: Mapping[str, str]) -> Switch:
    """The protocol that a request asks for, with the headers that request it of a peer.

    Args:
        headers: of the request; names in lower case, repeated ones joined.

    Raises:
        Invalid: the protocol is unknown, or the request has a body.
    """
    if headers.get("content-length", "0").strip() != "0" or "transfer-encoding" in headers:
        raise Invalid("a request for another protocol has no body")
    name = headers.get("upgrade", "").strip().lower()
    found: list[tuple[str, str]] = [("Connection", "Upgrade")]
    if name == SPDY:
        found.append(("Upgrade", "SPDY/3.1"))
        spoken = _spoken(headers.get("x-stream-protocol-version", ""))
        # A line for each: not every server takes them apart.
        found += [("X-Stream-Protocol-Version", each) for each in spoken]
    elif name == WEBSOCKET:
        key = headers.get("sec-websocket-key", "").strip()
        if not _KEY.fullmatch(key) or headers.get("sec-websocket-version", "").strip() != "13":
            raise Invalid("that is no WebSocket of version 13")
        found += [("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")]
        found.append(("Sec-WebSocket-Key", key))
        spoken = _spoken(headers.get("sec-websocket-protocol", ""))
        if spoken:
            found.append(("Sec-WebSocket-Protocol", ", ".join(spoken)))
    else:
        raise Invalid("SPDY/3.1 or WebSocket can be asked for")
    return Switch(name, tuple(found))


def _spoken(text: str) -> list[str]:
    """The protocols that are offered, without those that are not Kubernetes'."""
    offered = [each.strip() for each in text.split(",") if each.strip()]
    known = [each for each in offered if _SPOKEN.fullmatch(each)]
    if (offered and not known) or len(known) > MOST_SPOKEN:
        raise Invalid("none of the protocols that are offered is Kubernetes'")
    return known


def agreed(asked: Switch, headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of a response that switches to the requested protocol, from those of the peer's.

    Raises:
        ProtocolError: the peer switches to another protocol, or its header is malformed.
    """
    if headers.get("upgrade", "").strip().lower() != asked.name:
        raise ProtocolError("it switches to another protocol than was asked for")
    found = {"Connection": "Upgrade", "Upgrade": headers["upgrade"].strip()}
    for name in _AGREED:
        if value := headers.get(name, ""):
            if not _VALUE.fullmatch(value):
                raise ProtocolError("it switches with a header that is none")
            found[name] = value
    return found
