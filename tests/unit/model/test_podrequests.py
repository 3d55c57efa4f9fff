"""The parts that cross of a request for a pod that runs at a peer."""

import string
from typing import Any
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.errors import Invalid, NotFound, ProtocolError
from liqod.model.crossing.podrequests import Switch, agreed, pod_request, switch

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
SPDY = {"upgrade": "SPDY/3.1", "x-stream-protocol-version": "v4.channel.k8s.io, channel.k8s.io"}
WEBSOCKET = {
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": KEY,
    "sec-websocket-protocol": "v5.channel.k8s.io",
}


def asked(target: str) -> tuple[str, str, str, dict[str, Any]]:
    path, _, query = target.partition("?")
    found = pod_request(path, parse_qs(query, keep_blank_values=True))
    return found.action, found.namespace, found.pod, dict(found.parameters)


def test_each_request_has_its_counterpart() -> None:
    streams = {"stdin": ("true",), "stdout": ("true",), "stderr": ("false",), "tty": ("false",)}
    assert asked("/exec/shop/web-1.x/main?command=a&command=&input=1&output=1&error=0") == (
        *("exec", "shop", "web-1.x"),
        {**streams, "command": ("a", ""), "container": ("main",)},
    )
    assert asked("/attach/shop/web/main?input=true&output=1&command=no") == (
        *("attach", "shop", "web"),
        {**streams, "container": ("main",)},
    )
    assert asked("/portForward/shop/web") == ("portforward", "shop", "web", {})
    assert asked("/portForward/shop/web?port=80,443")[3] == {"ports": ("80,443",)}
    options = "follow=true&previous=true&timestamps=1&sinceSeconds=5&tailLines=0&limitBytes=9"
    assert asked(f"/containerLogs/shop/web/main?{options}&stream=Stdout&other=1") == (
        *("log", "shop", "web"),
        {
            **dict.fromkeys(("follow", "previous", "timestamps"), ("true",)),
            "sinceSeconds": ("5",),
            "tailLines": ("0",),
            "limitBytes": ("9",),
            "stream": ("Stdout",),
            "container": ("main",),
        },
    )
    since = asked("/containerLogs/shop/web/main?sinceTime=2026-01-01T00:00:00Z&follow=false")[3]
    assert since == {"sinceTime": ("2026-01-01T00:00:00Z",), "container": ("main",)}


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/exec", "/exec/shop/web", "/exec/shop/web/uid/main", "/exec/shop/web/main/"),
        *("/pods", "/run/shop/web/main", "/EXEC/shop/web/main", "exec/shop/web/main"),
        *("//exec/shop/web/main", "/portForward/shop/web/80", "/cri/exec/x", "/metrics"),
    ],
)
def test_nothing_else_is_served(path: str) -> None:
    with pytest.raises(NotFound):
        pod_request(path, {"command": ["x"]})


@pytest.mark.parametrize(
    "target",
    [
        *("/exec/../web/main", "/exec/shop/../main", "/exec/shop/web/..", "/exec//web/main"),
        *("/exec/shop/web%2F../main", "/exec/shop/we\r\nb/main", "/exec/shop/web/main\n"),
        *("/exec/Shop/web/main", "/exec/shop/web/ma.in", "/portForward/shop/"),
        *("/portForward/shop/web?port=80%26x=1", "/portForward/shop/web?port=-1"),
        *("/containerLogs/shop/web/main?tailLines=-1", "/containerLogs/shop/web/main?tailLines=x"),
        *("/containerLogs/shop/web/main?sinceTime=x", "/containerLogs/shop/web/main?stream=x"),
    ],
)
def test_what_is_no_name_or_value_does_not_cross(target: str) -> None:
    with pytest.raises(Invalid):
        asked(target)


PART = st.text(alphabet=string.ascii_letters + string.digits + "/.%\r\n?#& -", max_size=12)


@given(namespace=PART, pod=PART, container=PART)
def test_no_path_leads_elsewhere(namespace: str, pod: str, container: str) -> None:
    try:
        found = pod_request(f"/exec/{namespace}/{pod}/{container}", {})
    except (NotFound, Invalid):
        return
    assert (found.namespace, found.pod) == (namespace, pod)
    assert found.parameters["container"] == (container,)
    for name in (namespace, pod, container):
        assert not set(name) & set("/%\r\n?#& ")
        assert name.strip(".") == name != ""


def test_the_protocol_is_asked_for_in_kubernetes_words() -> None:
    assert switch(SPDY) == Switch(
        "spdy/3.1",
        (
            ("Connection", "Upgrade"),
            ("Upgrade", "SPDY/3.1"),
            ("X-Stream-Protocol-Version", "v4.channel.k8s.io"),
            ("X-Stream-Protocol-Version", "channel.k8s.io"),
        ),
    )
    token = "base64url.bearer.authorization.k8s.io.c2VjcmV0"
    offered = f"v5.channel.k8s.io, {token}, v4.base64.channel.k8s.io,SPDY/3.1+portforward.k8s.io"
    more = {"authorization": "Bearer x", "impersonate-user": "root", "cookie": "a", "origin": "x"}
    found = dict(switch({**WEBSOCKET, **more, "sec-websocket-protocol": offered}).headers)
    assert found == {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": KEY,
        "Sec-WebSocket-Protocol": (
            "v5.channel.k8s.io, v4.base64.channel.k8s.io, SPDY/3.1+portforward.k8s.io"
        ),
    }
    assert len(switch({"upgrade": "spdy/3.1"}).headers) == 2


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"upgrade": "h2c"},
        {**SPDY, "content-length": "5"},
        {**SPDY, "content-length": "0, 5"},
        {**SPDY, "transfer-encoding": "chunked"},
        {**SPDY, "x-stream-protocol-version": "v4.channel.k8s.io\r\nX: y"},
        {**SPDY, "x-stream-protocol-version": ",".join(["channel.k8s.io"] * 17)},
        {**WEBSOCKET, "sec-websocket-version": "8"},
        {**WEBSOCKET, "sec-websocket-key": f"{KEY}\r\nX: y"},
        {**WEBSOCKET, "sec-websocket-protocol": "base64url.bearer.authorization.k8s.io.eA"},
    ],
)
def test_nothing_else_is_asked_for(headers: dict[str, str]) -> None:
    with pytest.raises(Invalid):
        switch(headers)


def test_the_answer_says_what_was_agreed_on_and_no_more() -> None:
    spdy, there = switch(SPDY), {"upgrade": "SPDY/3.1", "set-cookie": "a=b", "server": "x"}
    assert agreed(spdy, {**there, "x-stream-protocol-version": "v4.channel.k8s.io"}) == {
        "Connection": "Upgrade",
        "Upgrade": "SPDY/3.1",
        "x-stream-protocol-version": "v4.channel.k8s.io",
    }
    for wrong in (
        {},
        {"upgrade": "websocket"},
        {**there, "x-stream-protocol-version": "a\r\nSet-Cookie: b"},
        {**there, "x-stream-protocol-version": "a" * 300},
    ):
        with pytest.raises(ProtocolError):
            agreed(spdy, wrong)
