"""Text of others on a terminal and in a log."""

import json
import logging
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.cli.output import table
from liqod.model.text import fit, printable, printable_json
from liqod.runtime.log import Formatter
from tui.text import clean

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


SHOWN = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No"}
SHOWN |= {"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs"}
UNSEEN = "\u00ad\u034f\u061c\u115f\u17b4\u180e\u200b\u200d\u2060\u3164\ufe0f\uffa0\U000e0041"


@pytest.mark.parametrize("plane", range(17))
def test_of_every_category_only_what_is_seen_is_let_through(plane: int):
    for number in range(plane << 16, (plane + 1) << 16):
        char = chr(number)
        if unicodedata.category(char) not in SHOWN:
            assert not fit(char), hex(number)
        elif not fit(char):
            assert unicodedata.category(char) in ("Lo", "Mn"), hex(number)


@pytest.mark.parametrize("char", UNSEEN)
def test_what_is_not_seen_is_shown_as_its_code(char: str):
    assert printable(f"mi{char}lan") == f"mi{printable(char)}lan"
    assert printable(char).startswith("\\")
    assert printable(char).isascii()
    assert clean(f"mi{char}lan") == "mi lan"


@given(st.text())
def test_whatever_is_shown_shows_itself(text: str):
    shown = printable(text)
    assert all(map(fit, shown))
    assert printable(shown) == shown
    assert printable(text, lines=True).count("\n") == text.count("\n")


@given(st.text())
def test_json_is_of_the_same_value_whatever_it_is(text: str):
    made = printable_json(json.dumps({"a": text}, ensure_ascii=False))
    assert json.loads(made) == {"a": text}
    assert all(map(fit, made))


def test_json_stays_the_same_value():
    text = json.dumps({"message": EVIL}, ensure_ascii=False, indent=2)
    made = printable_json(text)
    assert json.loads(made) == {"message": EVIL}
    assert made.replace("\n", "").isprintable()


def test_a_cell_begins_no_line():
    [header, row] = table([["a\nfake", EVIL]], ["ONE", "TWO"]).splitlines()
    assert header.startswith("ONE")
    assert row.startswith("a\\x0afake")


def test_a_traceback_begins_no_line_that_looks_like_ours():
    try:
        raise ValueError(EVIL + "\n12:00:00 info    all is well")
    except ValueError:
        record = logging.makeLogRecord({"msg": "failed", "exc_info": sys.exc_info()})
    for style in ("text", "journal"):
        first, *more = Formatter(style).format(record).splitlines()
        assert first.endswith("failed")
        assert all(line.startswith("  ") for line in more)
        assert all(map(fit, "".join(more)))
    assert all(map(fit, Formatter("json").format(record)))


def test_a_log_line_stays_one_line():
    record = logging.makeLogRecord({"msg": "told\n<0>forged", "reason": EVIL})
    for style in ("text", "journal"):
        assert "\n" not in Formatter(style).format(record)
        assert "\x1b" not in Formatter(style).format(record)
