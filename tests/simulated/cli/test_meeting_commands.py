"""The commands by which two clusters find each other's trust, as people type them."""

import io
import json
from pathlib import Path

import pytest
import trio

from liqod.apimachinery.kinds import NODES
from liqod.cli import qr
from liqod.cli.meet import OfferConfirmation, request_of
from liqod.cli.typed import seconds
from liqod.errors import ConfigError, Misuse
from liqod.handshake.protocol import advertcodec
from liqod.handshake.protocol.invitationtokens import InvitationToken, format_token
from liqod.kube.selection import Selection
from liqod.procedures import peeringrequest
from liqod.procedures.resourcerequest import ResourceRequest
from liqod.resources import OUTGOING_PEERINGS, OutgoingPeering
from tests.simulated.borrower import eventually
from tests.simulated.channels import DEAD
from tests.simulated.meeting import (
    ask,
    by_token,
    entries,
    invite,
    key_of,
    lead,
    meeting,
    outgoing,
    peered,
    run,
)
from tests.simulated.members import Member
from tests.simulated.processes import command
from tests.unit.plugins.nameserver import NameServer
from tests.unit.plugins.test_dns_srv import rounds

TOKEN = InvitationToken(
    addresses=("milan.example:6446",), id="invitation-1", secret=b"s" * 16, key="0" * 64
)


async def waiting(host: Member) -> bool:
    """True if a request waits to be let in."""
    return any(each.status.phase == "Waiting" for each in await entries(host))


@pytest.mark.long
async def test_a_line_is_handed_over_and_the_node_is_there(tmp_path: Path, nursery: trio.Nursery):
    async with meeting("rome", "milan") as [rome, milan]:
        await nursery.start(lead, rome)
        line = (await run(milan, tmp_path, "invite", "--cpu", "2")).out.strip()
        assert line.startswith("liqod://127.0.0.1:")
        done = await run(rome, tmp_path, "peer", line)
        assert (done.status, done.out) == (0, "peered: milan is the node milan here\n"), done.err
        assert line.partition("#")[2] not in done.err
        again = json.loads((await run(rome, tmp_path, "peer", line, "-o", "json")).out)
        assert again["granted"]["cpu"] == "2"
        listed = json.loads((await run(milan, tmp_path, "invite", "list", "-o", "json")).out)
        assert [each["usedBy"] for each in listed] == [["rome"]]
        [entry] = json.loads((await run(milan, tmp_path, "inbox", "-o", "json")).out)
        assert (entry["clusterID"], entry["words"]) == ("rome", again["words"])
        for here, there in ((rome, milan), (milan, rome)):
            said = (await run(here, tmp_path, "status", there.id)).out
            assert f"\nkey {await key_of(here)}\nmet at 127.0.0.1:" in said
            assert f"words, when they met: {again['words']}" in said
            shown = json.loads((await run(here, tmp_path, "status", "-o", "json")).out)
            assert [each["met"] for each in shown["peers"]] == ["invitation"]
            assert shown["key"] == await key_of(here)
        ended = await run(milan, tmp_path, "revoke", "rome", "--yes")
        assert f"removed: IncomingPeering {entry['name']}" in ended.out


