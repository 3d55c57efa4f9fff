"""Adverts: signed, small, and refused by the one error when they are anything else."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.errors import ConfigError, ProtocolError
from liqod.handshake.protocol import advertcodec
from liqod.handshake.protocol.advertcodec import Advert, sign, verify
from liqod.handshake.protocol.encoding import pack, unpack
from liqod.identity import keys
from tests.unit.handshake.meeting import private, public

ADVERT = Advert(
    cluster_id="milan",
    serial=1_700_000_000,
    addresses=("milan.example:6446", "[2001:db8::1]:6446"),
    capabilities=("streams",),
    free={"cpu": "8", "memory": "16Gi"},
)


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_who_has_the_key_is_known(kind):
    key = private("milan", kind)
    text = sign(ADVERT, key)
    found = verify(text)
    assert found.advert == ADVERT
    assert found.key == keys.print_of(keys.public_pem(key))
    assert keys.same_public(found.public_key.encode(), keys.public_pem(key))
    assert len(text) < (400 if kind == "ed25519" else 1000)


def forged(**fields) -> str:
    """An advert whose payload was changed, with the old signature."""
    _, payload, signature = sign(ADVERT, private("milan")).split(".")
    changed = {**msgspec.msgpack.decode(unpack(payload)), **fields}
    return f"v1.{pack(msgspec.msgpack.encode(changed))}.{signature}"


@pytest.mark.parametrize(
    "fields",
    [
        {"cluster_id": "turin"},
        {"addresses": ["turin.example:6446"]},
        {"serial": 1_800_000_000},
        {"free": {"cpu": "9"}},
        {"key": keys.public_der(public("turin"))},
        {"later": 1},
    ],
)
def test_a_changed_advert_is_refused(fields):
    with pytest.raises(ProtocolError, match="not signed"):
        verify(forged(**fields))


def signed(**fields) -> str:
    """An advert of something that nobody should announce, well signed."""
    payload = msgspec.msgpack.encode(
        {
            "cluster_id": "milan",
            "serial": 1,
            "key": keys.public_der(public("milan")),
            **fields,
        }
    )
    signature = keys.sign(private("milan"), advertcodec.CONTEXT + payload)
    return f"v1.{pack(payload)}.{pack(signature)}"


@pytest.mark.parametrize(
    "fields",
    [
        {"cluster_id": "Milan"},
        {"cluster_id": "mi\x1b[2Jlan"},
        {"cluster_id": "m" * 52},
        {"serial": -1},
        {"serial": 1 << 60},
        {"serial": "1"},
        {"addresses": ["a:1"] * 9},
        {"addresses": ["a b:1"]},
        {"versions": list(range(1, 30))},
        {"capabilities": ["\x1b"]},
        {"free": {"cpu": "-1"}},
        {"free": {"cpu": "lots"}},
        {"free": {f"r{at}": "1" for at in range(33)}},
        {"key": b""},
        {"key": b"x" * 700},
    ],
)
def test_what_nobody_should_announce_is_refused(fields):
    with pytest.raises(ProtocolError):
        verify(signed(**fields))


def test_what_a_newer_cluster_says_besides_is_ignored():
    assert verify(signed(colour={"a": [1]})).advert == Advert(cluster_id="milan", serial=1)


def test_what_is_too_large_is_neither_announced_nor_read():
    large = msgspec.structs.replace(
        ADVERT, addresses=tuple(f"{'a' * 60}.{'b' * 60}.example:{port}" for port in range(1, 9))
    )
    with pytest.raises(ConfigError, match="fewer addresses"):
        sign(large, private("milan"))
    with pytest.raises(ConfigError, match="cannot be announced"):
        sign(msgspec.structs.replace(ADVERT, cluster_id="Milan"), private("milan"))
    with pytest.raises(ProtocolError, match="more than 1200"):
        verify("v1." + "a" * 1200)


def test_an_advert_proves_nothing_in_a_meeting():
    assert not advertcodec.CONTEXT.startswith(b"liqod peering")


RAW = st.binary(max_size=60)


@given(
    RAW.map(lambda raw: raw.decode("latin-1")) | RAW.map(lambda raw: f"v1.{pack(raw)}.{pack(raw)}")
)
def test_whatever_comes_is_refused_by_the_one_error(text):
    with pytest.raises(ProtocolError):
        verify(text)


@given(st.data())
def test_no_other_letter_is_as_good(data):
    text = sign(ADVERT, private("milan"))
    at = data.draw(st.integers(0, len(text) - 1))
    letter = data.draw(st.sampled_from("Az09-_. =+/\n\0").filter(lambda each: each != text[at]))
    with pytest.raises(ProtocolError):
        verify(text[:at] + letter + text[at + 1 :])
