"""Netlink's messages and attributes: what is written is read, and nonsense ends."""

from __future__ import annotations

import subprocess
import sys

import pytest
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


LINK_HEAD = 16
NEW_LINK, NEW_ROUTE = 16, 24


def test_a_change_has_the_numbers_that_the_kernel_reads() -> None:
    kind = netlink.inside(("IFLA_INFO_KIND", "vxlan"), ("IFLA_INFO_DATA", netlink.inside()))
    wanted = (("IFLA_IFNAME", "lqx"), ("IFLA_MTU", 1340), ("IFLA_LINKINFO", kind))
    body = netlink.encoded(NEW_LINK, *wanted, index=7, flags=1, change=1)
    assert body[:LINK_HEAD].hex() == "00000000070000000100000001000000"
    said = netlink.attributes(body, LINK_HEAD)
    assert said.keys() == {3, 4, 18}
    assert netlink.read_text(said[3]) == "lqx"
    assert netlink.read_number(said[4]) == 1340
    assert netlink.read_text(netlink.attributes(said[18])[1]) == "vxlan"


def test_a_change_names_nothing_that_pyroute2_would_leave_out() -> None:
    with pytest.raises(ValueError, match="rtmsg has no IFLA_MTU, number"):
        netlink.encoded(NEW_ROUTE, ("IFLA_MTU", 1340), number=7)


def test_pyroute2_is_imported_with_the_first_change() -> None:
    said = "import sys; import liqod.daemon, liqod.node; print('pyroute2' in sys.modules)"
    change = "import liqod.netlink as of; of.encoded(16); print('pyroute2' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", f"{said}; {change}"], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["False", "True"]
