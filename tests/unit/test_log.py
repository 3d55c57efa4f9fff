"""The three styles of the log, and whose peer a line is about."""

import io
import json
import logging
import re
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from liqod.apimachinery.kinds import SERVICES
from liqod.errors import Invalid, Unreachable
from liqod.peers.peer import Peer
from liqod.runtime import log
from liqod.runtime.log import PEER, Formatter, Seldom
from liqod.telemetry.hub import Hub


@pytest.fixture
def record():
    """A record with a value beside its sentence."""
    made = logging.makeLogRecord({"levelname": "WARNING", "levelno": 30, "msg": "it is slow"})
    made.seconds = 3
    return made


def test_a_person_reads_time_level_peer_and_values(record):
    token = PEER.set("milan")
    try:
        line = Formatter("text").format(record)
    finally:
        PEER.reset(token)
    assert line.endswith("warning [milan] it is slow seconds=3")
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d warning", line)


def test_the_journal_gets_a_priority_and_no_time(record):
    assert Formatter("journal").format(record) == "<4>it is slow seconds=3"


def test_json_has_everything_and_a_traceback(record):
    try:
        raise ValueError("no")
    except ValueError as error:
        record.exc_info = (ValueError, error, error.__traceback__)
    line = json.loads(Formatter("json").format(record))
    assert (line["message"], line["level"], line["seconds"]) == ("it is slow", "warning", 3)
    assert "ValueError: no" in line["error"]
    at = datetime.fromisoformat(line["time"])
    assert at.utcoffset() is not None
    assert at.timestamp() == pytest.approx(record.created, abs=0.001)


@pytest.mark.parametrize("style", ["text", "journal", "json"])
def test_an_invitation_is_not_repeated(record, style: str):
    record.msg = "cannot read liqod:/milan.example:6446/#v1.PLANTED"
    assert Formatter(style).format(record).count("/#v1.(redacted)") == 1


@pytest.mark.parametrize(
    ("environ", "start"),
    [({}, "2"), ({"LIQOD_LOG": "json"}, "{"), ({"JOURNAL_STREAM": "8:1"}, "<6>")],
)
def test_the_style_follows_the_reader(environ, start):
    stream = io.StringIO()
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        log.set_up(environ, stream=stream)
        logging.getLogger("liqod.test").info("hello")
    finally:
        root.handlers[:], level = before
        root.setLevel(level)
    line = stream.getvalue()
    assert "hello" in line
    assert line[0].isdigit() if start == "1" else line.startswith(start)


def test_what_goes_on_is_said_now_and_then():
    seldom = Seldom(seconds=60.0, kept=2)
    assert [seldom.allows(what) for what in "aabab"] == [True, False, True, False, False]
    assert seldom.allows("c")
    assert seldom.allows("a")  # of more than it remembers the oldest is forgotten
    assert Seldom(seconds=0.0).allows("a")


def test_a_room_that_fails_is_logged_once_for_each_key_and_reason(caplog):
    context = cast("Any", SimpleNamespace(hub=Hub()))
    peer = Peer("milan", context, "liqo-tenant-milan")
    failed = peer.failures("lent")

    async def report():
        for _ in range(3):
            failed((SERVICES, "web"), Invalid("too many ports"))
            failed("web", Unreachable("no connection"))
        failed("web", ValueError("a mistake of ours"))

    trio.run(report)
    lines = [(each.key, each.reason, bool(each.exc_info)) for each in caplog.records]
    assert lines == [("services/web", "too many ports", False), ("web", "a mistake of ours", True)]
    assert {each.message for each in caplog.records} == {"failed, and is tried again"}
    assert len(peer.context.hub.history) == 7
