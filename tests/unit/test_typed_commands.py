"""`liqod` as shells find it in tests: a fork that has everything imported, and yet a program."""

import socket
import time
from pathlib import Path

import pytest

from tests.testbed.pages import Terminal

pytestmark = pytest.mark.long

WITHIN = 12.0
"""Seconds, fewer than a command waits for a cluster that says nothing."""
SILENT = """
apiVersion: v1
kind: Config
current-context: silent
contexts: [{{name: silent, context: {{cluster: silent, user: silent}}}}]
clusters: [{{name: silent, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: silent, user: {{token: t}}}}]
"""


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, tmp_path)


def test_it_ends_as_the_command_does(terminal: Terminal) -> None:
    assert terminal.type("liqod --version").startswith("liqod ")
    assert "No such command 'nonsense'" in terminal.type("liqod nonsense", statuses=(2,))


def test_it_has_the_environment_and_the_folder_of_its_shell(terminal: Terminal) -> None:
    said = terminal.type("mkdir a; cd a; KUBECONFIG=here.yaml liqod status", statuses=(1,))
    assert "here.yaml" in said
    (terminal.folder / "a" / "mine.toml").write_text("[nonsense]\n")
    refused = terminal.type("cd a; liqod plugins --config mine.toml", statuses=(1, 2))
    assert "nonsense" in refused


def test_it_reads_and_writes_what_its_shell_gives_it(terminal: Terminal) -> None:
    terminal.type("liqod --version > version")
    written = (terminal.folder / "version").read_text()
    assert written == terminal.type("liqod --version | cat")


def test_a_signal_ends_it(terminal: Terminal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        text = SILENT.format(port=silent.getsockname()[1])
        (terminal.folder / "silent.kubeconfig").write_text(text)
        began = time.monotonic()
        # What it has started would keep the shell's output open.
        terminal.type("timeout 2 liqod status", "silent", statuses=(124,))
    assert time.monotonic() - began < WITHIN
