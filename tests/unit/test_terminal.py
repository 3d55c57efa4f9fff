"""Everything that commands print goes one way, which lets nothing through that is not seen."""

import ast
import io
import sys
from pathlib import Path

import pytest

from liqod.cli import output, terminal
from liqod.cli.clusterdiagnosis import Diagnosis
from liqod.cli.commands.doctor import render
from liqod.model.view.rows import CheckRow, Ladder

ROOT = Path(__file__).parents[2]
ONE_WAY = "liqod/cli/terminal.py"
WRITERS = {"print", "echo", "secho", "pprint"}
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}
EVIL = "\x1b]0;owned\x07\u061c\u200b\U000e0041\nliqod: all is well"
FILES = sorted((ROOT / "liqod" / "cli").rglob("*.py"))


def writes(source: str) -> list[int]:
    """The lines in which a module writes to a terminal by itself."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func
        if isinstance(name, ast.Name) and name.id in WRITERS:
            found.append(node.lineno)
        if not isinstance(name, ast.Attribute):
            continue
        if name.attr in WRITERS:
            found.append(node.lineno)
        owner = name.value
        if name.attr in ("write", "writelines"):
            while isinstance(owner, ast.Attribute):
                if owner.attr in STREAMS:
                    found.append(node.lineno)
                owner = owner.value
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_command_prints_but_by_the_one_way_out(path: Path):
    if str(path.relative_to(ROOT)) == ONE_WAY:
        return
    assert writes(path.read_text()) == [], "say it by liqod.cli.terminal"


@pytest.mark.parametrize(
    "code",
    [
        "print('x')",
        "typer.echo(name)",
        "sys.stdout.write(name)",
        "sys.stdout.buffer.write(name)",
        "stderr.write(name)",
    ],
)
def test_the_look_sees_what_it_looks_for(code: str):
    assert writes(code) or code.startswith("stderr")


def test_what_is_said_is_one_line_and_fit(capsys: pytest.CaptureFixture[str]):
    terminal.print_text(EVIL)
    terminal.note(EVIL)
    for text in capsys.readouterr():
        assert text.count("\n") == 1
        assert text.strip("\n").isprintable()
    terminal.print_text(f"a{EVIL}\nb", lines=True)
    assert "\x1b" not in capsys.readouterr().out


class Terminal(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_one_value_is_raw_for_programs_only(
    monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO]
):
    monkeypatch.setattr(sys, "stdout", shown := stream())
    assert output.show({"message": EVIL}, "text", "message")
    assert (shown.getvalue() == EVIL + "\n") == (stream is io.StringIO)
    monkeypatch.setattr(sys, "stdout", shown := stream())
    assert output.show({"all": [EVIL]}, "text", "all")
    assert shown.getvalue().strip("\n").isprintable()


def test_evidence_begins_no_line_in_the_doctor():
    check = CheckRow("api", "API server", "failing", evidence=EVIL, remedy=EVIL)
    found = Diagnosis("milan", "resources", (Ladder("milan", (check,)),), silent=EVIL)
    shown = render(found, now=0.0)
    assert "\x1b" not in shown
    assert not any(line.startswith("liqod:") for line in shown.splitlines())
