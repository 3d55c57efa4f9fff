"""Netlink's messages and attributes: what is written is read, and nonsense ends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from liqod import netlink

KINDS = st.integers(0, netlink.MASK)


@given(st.lists(st.tuples(KINDS, st.binary(max_size=40)), max_size=8))
def test_attributes_that_are_written_are_read(wanted: list[tuple[int, bytes]]) -> None:
    data = b"".join(netlink.attribute(kind, value) for kind, value in wanted)
    assert len(data) % 4 == 0
    assert list(netlink.pairs(data)) == wanted
    [(kind, inside)] = netlink.pairs(netlink.nest(7, data))
    assert (kind, inside) == (7, data)


@given(st.binary(max_size=200))
def test_nonsense_ends(data: bytes) -> None:
    assert len(list(netlink.pairs(data))) <= len(data)
    assert len(list(netlink.messages(data))) <= len(data)


def test_text_and_numbers() -> None:
    said = netlink.attributes(netlink.text(1, "lqx") + netlink.number(2, 1 << 31 | 7))
    assert netlink.read_text(said[1]) == "lqx"
    assert netlink.read_number(said[2]) == 1 << 31 | 7
    assert netlink.read_text(None) == ""
    assert netlink.read_number(None, 5) == 5


def test_a_refusal_says_what_was_to_be_done() -> None:
    refused = netlink.NetlinkRefused(17, "already there")
    assert str(refused) == "File exists (already there)"
    refused.doing = "link lqx made"
    assert str(refused) == "link lqx made: File exists (already there)"