@pytest.mark.long
async def test_a_line_that_wants_to_borrow_is_handed_over_and_what_is_lent_is_said(
    tmp_path: Path, nursery: trio.Nursery
):
    async with meeting("rome", "milan", advertise=DEAD) as [rome, milan]:
        await nursery.start(lead, milan)
        made = await run(rome, tmp_path, "invite", "--borrow", "--cpu", "4", "--pods", "9")
        line = made.out.strip()
        assert "/#b1." in line
        assert "borrows cpu 4, pods 9" in (await run(rome, tmp_path, "invite", "list")).out
        # Nobody can be asked, and nobody has said yes: it waits in the inbox.
        silent = await run(milan, tmp_path, "peer", line, "--cpu", "1")
        assert silent.status == 2
        [entry] = json.loads((await run(milan, tmp_path, "inbox", "-o", "json")).out)
        assert entry["phase"] == "Waiting"
        for said in (
            "lends to rome, whose pods run here then: cpu 1, pods 9 and the default of the rest.",
            f"rome shows the words {entry['words']}: say --yes",
            f"or `liqod inbox accept {entry['name']}`",
        ):
            assert said in silent.err
        done = await run(milan, tmp_path, "peer", line, "--cpu", "1", "--yes")
        assert done.status == 0, done.err
        assert done.out.startswith("rome borrows from this cluster: cpu 1")
        assert line.partition("#")[2] not in done.err
        [here] = await rome.admin.list(OUTGOING_PEERINGS, Selection("liqo"), decode=OutgoingPeering)
        ready = await peered(rome, here.name)
        assert (ready.status.words, ready.status.granted["cpu"]) == (entry["words"], "1")


@pytest.mark.long
async def test_answers_of_the_inbox_are_shown_and_what_is_over_is_not_answered(tmp_path: Path):
    async with meeting("rome", "milan") as [rome, milan]:
        await ask(rome, milan, resources={"cpu": "4"})
        await eventually(lambda: waiting(milan))
        said = await run(milan, tmp_path, "inbox", "deny", "rome", "--always", "-o", "json")
        shown = json.loads(said.out)
        assert (shown["clusterID"], shown["decision"], shown["always"]) == ("rome", "Deny", True)

        async def denied() -> bool:
            return (await entries(milan))[0].status.phase == "Denied"

        await eventually(denied)
        ended = await run(milan, tmp_path, "inbox", "accept", "rome")
        assert ended.status == 1
        assert f"`liqod inbox deny {shown['name']}` without --always lifts that" in ended.err
        lifted = await run(milan, tmp_path, "inbox", "deny", "rome")
        assert lifted.out == "rome is denied; what it asks later waits here for an answer\n"
        await ask(rome, milan, resources={"cpu": "3"})
        await eventually(lambda: waiting(milan))
        await run(milan, tmp_path, "inbox", "accept", "rome", "--cpu", "1", "-o", "json")
        [entry] = await entries(milan)
        assert entry.status.granted["cpu"] == "1"
        ended = await run(milan, tmp_path, "inbox", "deny", "rome")
        assert ended.status == 1
        assert "`liqod revoke rome` takes that back" in ended.err


async def test_a_line_that_went_astray_is_withdrawn_by_itself_or_by_its_name(tmp_path: Path):
    async with meeting("milan") as [milan]:
        for by_line in (True, False):
            made = json.loads((await run(milan, tmp_path, "invite", "-o", "json")).out)
            which = made["invitation" if by_line else "name"]
            ended = await run(milan, tmp_path, "invite", "revoke", which, "--yes")
            assert ended.out == f"{made['name']} is withdrawn\n", ended.err
            assert (
                await run(milan, tmp_path, "invite", "list")
            ).out == "there are no invitations\n"
        cut = await run(milan, tmp_path, "invite", "revoke", made["invitation"][:-9], "--yes")
        assert cut.status == 2
        assert "the invitation" in cut.err


async def test_who_says_no_denies_what_was_asked(tmp_path: Path):
    class No:
        def confirm(self, what: str, *, yes: bool) -> None:
            raise SystemExit(1)

    async with meeting("rome", "milan") as [rome, milan]:
        token = await invite(rome, borrow=True, resources={"cpu": "4"})
        await peeringrequest.ensure_request(milan.admin, "liqo", by_token(token, lend=True))
        await eventually(lambda: waiting(milan))
        lender = OfferConfirmation(No(), milan.admin, "liqo", {}, yes=False)  # type: ignore[arg-type]
        with pytest.raises(SystemExit):
            await lender.shown(await outgoing(milan, token.id))
        with pytest.raises(ConfigError, match=r"nothing is lent to rome \(Denied\)"):
            await peered(milan, token.id)
        assert await rome.admin.find(NODES, "milan") is None


