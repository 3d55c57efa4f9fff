"""Every command that is printed as what to do next is one, and can be typed as it is printed."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from liqod.cli import app, clusters, inspector
from liqod.errors import ConfigError

ROOT = Path(__file__).parents[2]
PROGRAMS = ("run", "node", "top")
"""Those that start without the package of commands."""
PUT_IN = "x"
"""What stands where the program puts something in: a name that is good everywhere."""
VERBS = {each.split()[0] for each in app.COMMANDS}
NAMES = {*app.COMMANDS, *app.GROUPS, *VERBS}


def printed() -> list[str]:
    """The commands between backquotes in texts of the program, but for those about itself."""
    found: set[str] = set()
    for path in sorted((ROOT / "liqod").rglob("*.py")):
        for text in _texts(ast.parse(path.read_text())):
            found.update(re.findall(r"(?<!`)`liqod ([^`]+)`(?!`)", text))
    # Where the command itself is put in, others are shown that are of its form.
    return sorted(each for each in found if each not in NAMES and each.split()[0] in VERBS)


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


def test_commands_are_found() -> None:
    assert "peer x --words x" in printed()
    assert len(printed()) > 20


@pytest.mark.parametrize("line", printed())
def test_what_is_printed_can_be_typed(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def nowhere(*_: object, **__: object) -> None:
        raise ConfigError("this far all is well")

    monkeypatch.setattr(clusters, "connect", nowhere)
    monkeypatch.setattr(inspector, "place", nowhere)
    # A word in capitals stands for one of the reader's own.
    words = [PUT_IN if each.isupper() else each for each in line.split()]
    if words[0] in PROGRAMS:
        command = [sys.executable, "-m", "liqod", words[0], "--help"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert all(each in said for each in words[1:])
        return
    # 2 is said of a command line that is none; beyond that there is no cluster here.
    assert app.main(words) != 2, capsys.readouterr().err
