"""Messages to and from a WireGuard interface, by netlink and by text."""

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.netlink import attribute, nest, pairs
from liqod.plugins.network import uapi, wgnetlink
from liqod.plugins.network.device import (
    EVERYTHING,
    Change,
    PeerChange,
    WireGuardDevice,
    WireGuardPeer,
    afresh,
    change,
    same_key,
)
from liqod.plugins.providers import TunnelSpec

OURS, THEIRS, OTHERS = bytes(range(32)), b"t" * 32, b"o" * 32
SPEC = TunnelSpec(
    side="client",
    private_key=OURS,
    public_key=b"m" * 32,
    peer_public_key=THEIRS,
    listen_port=51820,
    endpoints=("203.0.113.7:51840",),
    keepalive=5,
)
PEER = WireGuardPeer(
    public_key=THEIRS, endpoint="203.0.113.7:51840", keepalive=5, allowed=tuple(sorted(EVERYTHING))
)
SO = WireGuardDevice(keyed=True, port=51820, peers=(PEER,))

ANSWER = f"""private_key={OURS.hex()}
listen_port=51820
fwmark=7
own_public_key=00
public_key={THEIRS.hex()}
endpoint=[2001:db8::7]:51840
last_handshake_time_sec=1700000000
last_handshake_time_nsec=500000000
tx_bytes=11
rx_bytes=22
persistent_keepalive_interval=5
allowed_ip=0.0.0.0/0
allowed_ip=::/0
protocol_version=1
errno=0

"""


def test_an_interface_that_is_so_is_left_alone():
    assert change(SO, SPEC, None) is None
    assert change(SO, SPEC, "203.0.113.7:51840") is None


def test_an_empty_one_gets_everything():
    wanted = change(WireGuardDevice(), SPEC, "203.0.113.7:51840")
    assert wanted == Change(
        private_key=OURS,
        port=51820,
        peers=(
            PeerChange(
                public_key=THEIRS, endpoint="203.0.113.7:51840", keepalive=5, allowed=EVERYTHING
            ),
        ),
    )


def test_a_stranger_on_it_goes():
    found = WireGuardDevice(keyed=True, port=51820, peers=(WireGuardPeer(public_key=OTHERS), PEER))
    assert change(found, SPEC, None) == Change(peers=(PeerChange(public_key=OTHERS, remove=True),))


def test_another_endpoint_changes_nothing_else():
    wanted = change(SO, SPEC, "203.0.113.8:1")
    assert wanted == Change(peers=(PeerChange(public_key=THEIRS, endpoint="203.0.113.8:1"),))


def test_the_key_is_compared_as_x25519_uses_it():
    used = bytes((OURS[0] & 248, *OURS[1:31], OURS[31] & 127 | 64))
    assert same_key(used, OURS)
    assert not same_key(THEIRS, OURS)
    assert not same_key(b"", b"")


def test_no_change_shows_a_key():
    key = OURS.hex()
    assert key in uapi.encoded(Change(private_key=OURS))
    assert key not in repr(Change(private_key=OURS))
    assert repr(OURS) not in repr(Change(private_key=OURS))


def test_the_userspace_protocol_reads():
    found = uapi.parsed(ANSWER, OURS)
    assert found.keyed
    assert found.port == 51820
    (peer,) = found.peers
    assert peer == WireGuardPeer(
        public_key=THEIRS,
        endpoint="[2001:db8::7]:51840",
        keepalive=5,
        allowed=("0.0.0.0/0", "::/0"),
        handshake=1700000000.5,
        received=22,
        sent=11,
    )
    assert OURS.hex() not in repr(found)


