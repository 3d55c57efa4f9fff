"""The command line as shells and kubectl find it, and a demo that is not installed."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from deploy import manual
from liqod import __version__
from liqod.cli import app


@pytest.mark.parametrize("verb", manual.PROGRAMS)
def test_what_is_completed_of_a_program_of_its_own_is_what_it_takes(verb: str):
    whole: Any = typer.main.get_command(app.tree())
    command = whole.commands[verb]
    known = {name for each in command.params for name in each.opts} - {"--help", "-h"}
    help_ = manual.PROGRAMS[verb].format_help().partition("options:")[2]
    taken = set(re.findall(r"^ +(--?[a-z][a-z-]*)|, (--?[a-z][a-z-]*)", help_, re.MULTILINE))
    assert known == {name for each in taken for name in each if name} - {"--help", "-h"}


TYPED = {
    ("unp",): ["unpeer\tEnd a peering, from either side.", ":4"],
    ("offload", ""): ["namespace\tSpread a namespace: its pods may go to...", ":4"],
    ("completion", "z"): ["zsh", ":4"],
    ("status", "--kubeconfig", ""): [":0"],
    ("status", "--kubeconfig", "it's m"): [":0"],
}


def test_kubectl_is_told_the_completions_and_whether_files_are_meant():
    # One program for all of them: its start takes most of the time.
    entry = (
        "import json, sys; from liqod.cli.completion import kubectl\n"
        "for words in json.load(sys.stdin):\n"
        "    sys.argv[1:] = words\n"
        "    kubectl()\n"
        "    print()"
    )
    done = subprocess.run(
        [sys.executable, "-c", entry],
        input=json.dumps(list(TYPED)),
        capture_output=True,
        text=True,
        check=True,
    )
    said = [each.splitlines() for each in done.stdout.removesuffix("\n\n").split("\n\n")]
    assert dict(zip(TYPED, said, strict=True)) == TYPED
    assert done.stderr == ""


def test_a_shell_without_a_script_is_named(capsys: pytest.CaptureFixture[str]):
    assert app.main(["completion", "tcsh"]) == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in capsys.readouterr().err


def test_a_plugin_of_kubectl_calls_itself_as_it_is_called(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kubectl-liqod", "--help"])
    assert app.main() == 0
    assert capsys.readouterr().out.startswith("Usage: kubectl liqod [OPTIONS] COMMAND")


def test_the_demo_names_the_distribution_that_it_needs(tmp_path: Path):
    done = subprocess.run(
        # Isolated: the simulator in a folder of PYTHONPATH would run, and go on.
        [sys.executable, "-I", "-m", "liqod", "demo"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert f"pip install liqod_simulator-{__version__}-py3-none-any.whl" in done.stderr
