"""Private values are in a Secret and nowhere else, in every course of a peering."""

import base64
import logging
import re
import sys
import tarfile
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import yaml
from hypothesis import given
from hypothesis import strategies as st

from liqod import __main__ as program
from liqod import config
from liqod.apimachinery.kinds import SECRETS
from liqod.cli import app, inspectorclient
from liqod.cli.meet import request_of
from liqod.errors import ConfigError, LiqodError
from liqod.handshake.protocol.invitationtokens import InvitationToken, format_token
from liqod.inspect import protocol
from liqod.inspect.inspector import Inspector
from liqod.kube.credentials import credentials
from liqod.plugins import loader
from liqod.procedures import peeringrequest
from liqod.procedures.resourcerequest import ResourceRequest
from liqod.resources import TENANTS
from liqod.runtime.account import Account
from liqod.runtime.log import Formatter
from tests.simulated.borrower import eventually
from tests.simulated.identity.test_revoking import forge
from tests.simulated.meeting import by_token, invite, meeting, peered
from tests.simulated.members import AT_MILAN, Member
from tests.simulated.processes import command

SHORTEST = 16
"""Characters of what counts as found: a piece of a secret that is no shorter."""
BASE64 = re.compile(r"[A-Za-z0-9+/_-]{40,}={0,2}")


class Seen:
    """All that anybody may read, by where it was read."""

    def __init__(self) -> None:
        self.texts: dict[str, set[str]] = {}

    def add(self, where: str, text: str) -> None:
        self.texts.setdefault(where, set()).add(text)

    def holds(self, secrets: set[str]) -> list[str]:
        """Places of one of these, as it is or in base64."""
        return [
            f"{where}: {secret[:6]}… in {text[:200]}"
            for where, texts in self.texts.items()
            for text in texts
            for layer in unfolded(text)
            for secret in secrets
            if secret in layer
        ]


def unfolded(text: str, depth: int = 3) -> Iterator[str]:
    """A text, and what is in it in base64."""
    yield text
    if not depth:
        return
    for found in BASE64.findall(text):
        bare = found.rstrip("=").replace("-", "+").replace("_", "/")
        with_ends = bare[: len(bare) - (len(bare) % 4 == 1)]
        inner = base64.b64decode(with_ends + "=" * (-len(with_ends) % 4))
        yield from unfolded(inner.decode("latin-1"), depth - 1)


def of_text(text: str) -> set[str]:
    """The secrets of a kubeconfig or a key in PEM: what makes sense to look for."""
    found = set()
    for layer in unfolded(text):
        for body in re.findall(r"BEGIN [A-Z ]*PRIVATE KEY-----\s(.*?)\s-----END", layer, re.S):
            found |= {line for line in body.split() if len(line) >= SHORTEST}
        found |= {each for each in re.findall(r"token: (\S+)", layer) if len(each) >= SHORTEST}
    return found


