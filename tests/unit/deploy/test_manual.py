"""The man pages name every command and option, and roff takes nothing in them for its own."""

import re
from typing import Any

import pytest
import typer.main
from hypothesis import given
from hypothesis import strategies as st

from deploy import manual
from liqod import __version__
from liqod.cli import app

PAGES = manual.pages(1_700_000_000)
MACROS = {"TH", "SH", "SS", "PP", "TP", "nf", "fi"}


def test_there_is_a_page_for_each_verb():
    verbs = {words.split()[0] for words in app.COMMANDS}
    assert set(PAGES) == {"liqod.1", *(f"liqod-{verb}.1" for verb in verbs)}
    overview = PAGES["liqod.1"]
    for verb in verbs:
        assert f"\\fB{verb}\\fP" in overview
        assert f"\\fBliqod\\-{verb}\\fP(1)" in overview


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_request_but_those_of_man_pages(name: str):
    title, *lines = PAGES[name].splitlines()
    words = name.removesuffix(".1").upper().replace("-", "\\-")
    assert title == f'.TH {words} 1 2023-11-14 "liqod {__version__}" "liqod"'
    requests = [line for line in lines if line.startswith((".", "'"))]
    assert {line.split()[0].removeprefix(".") for line in requests} <= MACROS
    assert requests[:2] == [".SH NAME", ".SH SYNOPSIS"]


@pytest.mark.parametrize("words", [each for each in app.COMMANDS if each not in manual.PROGRAMS])
def test_a_command_is_shown_with_each_option(words: str):
    command: Any = typer.main.get_command(app.tree())
    for word in words.split():
        command = command.commands[word]
    page = PAGES[f"liqod-{words.split()[0]}.1"]
    assert f"liqod {words}".replace("-", "\\-") in page
    for each in command.params:
        names = each.opts if each.param_type_name == "option" and not each.hidden else []
        assert all(name.replace("-", "\\-") in page for name in names), names


@pytest.mark.parametrize("verb", manual.PROGRAMS)
def test_a_program_of_its_own_is_shown_with_each_option(verb: str):
    page = PAGES[f"liqod-{verb}.1"]
    shown = manual.PROGRAMS[verb].format_help().partition("options:")[2]
    names = re.findall(r"^ +(--[a-z-]+)", shown, re.MULTILINE)
    assert names
    assert all(name.replace("-", "\\-") in page for name in names)


@given(st.text(alphabet=".'\\-` a\n", min_size=1))
def test_any_text_stays_text(text: str):
    for line in manual.roff(text).splitlines():
        assert not line.startswith((".", "'"))
        assert not re.sub(r"\\(?:e|-|&|\(aq|fB|fP)", "", line).count("\\")
