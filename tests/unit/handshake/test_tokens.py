"""The line of an invitation: whole or refused, and its secret in no message."""

import msgspec
import pytest

from liqod.errors import ConfigError
from liqod.handshake.protocol import invitationtokens
from liqod.handshake.protocol.invitationtokens import (
    InvitationToken,
    address,
    format_token,
    parse_token,
    same_secret,
)
from liqod.model import endpoints

TOKEN = InvitationToken(
    addresses=("milan.example:6446", "10.0.0.1:443", "[2001:db8::1]:6446"),
    id="inv-7x",
    secret=bytes(range(16)),
    key="ab" * 32,
)


def test_a_line_says_what_was_put_into_it():
    line = format_token(TOKEN)
    assert line.startswith("liqod://milan.example:6446,10.0.0.1:443,[2001:db8::1]:6446/#v1.")
    assert parse_token(f"  {line}\n") == TOKEN
    assert " " not in line


def test_a_line_that_wants_to_borrow_says_so_and_is_no_other_by_a_letter():
    wants = msgspec.structs.replace(TOKEN, borrow=True)
    line = format_token(wants)
    assert line.partition("/#")[2].startswith("b1.")
    assert parse_token(line) == wants
    for one, other in ((line, "b1."), (format_token(TOKEN), "v1.")):
        changed = {"b1.": "v1.", "v1.": "b1."}[other]
        with pytest.raises(ConfigError, match="damaged"):
            parse_token(one.replace(f"#{other}", f"#{changed}"))


@pytest.mark.parametrize("borrow", [False, True])
def test_each_change_and_each_loss_is_noticed(borrow):
    line = format_token(msgspec.structs.replace(TOKEN, borrow=borrow))
    for at in range(len(invitationtokens.SCHEME), len(line)):
        for text in (line[:at], f"{line[:at]}{'A' if line[at] != 'A' else 'B'}{line[at + 1 :]}"):
            with pytest.raises(ConfigError) as caught:
                parse_token(text)
            assert line.partition("#")[2][3:33] not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "begins with liqod://"),
        ("https://milan.example/", "begins with liqod://"),
        ("liqod://" + "a" * 2000, "begins with liqod://"),
        ("liqod://milan.example:6446", "quote the line"),
        ("liqod://milan.example:6446/#v2.abc", "take a newer liqod"),
        ("liqod://milan.example:6446/#v1.abc", "damaged"),
        ("liqod://milan.example:6446/#v1.ä", "damaged"),
    ],
)
def test_what_is_no_invitation_says_what_to_do(line, why):
    with pytest.raises(ConfigError, match=why):
        parse_token(line)


@pytest.mark.parametrize(
    "fields",
    [
        {"addresses": ()},
        {"addresses": ("a:1",) * 9},
        {"addresses": ("a b:1",)},
        {"addresses": ("\x1b[2J:1",)},
        {"id": "Inv"},
        {"id": ""},
        {"secret": b"short"},
        {"key": "ab"},
    ],
)
def test_what_is_no_invitation_is_not_written(fields):
    with pytest.raises(ConfigError):
        format_token(msgspec.structs.replace(TOKEN, **fields))


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("milan", "milan", 6446),
        ("milan.example.:1", "milan.example.", 1),
        ("10.0.0.1:65535", "10.0.0.1", 65535),
        ("[::1]", "::1", 6446),
        ("[2001:db8::1]:443", "2001:db8::1", 443),
    ],
)
def test_an_address_is_read_and_written(text, host, port):
    assert address(text) == (host, port)
    assert address(endpoints.join(host, port)) == (host, port)


NO_ADDRESSES = [
    *("", ":1", "a:", "a:0", "a:65536", "a:1x", "a:١", "::1", "[::1", "[::1]1", "[1.2.3.4]:1"),
    *("[fe80::1%e]:1", "a/b:1", "a@b:1", "a b:1", "a\n:1", "a:1\n", "ä:1", "-a:1", "a..b:1"),
    f"{'a.' * 130}a:1",
]


@pytest.mark.parametrize("text", NO_ADDRESSES)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ConfigError, match="is no address"):
        address(text)


def test_of_a_secret_a_hash_is_kept():
    kept = invitationtokens.secret_hash(TOKEN.secret)
    assert same_secret(kept, TOKEN.secret)
    assert not same_secret(kept, bytes(16))
    assert not same_secret("ä", TOKEN.secret)
    assert TOKEN.secret.hex() not in kept


def test_no_secret_is_in_what_is_printed():
    assert (
        repr(TOKEN) == "InvitationToken(milan.example:6446,10.0.0.1:443,[2001:db8::1]:6446, inv-7x)"
    )
