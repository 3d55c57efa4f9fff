"""The keeper of tunnels does what a daemon asks, outlives it, and does nothing else."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from liqod.keeper import keepermessages
from liqod.keeper.keeperclient import KeeperClient, keeper

SLEEP = "1000000.25"
"""The last word of a command names it."""


SAYS = """
import os, sys
def is_open(number):
    try:
        return bool(os.fstat(number))
    except OSError:
        return False
opened = [number for number in range(256) if is_open(number)]
word, home = os.environ["WORD"], os.environ.get("HOME")
os.write(int(sys.argv[1]), f"{sys.stdin.read()} {word} {home} {opened}".encode())
"""
"""A program that says what it was given."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """The socket of a keeper that runs."""
    path = tmp_path / "run" / "keeper.sock"
    process = subprocess.Popen(
        [sys.executable, "-m", "liqod.keeper.server"],
        env={**os.environ, keepermessages.VARIABLE: str(path)},
    )
    until(path.is_socket)
    yield path
    process.terminate()
    assert process.wait(5) == 0
    assert not path.exists()


def until(holds: Callable[[], object]) -> None:
    """Wait for it."""
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def started(kept: KeeperClient, *words: str, given: bytes = b"", keep: tuple[int, ...] = ()) -> int:
    read, write = os.pipe()
    os.write(write, given)
    os.close(write)
    try:
        return kept.start(words, {"WORD": "told"}, stdin=read, keep=keep).pid
    finally:
        os.close(read)


def runs(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"


def test_on_a_host_there_is_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(keepermessages.VARIABLE, raising=False)
    assert keeper() is None


def test_a_program_is_the_keepers_and_ends_by_its_name(place: Path):
    kept = KeeperClient(str(place))
    process = started(kept, "/bin/sleep", SLEEP)
    assert runs(process)
    # No signal of the daemon's session or group reaches it.
    assert os.getsid(process) == process
    assert kept.status(process) is None
    kept.end("somebody-elses")
    assert kept.status(process) is None
    kept.end(SLEEP)
    assert not Path(f"/proc/{process}").exists()
    assert kept.status(process) == -1


def test_one_of_several_can_be_ended(place: Path):
    kept = KeeperClient(str(place))
    with open(os.devnull) as nothing:
        one, other = (
            kept.start(("/bin/sleep", SLEEP), {}, stdin=nothing.fileno(), keep=()) for _ in "12"
        )
    one.kill()
    assert one.poll() is not None
    assert other.poll() is None
    other.kill()


def test_one_that_ends_by_itself_is_told_of(place: Path):
    kept = KeeperClient(str(place))
    process = started(kept, "/bin/sleep", SLEEP)
    os.kill(process, signal.SIGKILL)
    until(lambda: kept.status(process) == -signal.SIGKILL)
    assert not Path(f"/proc/{process}").exists(), "nobody waited for it"


def test_a_program_gets_its_input_and_files_and_nothing_else(place: Path, tmp_path: Path):
    kept, output = KeeperClient(str(place)), tmp_path / "output"
    file = os.open(output, os.O_WRONLY | os.O_CREAT)
    started(kept, sys.executable, "-S", "-c", SAYS, str(file), given=b"secret", keep=(file,))
    os.close(file)
    # Whatever else was open here, or at the keeper, is not open there.
    until(lambda: output.read_text())
    assert output.read_text() == f"secret told None {[0, 1, 2, file]}"


def test_a_namespace_is_given_to_the_next_daemon(place: Path):
    kept = KeeperClient(str(place))
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    kept.keep("liqod-1", own)
    kept.keep("liqod-1", own)
    assert kept.kept() == ["liqod-1"]
    given = kept.give("liqod-1")
    assert os.path.sameopenfile(given, own)
    os.close(given)
    kept.drop("liqod-1")
    kept.drop("liqod-1")
    assert kept.kept() == []
    with pytest.raises(OSError, match="liqod-1"):
        kept.give("liqod-1")
    os.close(own)


ATTENDS = """
import sys, time
from liqod.keeper.keeperclient import KeeperClient
KeeperClient(sys.argv[1]).attend()
print("here", flush=True)
time.sleep(1000)
"""
"""A daemon, as far as a keeper knows."""


def test_a_node_that_is_not_the_gateway_any_more_keeps_nothing(place: Path):
    kept = KeeperClient(str(place))
    process = started(kept, "/bin/sleep", SLEEP)
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    kept.keep("liqod-1", own)
    os.close(own)
    daemon = subprocess.Popen(
        [sys.executable, "-c", ATTENDS, str(place)], stdout=subprocess.PIPE, text=True
    )
    assert daemon.stdout is not None
    with daemon.stdout as said:
        assert said.readline() == "here\n"
    assert not kept.forsake(), "a daemon is here, which may stand by"
    assert kept.kept() == ["liqod-1"]
    # However it ends.
    daemon.kill()
    daemon.wait()
    assert kept.forsake()
    assert kept.kept() == []
    assert not Path(f"/proc/{process}").exists()
    assert kept.forsake(), "there is nothing any more"


def test_what_is_no_namespace_is_not_kept(place: Path, tmp_path: Path):
    file = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(OSError, match="only namespaces are kept"):
        KeeperClient(str(place)).keep("liqod-1", file)
    os.close(file)


@pytest.mark.parametrize(
    "said", [b"", b"{", b"[]", b"{}", b'{"do": "reboot"}', b'{"do": "start"}', b'{"do": "keep"}']
)
def test_nonsense_is_refused_and_harms_nobody(place: Path, said: bytes):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(5)
        connection.connect(str(place))
        connection.send(said)
        if said:
            assert b"error" in connection.recv(1 << 16)
    assert KeeperClient(str(place)).kept() == []


def test_the_socket_is_its_users_alone(place: Path):
    assert place.stat().st_mode & 0o077 == 0
    assert place.parent.stat().st_mode & 0o077 == 0


def test_a_keeper_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(OSError, match="DaemonSet liqod-keeper"):
        KeeperClient(str(tmp_path / "keeper.sock")).kept()


def test_one_that_begins_again_replaces_what_a_killed_one_left(tmp_path: Path):
    path = tmp_path / "keeper.sock"
    command = [sys.executable, "-m", "liqod.keeper.server"]
    environment = {**os.environ, keepermessages.VARIABLE: str(path)}
    first = subprocess.Popen(command, env=environment)
    until(path.is_socket)
    first.kill()
    first.wait()
    second = subprocess.Popen(command, env=environment)
    try:
        until(lambda: _answers(path))
    finally:
        second.terminate()
        second.wait()


def _answers(path: Path) -> bool:
    try:
        return KeeperClient(str(path)).kept() == []
    except OSError:
        return False