def of_token(token: InvitationToken) -> set[str]:
    """The forms that an invitation's secret could have."""
    secret = token.secret
    line = format_token(token).partition("#v1.")[2]
    whole = {secret.hex(), base64.b64encode(secret).decode().rstrip("="), secret.decode("latin-1")}
    return whole | {base64.urlsafe_b64encode(secret).decode().rstrip("="), line}


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The values that must appear nowhere; those of a handshake are added as they come."""
    known: set[str] = set()
    given = credentials.given

    def noted(text: bytes, *more: Any) -> Any:
        known.update(of_text(text.decode()))
        return given(text, *more)

    monkeypatch.setattr(credentials, "given", noted)
    return known


@asynccontextmanager
async def looking(members: list[Member], folder: Path, secrets: set[str]) -> AsyncIterator[Seen]:
    """Read on all sides what those may read who may not read Secrets."""
    seen = Seen()
    handler = logging.Handler()
    formatters = [Formatter(style) for style in ("text", "json")]

    def emit(record: logging.LogRecord) -> None:
        for each in formatters:
            seen.add("log", each.format(record))

    handler.emit = emit  # type: ignore[method-assign]
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.DEBUG)
    root.addHandler(handler)
    try:
        async with trio.open_nursery() as nursery:
            for member in members:
                socket = folder / f"{member.id}.sock"
                settings = config.parse(f'{member.settings}[inspector]\nsocket = "{socket}"\n')
                context = replace(member.context, config=settings)
                await nursery.start(
                    Inspector(context, member.components, member.host, Account()).run
                )
                await nursery.start(view, socket, seen)
                nursery.start_soon(read_objects, member, seen, secrets)
            yield seen
            for member in members:
                await pack(member, folder, seen)
            nursery.cancel_scope.cancel()
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


async def view(socket: Path, seen: Seen, *, task_status: trio.TaskStatus[None]) -> None:
    """Records everything that the inspector sends to a viewer."""
    async with inspectorclient.connect(socket) as looker:
        first, state = await looker.snapshot(events=1000, lines=1000)
        seen.add("snapshot", msgspec.json.encode([first, state]).decode())
        task_status.started()
        while True:
            seen.add("deltas", protocol.encode(await looker.receive()).decode())


async def read_objects(member: Member, seen: Seen, secrets: set[str]) -> None:
    """Every object as often as it changes; from Secrets what must be nowhere else."""
    storage = member.cluster.registry.storage
    while True:
        for resource in storage.names():
            for item in storage.of(resource).items():
                text = item.raw.decode()
                if resource != "secrets":
                    seen.add(f"{member.id} {resource.partition('.')[0]}", text)
                else:
                    secrets |= of_text(text)
        await trio.sleep(0.02)


async def pack(member: Member, folder: Path, seen: Seen) -> None:
    """A bundle for a bug report."""
    kubeconfig, path = folder / f"{member.id}.kubeconfig", folder / f"{member.id}.tar.gz"
    kubeconfig.write_text(member.cluster.kubeconfig)
    where = ("--kubeconfig", str(kubeconfig), "--socket", str(folder / f"{member.id}.sock"))
    ended = await command("doctor", "--bundle", str(path), *where)
    assert ended.status == 0, ended.err
    with tarfile.open(path) as archive:
        for each in archive.getmembers():
            read = archive.extractfile(each)
            assert read is not None
            seen.add("bundle", read.read().decode())


async def take_its_place(milan: Member) -> bytes:
    """Another key in rome's Tenant, of which milan says so in an Event; that key."""
    live = await milan.admin.get(TENANTS, "rome", AT_MILAN)
    nonce = (await milan.admin.get(SECRETS, "liqo-nonce", AT_MILAN))["data"]["nonce"]
    private = await forge(live, base64.b64decode(nonce))
    await milan.admin.update(TENANTS, live, AT_MILAN)
    return private


@pytest.mark.long
async def test_no_secret_is_anywhere_but_in_secrets(tmp_path: Path, secrets: set[str]):
    plugins = loader.load(sources=loader.built_in())
    async with meeting("rome", "turin", "milan", plugins=plugins) as members:
        rome, turin, milan = members
        async with looking(members, tmp_path, secrets) as seen:
            token = await invite(milan, resources={"cpu": "2", "memory": "4Gi"})
            secrets |= of_token(token)
            await peeringrequest.ensure_request(rome.admin, "liqo", by_token(token))
            before = set(secrets)
            await peered(rome, token.id)
            assert secrets > before, "the kubeconfig that milan gives"
            await peeringrequest.ensure_request(turin.admin, "liqo", by_token(token))
            with pytest.raises(ConfigError, match="the invitation has been used"):
                await peered(turin, token.id)
            secrets |= of_text((await take_its_place(milan)).decode())
            await eventually(lambda: shown(seen, "milan events", "accepted with another key"))
            for each in members:
                user = yaml.safe_load(each.cluster.kubeconfig)["users"][0]["user"]
                secrets |= of_text(yaml.safe_dump(user))
            await eventually(lambda: shown(seen, "deltas", "liqo-tenant-rome"))
        assert {"log", "snapshot", "deltas", "bundle", "milan invitations", "milan events"} <= set(
            seen.texts
        )
        assert seen.holds(secrets) == []