@pytest.mark.long
async def test_an_operator_is_told_who_asks_and_answers(tmp_path: Path, nursery: trio.Nursery):
    async with meeting("rome", "milan") as [rome, milan]:
        await nursery.start(lead, rome)
        assert (await run(milan, tmp_path, "inbox")).out == "nobody asks\n"
        nobody = await run(milan, tmp_path, "inbox", "accept", "rome")
        assert "rome does not ask; nobody does" in nobody.err
        await ask(rome, milan, resources={"cpu": "4"})
        await eventually(lambda: waiting(milan))
        shown = (await run(milan, tmp_path, "inbox")).out
        assert "cpu 4" in shown
        [entry] = json.loads((await run(milan, tmp_path, "inbox", "-o", "json")).out)
        more = await run(milan, tmp_path, "inbox", "accept", "rome", "--cpu", "5")
        assert "no more than that can be granted" in more.err
        done = await run(milan, tmp_path, "inbox", "accept", "rome", "--cpu", "1")
        assert "rome is accepted: cpu 1" in done.out
        ready = await run(rome, tmp_path, "peer", "milan", "--cpu", "4", "--words", entry["words"])
        assert (ready.status, ready.out) == (0, "peered: milan is the node milan here\n")


async def test_what_is_printed_for_a_zone_is_seen_by_who_looks_there(tmp_path: Path):
    where = ("discover", "--dns-records", "example.org")
    async with meeting("milan") as [milan]:
        unreached = await run(milan, tmp_path, *where)
        assert "127.0.0.1 is not reached from other machines: say by --address" in unreached.err
        told = await run(milan, tmp_path, *where, "--address", "gate.example.org:443")
        also = await run(milan, tmp_path, *where, "--address", "192.0.2.7:443", "-o", "json")
        key = await key_of(milan)
    server = NameServer()
    try:
        server.take(told.out)
        (seen,), _ = await rounds(server)
    finally:
        server.close()
    assert (seen.cluster_id, seen.addresses) == ("milan", ("gate.example.org:443",))
    signed = advertcodec.verify(seen.advert)
    assert (signed.advert.cluster_id, signed.key) == ("milan", key)
    assert f"; milan, key {key}" in told.out
    read = json.loads(also.out)
    assert (read["clusterID"], read["key"]) == ("milan", key)
    assert [each["type"] for each in read["records"]] == ["SRV", "TXT", "A"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("turin", "--dns-records", "example.org"), "and not both"),
        (("--address", "milan.example.org:6446"), "--address is for --dns-records"),
    ],
)
async def test_what_belongs_to_a_zone_is_not_taken_for_a_look(words: tuple[str, ...], why: str):
    ended = await command("discover", *words)
    assert ended.status == 2
    assert why in ended.err


def test_an_invitation_is_read_from_standard_input_too(monkeypatch: pytest.MonkeyPatch):
    line = format_token(TOKEN)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{line}\n".encode())))
    read = request_of("-", ResourceRequest(), replace=False, networking=True)
    assert (read.invitation, read.key) == (("invitation-1", b"s" * 16), "0" * 64)
    assert "sss" not in repr(read)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    with pytest.raises(Misuse, match="no invitation on standard input"):
        request_of("-", ResourceRequest(), replace=False, networking=True)


def test_a_damaged_invitation_is_said_without_its_secret():
    line = format_token(TOKEN)
    with pytest.raises(ConfigError) as caught:
        request_of(line[:-2], ResourceRequest(), replace=False, networking=True)
    assert line.partition("#")[2][:20] not in str(caught.value)


@pytest.mark.parametrize(("text", "span"), [("30m", 1800), ("1h", 3600), ("7d", 604800)])
def test_a_span_of_time(text: str, span: int):
    assert seconds(text) == span


@pytest.mark.parametrize("text", ["", "0h", "1", "1w", "-1h", "1h30m"])
def test_what_is_no_span_of_time(text: str):
    with pytest.raises(Misuse, match="write 30m"):
        seconds(text)


