"""Messages: each bound has a message just within it and one beyond; and whatever else comes is
refused by the one error."""

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ed448, rsa
from hypothesis import given, settings
from hypothesis import strategies as st

from liqod.consumer.identities.signing import is_nonce
from liqod.errors import ProtocolError
from liqod.handshake.protocol import messages, proof
from liqod.handshake.protocol.encoding import pack, unpack
from liqod.handshake.protocol.messages import Accepted, Invited, Refused, decode, encode
from liqod.handshake.protocol.outputs import ExpectedPeer, Send, SessionEnd
from liqod.handshake.protocol.statemachine import DiallerMachine, ListenerMachine
from liqod.identity import keys
from tests.unit.handshake.meeting import (
    ASK,
    REQUEST,
    YES,
    certificate,
    dialler,
    exchange,
    listener,
    met,
    own,
    public,
    said,
)
from tests.unit.handshake.test_machine import EVERY

HELLO = EVERY["hello"]


def with_(text: str, **fields) -> str:
    """A message with fields changed; None takes one away."""
    changed = {**msgspec.json.decode(text), **fields}
    return msgspec.json.encode({k: v for k, v in changed.items() if v is not None}).decode()


def pem(key) -> str:
    """A public key that others made."""
    return keys.encode_public(key.public_key()).decode()


@pytest.mark.parametrize("text", EVERY.values(), ids=EVERY)
def test_each_message_crosses_whole(text):
    message = decode(text)
    assert encode(message) == text
    assert decode(with_(text, colour={"later": [1, None]})) == message


SECRET = pack(b"s" * 16)
LONG = "x" * 300
SMALL_RSA = pem(rsa.generate_private_key(public_exponent=65537, key_size=1024))
ED448 = pem(ed448.Ed448PrivateKey.generate())
UUID = "0A0B0C0D-0000-4000-8000-000000000001"

