"""Abilities of this machine for networks: its backends, and its addresses."""

import pytest

from liqod.network.hostcapabilities import is_allowed, own_addresses
from liqod.plugins.providers import TunnelProvider


def provider(name: str = "wireguard", *, encrypted: bool = True, asked: bool = False):
    return TunnelProvider(
        name=name,
        build=lambda *_: None,  # type: ignore[arg-type]
        encrypted=encrypted,
        overhead=80,
        on_request=asked,
    )


def test_what_encrypts_needs_no_naming():
    assert is_allowed(provider(), ())
    assert not is_allowed(provider("vxlan", encrypted=False), ())
    assert not is_allowed(provider("websocket", asked=True), ())


def test_what_is_named_is_used_and_nothing_else():
    assert is_allowed(provider("vxlan", encrypted=False), ("vxlan",))
    assert not is_allowed(provider(), ("vxlan",))


@pytest.mark.parametrize(
    ("node", "addresses"),
    [
        ("192.0.2.5", ("192.0.2.5",)),
        ("2001:db8::5", ("2001:db8::5",)),
        ("127.0.0.1", ()),
        ("::1", ()),
        ("0.0.0.0", ()),
        ("fe80::1", ()),
        ("", ()),
    ],
)
def test_peers_reach_it_where_it_is_a_node(node: str, addresses: tuple[str, ...]):
    assert own_addresses(node) == addresses
