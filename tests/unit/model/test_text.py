"""Text of others on a terminal and in a log."""

import json
import logging

import pytest

from liqod.cli.common import table
from liqod.log import Formatter
from liqod.model.text import printable, printable_json

EVIL = "\x1b]0;owned\x07 \x1b[2J\r\x9b31m\u202egnp.exe\u2066 ok"


def test_nothing_of_it_moves_a_cursor_or_turns_the_writing():
    shown = printable(EVIL + "\nliqod: all is well")
    assert shown.isprintable()
    assert "\\x1b]0;owned\\x07" in shown
    assert "\\u202egnp.exe" in shown
    assert "\\x0aliqod" in shown


@pytest.mark.parametrize("text", ["", "plain", "größer → 4", "日本語", "a\tb"])
def test_what_people_write_stays(text: str):
    assert printable(text) == text.replace("\t", "\\x09")
    assert printable("a\nb", lines=True) == "a\nb"


def test_json_stays_the_same_value():
    text = json.dumps({"message": EVIL}, ensure_ascii=False, indent=2)
    made = printable_json(text)
    assert json.loads(made) == {"message": EVIL}
    assert made.replace("\n", "").isprintable()


def test_a_cell_begins_no_line():
    [header, row] = table([["a\nfake", EVIL]], ["ONE", "TWO"]).splitlines()
    assert header.startswith("ONE")
    assert row.startswith("a\\x0afake")


def test_a_log_line_stays_one_line():
    record = logging.makeLogRecord({"msg": "told\n<0>forged", "reason": EVIL})
    for style in ("text", "journal"):
        assert "\n" not in Formatter(style).format(record)
        assert "\x1b" not in Formatter(style).format(record)