WITHIN = [
    ("hello", {"versions": [1] * 16}),
    ("hello", {"capabilities": ["a" * 63] * 64}),
    ("hello", {"cluster_id": "a" * 51}),
    ("ask", {"lifetime": 0}),
    ("ask", {"lifetime": messages.LONGEST}),
    ("ask", {"resources": {f"example.io/r{at}": "1" for at in range(32)}}),
    ("ask", {"resources": {"nvidia.com/gpu": "0", "memory": "1.5Gi"}}),
    ("ask", {"slice": "a" * 50}),
    ("ask", {"labels": {"region": "eu-südost"}}),
    ("ask", {"invitation": {"id": "inv-1", "secret": SECRET}}),
    ("offer", {"invitation": {"id": "inv-1", "secret": SECRET}}),
    ("offer", {"invitation": None}),
    ("accepted", {"kubeconfig": "\n" * messages.KUBECONFIG_LIMIT}),
    ("accepted", {"addresses": ["10.0.0.1:6443", "[2001:db8::1]:6443", "milan.example:443"]}),
    ("denied", {"reason": "x" * messages.REASON_LIMIT}),
    ("refused", {"code": "something-newer", "again": 5}),
]
BEYOND = [
    ("hello", {"type": "hullo"}),
    ("hello", {"type": None}),
    ("hello", {"versions": []}),
    ("hello", {"versions": [1] * 17}),
    ("hello", {"versions": [0]}),
    ("hello", {"versions": [65536]}),
    ("hello", {"versions": ["1"]}),
    ("hello", {"capabilities": ["a"] * 65}),
    ("hello", {"capabilities": ["a" * 64]}),
    ("hello", {"capabilities": ["a\n"]}),
    ("hello", {"capabilities": ["\x1b[2J"]}),
    ("hello", {"cluster_id": "a" * 52}),
    ("hello", {"cluster_id": "Rome"}),
    ("hello", {"cluster_id": "ro\x1bme"}),
    ("hello", {"cluster_id": "../rome"}),
    ("hello", {"cluster_id": ""}),
    ("hello", {"cluster_id": None}),
    ("hello", {"public_key": ""}),
    ("hello", {"public_key": "x" * 32}),
    ("hello", {"public_key": "-----BEGIN PUBLIC KEY-----\n"}),
    ("hello", {"public_key": "-----BEGIN PUBLIC KEY-----ä"}),
    ("hello", {"public_key": public("rome").decode() + " " * 1000}),
    ("hello", {"public_key": SMALL_RSA}),
    ("hello", {"public_key": ED448}),
    ("hello", {"commitment": ""}),
    ("hello", {"commitment": pack(b"x" * 31)}),
    ("hello", {"commitment": pack(b"x" * 32)[:-1] + "B"}),
    ("hello", {"commitment": pack(b"x" * 32) + "\n"}),
    ("welcome", {"version": 0}),
    ("welcome", {"versions": []}),
    ("welcome", {"nonce": "+" * 43}),
    ("prove", {"signature": ""}),
    ("prove", {"signature": "A" * 1401}),
    ("prove", {"nonce": 7}),
    ("proved", {"signature": "A" * 65}),
    ("ask", {"request": "1"}),
    ("ask", {"request": UUID}),
    ("ask", {"request": f"{REQUEST}\n"}),
    ("offer", {"request": "1"}),
    ("offer", {"request": None}),
    ("offer", {"invitation": {"id": "inv-1"}}),
    ("offer", {"invitation": {"id": "\x1b[2J", "secret": SECRET}}),
    ("offer", {"invitation": {"id": "inv-1", "secret": SECRET[:-1]}}),
    ("ask", {"lifetime": -1}),
    ("ask", {"lifetime": messages.LONGEST + 1}),
    ("ask", {"lifetime": 1.5}),
    ("ask", {"lifetime": None}),
    ("ask", {"resources": {"cpu": "-1"}}),
    ("ask", {"resources": {"cpu": "lots"}}),
    ("ask", {"resources": {"cpu": 4}}),
    ("ask", {"resources": {"cpu": "1e31"}}),
    ("ask", {"resources": {"cpu": "9" * 65}}),
    ("ask", {"resources": {"c\x1bpu": "1"}}),
    ("ask", {"resources": {"": "1"}}),
    ("ask", {"resources": {f"r{at}": "1" for at in range(33)}}),
    ("ask", {"slice": "a" * 51}),
    ("ask", {"slice": "../a"}),
    ("ask", {"labels": {f"l{at}": "1" for at in range(33)}}),
    ("ask", {"labels": {"a": "x" * 64}}),
    ("ask", {"labels": {"a": "\u202eevil"}}),
    ("ask", {"labels": {"\x07": ""}}),
    ("ask", {"networking": 1}),
    ("ask", {"invitation": {"id": "inv-1"}}),
    ("ask", {"invitation": {"id": "Inv/1", "secret": SECRET}}),
    ("ask", {"invitation": {"id": "inv-1", "secret": SECRET[:-1]}}),
    ("ask", {"invitation": {"id": "inv-1", "secret": "s" * 22}}),
    ("accepted", {"kubeconfig": ""}),
    ("accepted", {"kubeconfig": "x" * (messages.KUBECONFIG_LIMIT + 1)}),
    ("accepted", {"granted": {"cpu": "-1"}}),
    ("accepted", {"addresses": ["milan"] * 17}),
    ("accepted", {"addresses": ["mi lan:6443"]}),
    ("accepted", {"addresses": ["http://milan:6443"]}),
    ("accepted", {"addresses": ["[fe80::1%\x1b]:6443"]}),
    ("accepted", {"namespace": "kube_system"}),
    ("accepted", {"namespace": LONG}),
    ("denied", {"reason": "\x1b[31mno"}),
    ("denied", {"reason": "x" * (messages.REASON_LIMIT + 1)}),
    ("failed", {"reason": "a\nb"}),
    ("pending", {"lifetime": -1}),
    ("cancel", {"request": ""}),
    ("noted", {"request": None}),
]
TEXTS = {**EVERY, "refused": encode(Refused(code="busy"))}


@pytest.mark.parametrize(("name", "fields"), WITHIN)
def test_what_is_within_the_bounds_is_taken(name, fields):
    decode(with_(TEXTS[name], **fields))


@pytest.mark.parametrize(("name", "fields"), BEYOND)
def test_what_is_beyond_them_is_refused(name, fields):
    text = with_(TEXTS[name], **fields)
    with pytest.raises(ProtocolError) as caught:
        decode(text)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


def test_each_field_has_a_bound():
    """A field as large as its type lets it be is either refused or small."""
    for name, text in TEXTS.items():
        for field, value in msgspec.json.decode(text).items():
            for large in (LONG * 300, [LONG] * 3000, {f"{LONG}{at}": "1" for at in range(200)}):
                if field != "type" and isinstance(value, type(large)):
                    with pytest.raises(ProtocolError):
                        decode(with_(text, **{field: large}))
        assert len(text) < messages.MAX_MESSAGE, name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "{}",
        '"hello"',
        '{"type":1}',
        '{"type":"attach"}{}',
        '{"type":"attach","type":"ask"}',
        "\ud800",
        "[" * 50_000,
        '{"type":"attach","x":' + '{"a":' * 3000,
        " " * (messages.MAX_MESSAGE + 1),
        "ä" * messages.MAX_MESSAGE,
        "1" * 60_000,
        '{"type":"pending","lifetime":1e999}',
        '{"type":"pending","lifetime":' + "9" * 5000 + "}",
    ],
)
def test_what_is_no_message_is_refused(text):
    with pytest.raises(ProtocolError):
        decode(text)
    for side in (dialler(), listener(), *met()):
        *_, closed = side.receive(text)
        assert isinstance(closed, SessionEnd)
        assert closed.code == "protocol"
        assert side.stage == "over"