def test_a_code_is_square_and_says_something():
    rows = qr.drawn(format_token(TOKEN))
    assert len({len(row) for row in rows}) == 1
    assert abs(len(rows) * 2 - len(rows[0])) <= 1
    assert set("".join(rows)) == set(" ▀▄█")


@pytest.mark.long
async def test_words_confirm_the_request_that_waits_as_it_was_printed(
    tmp_path: Path, nursery: trio.Nursery
):
    async with meeting("rome", "milan") as [rome, milan]:
        await nursery.start(lead, rome)
        early = await run(rome, tmp_path, "peer", "milan", "--words", "one-two-three-four")
        assert early.status == 1
        assert "nothing is asked of milan" in early.err
        await ask(rome, milan, resources={"cpu": "4"})
        await eventually(lambda: waiting(milan))
        await run(milan, tmp_path, "inbox", "accept", "rome", "--cpu", "2")

        async def printed() -> str | None:
            said = (await outgoing(rome, "milan")).status.message
            return said.partition("say so: `")[2].rstrip("`") or None

        hint: str = await eventually(printed)
        other = await run(rome, tmp_path, *hint.split()[1:], "--cpu", "6")
        assert other.status == 1
        assert "which asks milan for cpu 4" in other.err
        ready = await run(rome, tmp_path, *hint.split()[1:])
        assert (ready.status, ready.out) == (0, "peered: milan is the node milan here\n"), ready.err
        assert (await outgoing(rome, "milan")).status.granted["cpu"] == "2"


async def test_words_of_before_a_change_are_no_alarm(tmp_path: Path):
    async with meeting("rome", "milan") as [rome, milan]:

        async def shown() -> str | None:
            return (await outgoing(rome, "milan")).status.words or None

        await ask(rome, milan, resources={"cpu": "4"})
        before: str = await eventually(shown)
        await ask(rome, milan, resources={"cpu": "3"})
        now: str = await eventually(shown)
        assert now != before
        with pytest.raises(ConfigError, match=f"the words of milan before.*Compare anew: {now}"):
            await peeringrequest.confirm(rome.admin, "liqo", "milan", before)
        assert (await outgoing(rome, "milan")).spec.key == ""
        with pytest.raises(ConfigError, match="somebody may stand between"):
            await peeringrequest.confirm(rome.admin, "liqo", "milan", "words-of-somebody-else")


async def test_words_of_before_the_connection_broke_are_no_alarm():
    async with meeting("rome", "milan") as [rome, milan]:

        async def shown() -> str | None:
            return (await outgoing(rome, "milan")).status.words or None

        await ask(rome, milan)
        before: str = await eventually(shown)
        await rome.stop()
        await rome.start()

        async def changed() -> bool:
            return await shown() != before

        await eventually(changed)
        with pytest.raises(ConfigError, match="the words of milan before"):
            await peeringrequest.confirm(rome.admin, "liqo", "milan", before)


@pytest.mark.long
async def test_who_is_seen_by_nobody_is_not_waited_for_and_nothing_is_left(
    tmp_path: Path, nursery: trio.Nursery
):
    async with meeting("rome") as [rome]:
        await nursery.start(lead, rome)
        ended = await run(rome, tmp_path, "peer", "nosuch")
        assert ended.status == 1
        assert "no cluster nosuch is seen here (`liqod discover`)" in ended.err
        assert await rome.admin.list(OUTGOING_PEERINGS) == []


@pytest.mark.long
async def test_who_stops_waiting_is_told_that_the_daemon_goes_on(
    tmp_path: Path, nursery: trio.Nursery
):
    async with meeting("rome", "milan") as [rome, milan]:
        await nursery.start(lead, rome)
        await ask(rome, milan)
        ended = await run(rome, tmp_path, "peer", "milan", "--timeout", "3")
        assert ended.status == 1
        assert "`kubectl -n liqo delete outgoingpeering milan` ends that" in ended.err
        assert (await outgoing(rome, "milan")).status.phase == "Waiting"
