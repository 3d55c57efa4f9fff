"""The choice of the proxy to a server, and the meaning of its answer."""

import msgspec
import pytest

from liqod.model.network.environment import NONE, of_environment
from liqod.plugins.network.proxyselection import targets
from liqod.plugins.network.websocket import WebsocketSettings
from liqod.tunnel.proxying import HttpProxy, refusal
from liqod.tunnel.wanted import Target, TunnelRequest, Wanted, decoded, encoded

PROXY = "http://proxy.example.org:3128"


@pytest.mark.parametrize(
    ("host", "without", "leads"),
    [
        ("gw.example.org", "", True),
        ("gw.example.org", "example.org", False),
        ("gw.example.org", ".example.org", False),
        ("example.org", ".example.org", True),
        ("GW.example.org", "gw.EXAMPLE.org", False),
        ("notexample.org", "example.org", True),
        ("gw.example.org", "*", False),
        ("gw.example.org", "*.example.org", False),
        ("gw.example.org", "gw.example.org:443", False),
        ("203.0.113.7", "203.0.113.0/24", False),
        ("203.0.113.7", "203.0.113.7", False),
        ("203.0.113.7", "198.51.100.0/24, 10.0.0.0/8", True),
        ("203.0.113.7", "example.org,,", True),
        ("2001:db8::1", "2001:db8::/32", False),
    ],
)
def test_no_proxy_is_read_as_others_read_it(host: str, without: str, leads: bool):
    for names in (("HTTPS_PROXY", "NO_PROXY"), ("https_proxy", "no_proxy")):
        environment = dict(zip(names, (PROXY, without), strict=True))
        found = of_environment(host, environment)
        assert found == (PROXY if leads else NONE)


def test_what_the_configuration_says_goes_before_the_environment():
    environment = {"HTTPS_PROXY": PROXY}
    ends = ("gw.example.org:443", "[2001:db8::1]:8443")
    names = [("gw.example.org", 443), ("2001:db8::1", 8443)]
    for said, used in (("", PROXY), ("none", ""), ("http://other:1", "http://other:1")):
        found = targets(ends, WebsocketSettings(proxy=said).proxy, environment)
        assert found == tuple(Target(*each, used) for each in names)
    assert targets(ends, WebsocketSettings().proxy, {}) == tuple(Target(*each) for each in names)


@pytest.mark.parametrize(
    "wrong", ["ftp://a:1", "proxy:3128", "http://", "http://a:b", "https://:1"]
)
def test_a_proxy_that_is_none_is_refused_without_its_password(wrong: str):
    with pytest.raises(ValueError, match="proxy: a proxy is http"):
        WebsocketSettings(proxy=wrong)


def test_it_is_asked_with_user_and_password():
    proxy = HttpProxy("https://us%40er:pass%3Aword@proxy.example.org")
    assert (proxy.host, proxy.port, proxy.encrypted) == ("proxy.example.org", 443, True)
    asked = proxy.request("2001:db8::1", 443).decode()
    assert asked.startswith("CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\n")
    assert "Proxy-Authorization: Basic dXNAZXI6cGFzczp3b3Jk\r\n\r\n" in asked
    assert "pass" not in repr(proxy)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 200 Connection established\r\n\r\n", None),
        (b"HTTP/1.0 200\r\n\r\n", None),
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "wants a user and a password"),
        (b"HTTP/1.1 403 Forbidden\x1b[2J\r\n\r\n", r"does not connect to gw:443 \(403 Forbidden\["),
        (b"SSH-2.0-x\r\n\r\n", "speaks no HTTP"),
        (b"\r\n\r\n", "speaks no HTTP"),
    ],
)
def test_what_it_answers_is_told(answer: bytes, said: str | None):
    problem = refusal(answer, HttpProxy(PROXY), "gw:443")
    if said is None:
        assert problem is None
    else:
        assert problem is not None
        with pytest.raises(AssertionError, match=said):
            raise AssertionError(problem)


def test_what_is_wanted_comes_over_as_it_was_said():
    wanted = Wanted("client", "n", "pem", b"\0\1", 0, (Target("h", 1, PROXY),), 5, "/ca")
    request = TunnelRequest("be", "lqt0", wanted)
    assert decoded(encoded(request)) == request
    assert decoded(encoded(TunnelRequest("hurry", "lqt0"))) == TunnelRequest("hurry", "lqt0")
    assert wanted.digest != msgspec.structs.replace(wanted, keepalive=6).digest
    assert "pem" not in repr(wanted)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b"7",
        b'{"do": "be", "tunnel": "lqt0"}',
        b'{"do": "be", "tunnel": "lqt0", "wanted": {"side": "server"}}',
        b'{"do": "die", "tunnel": "lqt0"}',
        b'{"do": "end", "tunnel": 7}',
    ],
)
def test_what_is_no_request_is_refused(text: bytes):
    with pytest.raises(ValueError):  # noqa: PT011
        decoded(text)
