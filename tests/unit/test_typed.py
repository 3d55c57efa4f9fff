"""Parsing of typed text: taken where it is clear, and refused in one sentence where it is not."""

import io

import pytest

from liqod.cli import app, typed
from liqod.errors import Misuse
from liqod.handshake.protocol.invitationtokens import InvitationToken, format_token

LINE = format_token(
    InvitationToken(
        addresses=("milan.example:6446",), id="invitation-1", secret=b"s" * 16, key="0" * 64
    )
)


def given(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Standard input holds this."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize(
    "data",
    [
        f"{LINE}".encode(),
        f"\r\n \n\n{LINE}\r\n".encode(),
        f"\ufeff{LINE}\n".encode(),
        f"\ufeff\n{LINE}\nmore\n".encode(),
        f"'{LINE}'\n".encode(),
        f'  "{LINE}" \n'.encode(),
        f"“{LINE}”\n".encode(),
        f"<{LINE}>\n".encode(),
        f"\ufeff{LINE}\r\n".encode("utf-16-le"),
        f"\ufeff\r\n'{LINE}'\r\n".encode("utf-16-be"),
    ],
)
def test_a_line_is_found_in_what_was_copied(data: bytes, monkeypatch: pytest.MonkeyPatch):
    given(monkeypatch, data)
    assert typed.from_input() == LINE


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "there is no invitation on standard input"),
        (b"\n" * 1000, "there is no invitation on standard input"),
        (b"\xff\xfe\n\x00", "there is no invitation on standard input"),
        (b"\x89PNG\r\n\x1a\n\0\0", "is no text"),
        (f"{LINE}\n".encode("utf-16-le"), "is no text"),
        (b"\xff\xfe\x00\xd8\x00", "is no text"),
    ],
)
def test_what_is_no_line_is_said(data: bytes, why: str, monkeypatch: pytest.MonkeyPatch):
    given(monkeypatch, data)
    with pytest.raises(Misuse, match=why):
        typed.from_input()


NAMES = (
    "foo bar=1",
    "=1",
    "foo=",
    "foo",
    "-foo=1",
    "foo/=1",
    "a b/c=1",
    "A.b/c=1",
    f"{'x' * 64}=1",
)
KEY = ":".join(["AB"] * 32)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        *((("invite", "--resource", name), "write name=quantity") for name in NAMES),
        (("invite", "--cpu", "2", "--resource", "cpu=3"), "cpu is said twice"),
        (("invite", "--cpu", "lots"), "'lots' is no quantity for cpu"),
        (("invite", "--cpu", "-1"), "'-1' is no quantity for cpu"),
        (("invite", "--memory", "9" * 400), "is no quantity for memory"),
        (("invite", "--expires", f"{'9' * 400}h"), "is no span of time; write 30m"),
        (("invite", "--expires", "٣h"), "is no span of time"),
        (("invite", "--expires", "400d"), "for a year \\(366d\\) at the most"),
        (("invite", "--uses", "0"), "--uses"),
        (("invite", "--for", "Not A Cluster"), "--for: a cluster id holds"),
        (("invite", "--for-key", "12ab"), "--for-key '12ab' is no key"),
        (("invite", "--address", "http://milan:1"), "is no address: write HOST:PORT"),
        (("invite", "--address", "milan:99999"), "is no address"),
        (("invite", *(f"--address=m{n}:1" for n in range(9))), "an invitation names 8"),
        (("invite", "revoke", "what ever", "--yes"), "`liqod invite list`"),
        (("invite", "--liqo-namespace", "a b"), "--liqo-namespace 'a b' is no namespace"),
        (("invite", "--timeout", "nan"), "--timeout: write seconds"),
        (("peer", "Not A Cluster"), "a cluster id holds"),
        (("peer", "liqod://milan"), "invitation"),
        (("peer", "LIQOD://milan:1/#v1.x"), "invitation"),
        (("peer", "milan", "--resource", "foo bar=1"), "write name=quantity"),
        (("peer", "milan", "--resource-slice", "A B"), "slice"),
        (("peer", "milan", "--expect", "turin"), "--expect is for"),
        (("peer", "--remote-kubeconfig", "x", "--expect", "A B"), "--expect: a cluster id holds"),
        (("peer", "milan", "--gw-client-port", "-1"), "--gw-client-port"),
        (("peer", "milan", "--gw-server-service-nodeport", "-1"), "nodeport"),
        (("peer", "milan", "--mtu", "1300"), "--mtu is for --remote-kubeconfig"),
        (("peer", "milan", "--in-band"), "--in-band is for --remote-kubeconfig"),
        (("peer", "--remote-kubeconfig", "x", "--words", "a-b-c"), "--words is for"),
        (("inbox", "accept", "rome", "--cpu", "x"), "'x' is no quantity for cpu"),
        (("inbox", "-o", "xml"), "unknown output 'xml'"),
        (("revoke", "A B", "--yes"), "a cluster id holds"),
        (("discover", "--dns-records", "a b"), "'a b' is no domain"),
        (("discover", "A B"), "a cluster id holds"),
    ],
)
def test_what_makes_no_sense_is_one_sentence_and_status_2(
    words: tuple[str, ...],
    why: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("KUBECONFIG", "/nowhere")  # it is said before anything is asked
    assert app.main(words) == 2
    said = capsys.readouterr().err.strip()
    assert "Traceback" not in said
    with pytest.raises(Misuse, match=why):
        raise Misuse(said)
    if said.startswith("liqod: "):
        assert len(said.splitlines()) == 1


def test_a_key_is_taken_as_other_programs_write_it():
    assert typed.key(KEY, "--for-key") == "ab" * 32
    assert typed.key("", "--for-key") == ""