def test_a_deep_message_of_unknown_fields_is_read_or_refused():
    for depth in (10, 500, 5000):
        try:
            decode('{"type":"attach","x":' + "[" * depth + "]" * depth + "}")
        except ProtocolError:
            continue


@settings(max_examples=150)
@given(st.binary(max_size=200))
def test_arbitrary_text_is_refused_by_the_one_error(raw):
    with pytest.raises(ProtocolError):
        decode(raw.decode("latin-1"))


VALUES = st.sampled_from(
    [None, True, 0, -1, 1 << 70, 0.5, "", "a", "\x1b[2J", "\x00", LONG, [], ["a"], {}, {"a": "1"}]
)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_no_changed_message_raises_anything_else_or_moves_a_machine_further(data):
    name = data.draw(st.sampled_from(sorted(TEXTS)))
    text = TEXTS[name]
    fields = sorted(msgspec.json.decode(text))
    for _ in range(data.draw(st.integers(1, 2))):
        text = with_(text, **{data.draw(st.sampled_from(fields)): data.draw(VALUES)})
    if data.draw(st.booleans()):
        cut = data.draw(st.integers(0, len(text)))
        text = text[:cut] + data.draw(st.sampled_from('"{}\\,0\x00ä')) + text[cut:]
    assert problem(text).isprintable()
    for side in (one_greeted(), listener()):
        for output in side.receive(text):
            if isinstance(output, Send):
                decode(output.text)
        assert side.peer is None


def problem(text: str) -> str:
    """The error of decoding a message, or an empty text."""
    try:
        decode(text)
    except ProtocolError as error:
        return str(error)
    return ""


def one_greeted() -> DiallerMachine:
    """A dialler that waits for a welcome."""
    one = dialler()
    one.start()
    return one


def test_what_is_said_of_a_broken_message_is_fit_for_a_terminal_and_for_the_other_side():
    other = listener()
    told, closed = other.receive('{"type":"\x1b[2J\u202e"}')
    assert isinstance(closed, SessionEnd)
    assert closed.reason.isprintable()
    assert isinstance(told, Send)
    assert isinstance(decode(told.text), Refused)


def test_no_time_of_day_crosses():
    """Clocks may differ by an hour: what is told of time is seconds from now, so all is small."""
    for text in TEXTS.values():
        numbers = [each for each in msgspec.json.decode(text).values() if isinstance(each, int)]
        assert all(each < messages.LONGEST for each in numbers)
    with pytest.raises(ProtocolError):
        decode(with_(TEXTS["pending"], lifetime=1_800_000_000))


def test_an_acceptance_that_is_too_large_is_not_sent():
    one, other = met()
    exchange(one.ask(ASK), one, other)
    with pytest.raises(ProtocolError, match="more than"):
        other.accept(Accepted(kubeconfig="x" * messages.MAX_MESSAGE))
    assert exchange(other.accept(YES), other, one)[1]


def test_every_way_to_write_bytes_but_one_is_refused():
    assert unpack(pack(b"\xff\xfe")) == b"\xff\xfe"
    for text in ("__4=", "//4", "__5", "_", "_ _4", "__4\n", "ä"):
        with pytest.raises(ProtocolError):
            unpack(text)


def test_secrets_are_not_printed():
    assert SECRET not in repr(
        msgspec.structs.replace(ASK, invitation=Invited(id="i", secret=SECRET))
    )
    assert YES.kubeconfig not in repr(YES)
    assert "PRIVATE" not in repr(own("rome"))


def test_what_is_signed_can_be_nothing_else_that_a_cluster_s_key_signs():
    """A provider has a nonce signed (base64 text); TLS signs what begins with 64 spaces."""
    signed = {proof.statement("dialler", bytes(32)), proof.statement("listener", bytes(32))}
    assert len(signed) == 2
    for each in signed:
        assert not is_nonce(each)
        assert not each.startswith(b" ")
        assert each.startswith(proof.CONTEXT)


def test_a_transcript_has_no_two_readings():
    assert proof.transcript(b"ab", "c", "", b"") != proof.transcript(b"a", "bc", "", b"")
    assert proof.transcript(b"", "ab", "c", b"") != proof.transcript(b"", "a", "bc", b"")
    one = proof.transcript(b"", "", "", b"n")
    assert one != proof.transcript(b"", "", "n", b"")


def test_a_machine_needs_its_key_and_a_certificate():
    with pytest.raises(ProtocolError):
        ListenerMachine(own("rome", private=b"none"), certificate("rome"), bytes(32))
    with pytest.raises(ProtocolError):
        DiallerMachine(own("rome"), ExpectedPeer(), b"none", bytes(32))
    assert said(listener().receive(HELLO))
