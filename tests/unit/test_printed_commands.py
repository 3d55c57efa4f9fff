"""Every command that is printed as what to do next is one, and can be typed as it is printed."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from liqod.cli import app, clusters, inspectorclient
from liqod.errors import ConfigError

ROOT = Path(__file__).parents[2]
PROGRAMS = ("run", "node", "top")
"""Those that start without the package of commands."""
PUT_IN = "x"
"""The value in place of a variable: a name that is good everywhere."""
VERBS = {each.split()[0] for each in app.COMMANDS}
NAMES = {*app.COMMANDS, *app.GROUPS, *VERBS}
ELSEWHERE = {
    "discover CLUSTER": "shows the key that a mistake is about",
    "install --cluster-profiles": "a heading of the page of rights",
    "install --plugin NAME": "of the page of rights",
    "install --services": "a heading of the page of rights",
    "install --dns-server": "a heading of the page of rights",
    "install --storage": "a heading of the page of rights",
    "node --clean": "of a machine: run by the tests of nodes' agents",
    "node --help": "its help",
    "peer --remote-kubeconfig FILE --replace": "of a cluster that was made anew",
    "peer NAME": "says of a right for what it is",
    "top --url": "names an option",
}
"""Printed commands that no test takes, and why."""
ALONE = {
    "`liqod peer` makes the first",
    "`liqod peer` there asks again",
    "asks anew with `liqod peer`",
    "give `liqod peer` another invitation",
    "is joined as `liqod peer` does it",
    "`liqod peer` with another invitation",
    "`liqod peer` again, or `liqod unpeer` and the same",
    "or `liqod unpeer` and peer anew",
    "until you `liqod unpeer` on both sides",
    "`liqod unpeer` on both sides, and peer again",
}
"""Where a command that wants more is named alone: the sentence says what it wants, or who knows."""


def trees(folder: str, pattern: str) -> Iterator[ast.Module]:
    """The modules below a folder in which a pattern is found."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        text = path.read_text()
        if re.search(pattern, text):
            yield ast.parse(text)


@cache
def texts() -> tuple[str, ...]:
    """All texts of the program that name a command, with ``x`` where it puts something in."""
    return tuple(text for tree in trees("liqod", "`liqod") for text in _texts(tree))


@cache
def printed() -> tuple[str, ...]:
    """The commands between backquotes in texts of the program, but for those about itself."""
    found: set[str] = set()
    for text in texts():
        found.update(re.findall(r"(?<!`)`liqod ([^`]+)`(?!`)", text))
    # Where the command itself is put in, others are shown that are of its form.
    commands = (each for each in found if each not in NAMES and each.split()[0] in VERBS)
    return tuple(sorted(commands))


def _texts(tree: ast.AST) -> Iterator[str]:
    inner = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            inner.add(id(node.value))  # a docstring
        elif isinstance(node, ast.JoinedStr):
            inner.update(map(id, node.values))
            if id(node) not in inner:
                parts = (
                    str(part.value) if isinstance(part, ast.Constant) else PUT_IN
                    for part in node.values
                )
                yield "".join(parts)
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner
        ):
            yield node.value.replace("%s", PUT_IN)


@cache
def run_by_tests() -> frozenset[str]:
    """The forms that tests take from what is printed, and run."""
    found: set[str] = set()
    for tree in trees("tests", r"\btaken\("):
        for node in ast.walk(tree):
            named = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "taken"
            if isinstance(node, ast.Call) and named and isinstance(node.args[1], ast.Constant):
                found.add(str(node.args[1].value))
    return frozenset(found)


def test_each_is_run_by_a_test_where_it_is_printed() -> None:
    """A command that is printed anew wants ``taken`` of :mod:`tests.simulated.remedies`."""
    assert run_by_tests() | ELSEWHERE.keys() == set(printed())
    assert not run_by_tests() & ELSEWHERE.keys()


@pytest.mark.parametrize("name", ["peer", "unpeer", "revoke", "logs", "inbox accept"])
def test_a_command_that_wants_more_is_not_printed_alone(name: str) -> None:
    for text in texts():
        plain = " ".join(text.split())
        for known in ALONE:
            plain = plain.replace(known, "")
        assert f"`liqod {name}`" not in plain, text


def test_commands_are_found() -> None:
    assert "peer x --words x" in printed()
    assert len(printed()) > 20


def test_what_is_printed_can_be_typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of them in one test: else each worker of a run would look for them as it starts."""

    async def nowhere(*_: object, **__: object) -> None:
        raise ConfigError("this far all is well")

    monkeypatch.setattr(clusters, "connect", nowhere)
    monkeypatch.setattr(inspectorclient, "place", nowhere)
    wrong = {}
    for line in printed():
        # A word in capitals stands for one of the reader's own.
        words = [PUT_IN if each.isupper() else each for each in line.split()]
        if words[0] in PROGRAMS:
            if missing := [each for each in words[1:] if each not in help_of(words[0])]:
                wrong[line] = f"its help has no {missing}"
        # 2 is said of a command line that is none; beyond that there is no cluster here.
        elif app.main(words) == 2:
            wrong[line] = capsys.readouterr().err
    assert wrong == {}


@cache
def help_of(program: str) -> str:
    """The help of a verb that starts without the package of commands."""
    command = [sys.executable, "-m", "liqod", program, "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
