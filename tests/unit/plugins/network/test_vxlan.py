"""Bare VXLAN is used only where it is asked for; both sides find its number by the server's key."""

import msgspec

from liqod.plugins.network.vxlan import VXLAN, vni
from liqod.plugins.providers import TunnelSpec
from liqod.plugins.validation import provided_problem


def test_it_is_not_used_where_nothing_is_said():
    assert VXLAN.on_request
    assert not VXLAN.encrypted
    assert provided_problem(msgspec.structs.replace(VXLAN, on_request=False)) is not None


def test_both_sides_have_one_number():
    server, client = b"s" * 32, b"c" * 32
    there = TunnelSpec(
        side="server", private_key=b"1" * 32, public_key=server, peer_public_key=client
    )
    here = TunnelSpec(
        side="client", private_key=b"2" * 32, public_key=client, peer_public_key=server
    )
    assert vni(there) == vni(here)
    other = msgspec.structs.replace(here, peer_public_key=b"o" * 32)
    assert 0 < vni(other) < 1 << 24
    assert vni(other) != vni(here)