async def shown(seen: Seen, where: str, text: str) -> bool:
    """True once that text was read there."""
    return any(text in each for each in seen.texts.get(where, ()))


TOKEN = InvitationToken(
    addresses=("127.0.0.1:6446",), id="invitation-1", secret=bytes(range(16)), key="ab" * 32
)
LINE = format_token(TOKEN)


@pytest.mark.parametrize(
    "words",
    [
        (LINE,),
        ("peer", "milan", LINE),
        ("peer", LINE[:-1]),
        ("peer", LINE.replace("//", "/", 1)),
        ("peer", LINE.partition("#")[2]),
        ("peer", "--cpu", LINE, "milan"),
        ("peer", "--resource", LINE, "milan"),
        ("peer", "--remote-kubeconfig", LINE),
        ("peer", f"--{LINE}"),
        ("peer", LINE, "--timeout", LINE),
        ("peer", LINE, "--output", LINE),
        ("invite", LINE),
        ("invite", "revoke", LINE, "--yes"),
        ("revoke", LINE, "--yes"),
    ],
    ids=lambda words: " ".join(words).replace(LINE, "LINE")[:40],
)
def test_an_invitation_in_the_wrong_place_is_not_repeated(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    assert app.main(words) in (1, 2)
    said = "".join(capsys.readouterr())
    assert "Error: " in said or "liqod: " in said
    secret = LINE.partition("#v1.")[2]
    assert not any(secret[at : at + 12] in said for at in range(len(secret) - 12))


BORROWS = format_token(msgspec.structs.replace(TOKEN, borrow=True))


@pytest.mark.parametrize("line", [LINE, BORROWS], ids=["lends", "borrows"])
@pytest.mark.parametrize(
    "words",
    [
        ("run", "LINE"),
        ("run", "--config", "LINE"),
        ("node", "LINE"),
        ("node", "--health-port", "LINE"),
        ("top", "LINE"),
        ("top", "--port", "LINE"),
        ("top", "--screen", "LINE"),
        ("top", "--replay", "LINE"),
        ("peer", "milan", "LINE"),
    ],
    ids=" ".join,
)
def test_no_program_repeats_an_invitation(
    line: str,
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    typed = [line if word == "LINE" else word for word in words]
    monkeypatch.setattr("sys.argv", ["liqod", *typed])
    monkeypatch.setattr("liqod.__main__._elsewhere", str)
    with pytest.raises(SystemExit) as end:
        sys.exit(program.main())
    assert end.value.code in (1, 2)
    said = "".join(capsys.readouterr())
    assert "liqod" in said
    secret = line.partition("#")[2][3:]
    assert not any(secret[at : at + 12] in said for at in range(len(secret) - 12))


@given(at=st.integers(0, len(LINE) - 1), to=st.characters(), cut=st.integers(0, len(LINE)))
def test_nothing_of_a_damaged_invitation_is_repeated(at: int, to: str, cut: int):
    damaged = (LINE[:at] + to + LINE[at + 1 :])[: max(cut, 60)]
    try:
        request_of(damaged, ResourceRequest(), replace=False, networking=True)
    except LiqodError as error:
        told = "".join(traceback.format_exception(error))
        assert not any(LINE[i : i + 12] in told for i in range(LINE.index("#"), len(LINE) - 12))


@pytest.mark.long
@given(at=st.integers(0, 2000), to=st.characters(codec="utf-8"))
def test_nothing_of_a_damaged_kubeconfig_is_repeated(at: int, to: str):
    token = base64.b64encode(bytes(range(48))).decode()
    text = (
        "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters:\n- name: a\n  cluster:\n"
        "    server: https://milan:6443\ncontexts:\n- name: a\n  context: {cluster: a, user: a}\n"
        f"users:\n- name: a\n  user:\n    token: {token}\n    client-key-data: {token}\n"
    )
    at %= len(text)
    try:
        credentials.from_kubeconfig((text[:at] + to + text[at + 1 :]).encode())
    except LiqodError as error:
        told = "".join(traceback.format_exception(error))
        assert not any(token[i : i + 12] in told for i in range(len(token) - 12))
