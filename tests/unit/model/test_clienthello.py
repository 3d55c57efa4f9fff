"""The server name in a stranger's first bytes: a real ClientHello, and anything else."""

import contextlib
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.model.network.clienthello import MOST, NotTls, server_name


def hello(name: str | None) -> bytes:
    """The ClientHello of this Python's TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


REAL = hello("0123456789abcdef.gateway.example.org")


def test_the_name_is_read_as_soon_as_all_is_there():
    for size in range(len(REAL)):
        assert server_name(REAL[:size]) is None
    assert server_name(REAL) == "0123456789abcdef.gateway.example.org"
    assert server_name(REAL + b"more") == "0123456789abcdef.gateway.example.org"


@pytest.mark.parametrize(
    "begin",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"SSH-2.0-x\r\n",
        b"\0" * 64,
        b"\x16\x02" + REAL[2:],
        b"\x16\x03\x01\x00\x05hello",
        b"\x16\x03\x01" + (MOST + 1).to_bytes(2, "big"),
        REAL[:5] + b"\x02" + REAL[6:],
        REAL[:5] + REAL[5:9] + bytes(len(REAL) - 9),
    ],
    # A real greeting has chance in it, and all workers are to name the same tests.
    ids=["http", "ssh", "zeros", "old", "text", "endless", "answer", "empty"],
)
def test_what_calls_nobody_is_told_at_once(begin: bytes):
    with pytest.raises(NotTls):
        server_name(begin)


def test_without_a_name_it_calls_nobody():
    with pytest.raises(NotTls, match="nobody"):
        server_name(hello(None))


@given(st.binary(max_size=400))
def test_any_bytes_are_a_name_or_nothing(begin: bytes):
    with contextlib.suppress(NotTls):
        server_name(begin)


@given(st.integers(0, len(REAL) - 1), st.integers(0, 255))
def test_a_real_one_with_any_byte_changed(at: int, value: int):
    begin = REAL[:at] + bytes((value,)) + REAL[at + 1 :]
    try:
        name = server_name(begin)
    except NotTls:
        return
    assert name is None or len(name) <= len(REAL)
