"""The demo as a newcomer runs it: it succeeds, and however it ends it leaves nothing."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from simulator.demo import finding, programs
from tests.testbed import pages, virtualtime

PAGE = pages.ROOT / "docs" / "start" / "demo.md"
DEMO = (sys.executable, "-m", "liqod", "demo")


@pytest.fixture(autouse=True)
def _of_others():
    """The demo is a program of its own."""
    with virtualtime.real():
        yield


async def start(folder: Path, *words: str) -> trio.Process:
    """The demo with a temporary folder of its own, in a session of its own like a terminal's."""
    return await trio.lowlevel.open_process(
        [*DEMO, *words],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(folder)},
        start_new_session=True,
    )


async def read(demo: trio.Process, until: str = "") -> str:
    """Returns the demo's output, to its end or to the text ``until``."""
    assert demo.stdout is not None
    said = b""
    async for chunk in demo.stdout:
        said += chunk
        if until and until in said.decode(errors="replace"):
            break
    return said.decode(errors="replace")


def carries() -> bool:
    """True if an announcement on loopback is received there."""
    group, own = socket.inet_aton("224.0.0.251"), socket.inet_aton("127.0.0.1")
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there,
    ):
        try:
            here.bind(("", 0))
            here.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group + own)
            here.settimeout(1)
            there.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, own)
            there.sendto(b"here", ("224.0.0.251", here.getsockname()[1]))
            return here.recv(16) == b"here"
        except OSError:
            return False


def introduced(said: str) -> bool:
    """True if the demo showed that milan is seen, asked, and lets rome in by the same words."""
    seen = re.search(r"liqod discover .*\n.*\n +milan .* no .*`liqod peer milan` asks it", said)
    inbox = re.search(r" +rome +cpu 8, memory 16Gi, pods 50 +([a-z-]+) +Waiting ", said)
    assert seen is not None, said
    assert inbox is not None, said
    assert said.count(inbox[1]) >= 2, said
    return "rome is accepted: cpu 8, memory 16Gi, pods 50" in said


def left_in(folder: Path) -> list[str]:
    """Returns this folder's files, and the command lines of programs that work there."""
    found = [str(path) for path in folder.iterdir()]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            where = (process / "cwd").readlink()
            line = (process / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if where.is_relative_to(folder):
            found.append(line)
    return found


@pytest.mark.long
async def test_once_ends_well_and_leaves_nothing(tmp_path: Path):
    demo = await start(tmp_path, "--once")
    said = await read(demo)
    assert await demo.wait() == 0, said
    assert "All 6 replicas are Running and Ready" in said
    assert "by mDNS on lo" in said or "not by mDNS: UDP port" in said or not carries()
    assert introduced(said)
    assert pages.missing(pages.shown(PAGE.read_text()), said) == []
    assert "problems, worst first" not in said, "a newcomer has made none"
    assert left_in(tmp_path) == []


@pytest.mark.long
@pytest.mark.kubernetes
async def test_where_another_demo_announces_the_configuration_names_the_other(tmp_path: Path):
    with finding.claimed():
        demo = await start(tmp_path, "--once")
        said = await read(demo)
    assert await demo.wait() == 0, said
    assert "not by mDNS: UDP port 6446 of loopback is taken" in said
    assert 'id = "milan"' in said
    assert "--words" not in said, "its key is named"
    assert introduced(said)
    assert left_in(tmp_path) == []


@pytest.mark.long
@pytest.mark.kubernetes
@pytest.mark.parametrize(
    ("number", "when", "status"),
    [
        (signal.SIGINT, "Ctrl-C stops everything", 0),
        (signal.SIGTERM, "its daemon is up", 128 + signal.SIGTERM),
    ],
    ids=["Ctrl-C once it is up", "SIGTERM on the way"],
)
async def test_a_signal_stops_everything_and_leaves_nothing(
    tmp_path: Path, number: signal.Signals, when: str, status: int
):
    demo = await start(tmp_path)
    said = await read(demo, until=when)
    assert when in said
    assert any("liqod run" in line for line in left_in(tmp_path))
    demo.send_signal(number)
    rest = await read(demo)
    assert await demo.wait() == status, rest
    assert "stopped; nothing is left" in rest
    assert left_in(tmp_path) == []


@pytest.mark.long
@pytest.mark.kubernetes
async def test_a_reader_that_goes_away_leaves_nothing(tmp_path: Path):
    demo = await start(tmp_path)
    await read(demo, until="Install liqod")
    assert demo.stdout is not None
    await demo.stdout.aclose()
    assert await demo.wait() == 128 + signal.SIGPIPE
    assert left_in(tmp_path) == []


async def test_what_is_recorded_in_the_live_view_outlives_the_demo(monkeypatch, tmp_path: Path):
    ran: list[Any] = []

    async def run_process(words: Any, **options: Any) -> None:
        ran.append((words, options))

    monkeypatch.setattr(trio, "run_process", run_process)
    await programs.view(tmp_path, ["rome.sock"])
    ((words, options),) = ran
    assert words[-2:] == ["--socket", str(tmp_path / "rome.sock")]
    assert "cwd" not in options
