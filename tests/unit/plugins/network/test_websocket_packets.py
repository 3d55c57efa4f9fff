"""Packets from the other side: nothing that it writes before one reaches the kernel."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.tunnel.packets import HEADER, LARGEST, MOST_SEGMENTS, checked

OPEN, VALID, TCP4, UDP4, TCP6, ECN = 1, 2, 1, 3, 4, 0x80
PLAIN = bytes(10)


def ipv4(payload: bytes, protocol: int = 17, *, options: bytes = b"", said: int = -1) -> bytes:
    size = 20 + len(options) + len(payload) if said < 0 else said
    head = (0x45 + len(options) // 4, 0, size, 0, 0, 64, protocol, 0, bytes(4), bytes(4))
    return struct.pack("!BBHHHBBH4s4s", *head) + options + payload


def ipv6(payload: bytes, protocol: int = 17, *, said: int = -1) -> bytes:
    size = len(payload) if said < 0 else said
    return struct.pack("!IHBB16s16s", 6 << 28, size, protocol, 64, bytes(16), bytes(16)) + payload


def tcp(size: int, *, words: int = 5) -> bytes:
    return bytes(12) + bytes((words << 4,)) + bytes(7) + bytes(size)


def head(
    flags: int = OPEN, kind: int = 0, size: int = 0, segment: int = 0, at: int = 20, off: int = 16
) -> bytes:
    return HEADER.pack(flags, kind, size, segment, at, off)


@pytest.mark.parametrize(
    "packet",
    [ipv4(b""), ipv4(bytes(65515)), ipv4(b"x", options=bytes(40)), ipv6(b""), ipv6(bytes(65535))],
    ids=["IPv4", "the largest", "with options", "IPv6", "the largest IPv6"],
)
def test_a_whole_packet_passes_as_it_is(packet: bytes):
    assert checked(PLAIN + packet) == PLAIN + packet


@pytest.mark.parametrize(
    "piece",
    [
        b"",
        PLAIN,
        PLAIN + ipv4(b"")[:-1],
        PLAIN + ipv4(b"abc", said=22),
        PLAIN + ipv4(b"abc", said=24),
        PLAIN + b"\x44" + ipv4(b"")[1:],
        PLAIN + b"\x4f" + ipv4(b"")[1:],
        PLAIN + b"\x55" + ipv4(b"")[1:],
        PLAIN + b"\0" * 60,
        PLAIN + ipv6(b"abc", said=4),
        PLAIN + ipv6(b"")[:39],
        head() + ipv4(bytes(7), 17),
        head() + ipv4(tcp(0)[:19], 6),
        head() + ipv4(tcp(0, words=4), 6),
        head() + ipv4(tcp(0, words=6), 6),
        head(at=24) + ipv4(tcp(10), 6),
        head(at=0) + ipv4(tcp(10), 6),
        head() + ipv4(bytes(30), 1),
        head(kind=TCP4, segment=0) + ipv4(tcp(9000), 6),
        head(kind=TCP4, segment=9000 // MOST_SEGMENTS) + ipv4(tcp(9000), 6),
        head(kind=TCP4, segment=1300) + ipv6(tcp(9000), 6),
        head(kind=TCP6, segment=1300) + ipv4(tcp(9000), 6),
        head(kind=UDP4, segment=1300, off=6) + ipv4(bytes(9000), 17),
        head(kind=5, segment=1300, off=6) + ipv4(bytes(9000), 17),
        head(flags=0, kind=TCP4, segment=1300) + ipv4(tcp(9000), 6),
        head(flags=VALID, kind=TCP4, segment=1300) + ipv4(tcp(9000), 6),
        head(at=400) + ipv6(tcp(900), 0),
        head(at=39) + ipv6(tcp(900), 0),
    ],
)
def test_what_is_none_does_not(piece: bytes):
    assert checked(piece) is None


def test_the_header_is_made_anew():
    """Of what the other side wrote before the packet only the size of a segment is left."""
    packet = ipv4(tcp(9000, words=8), 6)
    made = checked(head(OPEN | VALID | 0xF0, TCP4, 7, 1300, 20, 999) + packet)
    assert made is None or made == head(OPEN, TCP4, 52, 1300, 20, 16) + packet
    assert checked(head(OPEN, TCP4, 7, 1300, 20, 999) + packet) == (
        head(OPEN, TCP4, 52, 1300, 20, 16) + packet
    )
    six = ipv6(tcp(9000), 6)
    assert checked(head(OPEN, TCP6 | ECN, 0, 1300, 40, 0) + six) == (
        head(OPEN, TCP6 | ECN, 60, 1300, 40, 16) + six
    )
    datagram = ipv4(bytes(8), 17)
    assert checked(head(off=999) + datagram) == head(off=6) + datagram


def test_a_checksum_is_not_believed_to_have_been_looked_at():
    packet = ipv4(tcp(10), 6)
    assert checked(head(VALID, 0, 0, 0, 0, 0) + packet) == PLAIN + packet


def test_headers_between_leave_an_open_checksum_open():
    packet = ipv6(bytes(8) + bytes(8), 60)
    assert checked(head(at=48, off=6) + packet) == head(at=48, off=6) + packet


headers = st.binary(min_size=10, max_size=10)
packets = st.one_of(
    st.binary(max_size=200),
    st.builds(ipv4, st.binary(max_size=120), st.sampled_from([6, 17, 1, 0])),
    st.builds(ipv6, st.binary(max_size=120), st.sampled_from([6, 17, 58, 0])),
    st.builds(lambda size: ipv4(tcp(size), 6), st.integers(0, 3000)),
    st.builds(lambda size: ipv6(tcp(size), 6), st.integers(0, 3000)),
)


@given(headers, packets)
def test_whatever_comes_the_kernel_is_told_what_is_true(header: bytes, packet: bytes):
    made = checked(header + packet)
    if made is None:
        return
    assert made[10:] == packet
    flags, kind, size, segment, at, off = HEADER.unpack_from(made)
    assert len(made) <= LARGEST
    assert flags in (0, OPEN)
    if not flags:
        assert made[:10] == PLAIN
        return
    assert at + off + 2 <= len(packet)
    assert off in (6, 16)
    if kind:
        assert kind & ~ECN == (TCP4 if packet[0] >> 4 == 4 else TCP6)
        assert at + 20 <= size <= len(packet)
        assert (len(packet) - size) <= segment * MOST_SEGMENTS
    else:
        assert size == segment == 0