def test_the_userspace_protocol_writes():
    wanted = change(
        WireGuardDevice(peers=(WireGuardPeer(public_key=OTHERS),)), SPEC, "203.0.113.7:51840"
    )
    assert wanted is not None
    assert uapi.encoded(wanted) == (
        f"set=1\nprivate_key={OURS.hex()}\nlisten_port=51820\n"
        f"public_key={OTHERS.hex()}\nremove=true\n"
        f"public_key={THEIRS.hex()}\nendpoint=203.0.113.7:51840\n"
        "persistent_keepalive_interval=5\nreplace_allowed_ips=true\n"
        "allowed_ip=0.0.0.0/0\nallowed_ip=::/0\n\n"
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("errno=98\n\n", errno.EADDRINUSE),
        ("errno=-98\n\n", errno.EADDRINUSE),
        ("", errno.EPROTO),
        ("public_key=zz\nerrno=0\n\n", errno.EPROTO),
        ("listen_port=many\nerrno=0\n\n", errno.EPROTO),
        ("HTTP/1.1 400 Bad Request\n\n", errno.EPROTO),
    ],
)
def test_what_is_no_good_answer_is_an_error(text: str, number: int):
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its number is what counts
        uapi.parsed(text)
    assert caught.value.errno == number


@given(st.text())
def test_no_answer_breaks_the_reader_or_is_shown(text: str):
    with pytest.raises(OSError) as caught:  # noqa: PT011
        uapi.parsed(f"{text}\nprivate_key={OURS.hex()}\n")
    assert OURS.hex() not in str(caught.value)


def test_netlink_writes_what_the_kernel_reads():
    wanted = change(
        WireGuardDevice(peers=(WireGuardPeer(public_key=OTHERS),)), SPEC, "203.0.113.7:51840"
    )
    assert wanted is not None
    first, gone, made = wgnetlink.encoded("lqt0", wanted)
    name = "0900 0200 6c717430 00 000000"
    assert first == bytes.fromhex(f"01 01 0000 {name} 2400 0300 {OURS.hex()} 0600 0600 6cca 0000")
    peer = f"2400 0100 {OTHERS.hex()} 0800 0300 01000000"
    assert gone == bytes.fromhex(f"01 01 0000 {name} 3400 0880 3000 0080 {peer}")
    endpoint = "1400 0400 0200 ca80 cb007107 0000000000000000"
    four = "1c00 0080 0600 0100 0200 0000 0800 0200 00000000 0500 0300 00 000000"
    six = f"2800 0080 0600 0100 0a00 0000 1400 0200 {bytes(16).hex()} 0500 0300 00 000000"
    peer = f"2400 0100 {THEIRS.hex()} 0800 0300 02000000 {endpoint} 0600 0500 0500 0000"
    peer += f" 4800 0980 {four} {six}"
    assert made == bytes.fromhex(f"01 01 0000 {name} 9800 0880 9400 0080 {peer}")


@pytest.mark.parametrize("endpoint", ["203.0.113.7:51840", "[2001:db8::7]:1"])
def test_netlink_reads_what_the_kernel_says(endpoint: str):
    (body,) = wgnetlink.encoded(
        "lqt0",
        Change(
            peers=(
                PeerChange(
                    public_key=THEIRS, endpoint=endpoint, keepalive=5, allowed=("0.0.0.0/0",)
                ),
            )
        ),
    )
    ((_, peers),) = [each for each in pairs(body, 4) if each[0] == 8]
    ((_, peer),) = pairs(peers)
    peer += attribute(6, struct.pack("=qq", 1700000000, 500000000))
    peer += attribute(7, struct.pack("=Q", 22)) + attribute(8, struct.pack("=Q", 11))
    # More prefixes than one message holds come in a second part with the key alone.
    more = attribute(1, THEIRS) + nest(
        9,
        nest(0, attribute(1, struct.pack("=H", 10)), attribute(2, bytes(16)), attribute(3, b"\0")),
    )
    head = struct.pack("=BBH", 0, 1, 0)
    said = [
        head + attribute(3, OURS) + attribute(6, struct.pack("=H", 51820)) + nest(8, nest(0, peer)),
        head + nest(8, nest(0, more)),
    ]
    assert wgnetlink.parsed(said, OURS) == WireGuardDevice(
        keyed=True,
        port=51820,
        peers=(
            WireGuardPeer(
                public_key=THEIRS,
                endpoint=endpoint,
                keepalive=5,
                allowed=("0.0.0.0/0", "::/0"),
                handshake=1700000000.5,
                received=22,
                sent=11,
            ),
        ),
    )


def test_afresh_takes_the_peer_away_and_makes_it_again():
    gone, made = afresh(SPEC, "203.0.113.8:1").peers
    assert gone.remove
    assert made.endpoint == "203.0.113.8:1"
    assert made.allowed == EVERYTHING
