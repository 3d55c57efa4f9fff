"""Recordings and their playing; a sample of a minute with five peers, one of which goes down."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from liqod.inspect.protocol import InspectorHello, ServerMessage, StateSnapshot
from liqod.model.view.headline import condition
from tests.testbed.api import wait_until
from tests.unit.model.states import NOW, peer, state
from tests.unit.tui.sessions import hello, pulse, snapshot
from tui.link import NotConnected, first
from tui.recording import BadRecording, Recorder, load
from tui.replay import Replay
from tui.session import Lost
from tui.viewstate import ViewState

MINUTE = Path(__file__).parents[2] / "fixtures" / "recordings" / "minute.jsonl"


def test_what_is_recorded_is_what_is_played(tmp_path: Path) -> None:
    said: list[ServerMessage | Lost] = [
        hello(),
        snapshot(state(peer())),
        pulse(8, 0.1),
        Lost("gone", 5.0),
    ]
    recorder = Recorder(tmp_path / "r.jsonl")
    for message in said:
        recorder.add(message)
    recorder.close()
    assert list(load(tmp_path / "r.jsonl")) == said


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text("mine")
    with pytest.raises(FileExistsError):
        Recorder(tmp_path / "r.jsonl")


def test_a_full_disk_leaves_no_file_open(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        recorder = Recorder(tmp_path / "r.jsonl", lambda _: full)
        with pytest.raises(OSError, match="No space left"):
            recorder.add(hello())
        assert full.closed


@pytest.mark.parametrize("content", [b"", b"hello\n", b'{"type":"update"}\n', b"\xff\xfe\n"])
def test_another_file_is_refused_at_once(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "r.jsonl").write_bytes(content)
    with pytest.raises(BadRecording, match="not a recording"):
        load(tmp_path / "r.jsonl")


def test_a_damaged_line_is_named_and_a_torn_one_ends_it(tmp_path: Path) -> None:
    lines = MINUTE.read_bytes().splitlines(keepends=True)
    (tmp_path / "torn.jsonl").write_bytes(b"".join(lines[:3]) + lines[3][:50])
    assert len(list(load(tmp_path / "torn.jsonl"))) == 3
    (tmp_path / "bad.jsonl").write_bytes(b"".join(lines[:2]) + b"{}\n" + lines[2])
    with pytest.raises(BadRecording, match="line 3"):
        list(load(tmp_path / "bad.jsonl"))


def test_a_minute_is_reduced_to_how_it_was() -> None:
    view_state = ViewState("minute")
    seen = []
    for message in load(MINUTE):
        view_state.receive(message, 0.0)
        turin = view_state.session.state.peers.get("turin")
        if turin is not None:
            pulses = view_state.session.state.pulses
            seen.append(condition(turin, pulses.get("turin"), view_state.session.at))
    assert [how for index, how in enumerate(seen) if index == 0 or seen[index - 1] != how] == [
        "up",
        "down",
        "up",
    ]


def test_it_is_played_to_the_end_and_says_so() -> None:
    async def scenario() -> None:
        came: list[object] = []
        replay = Replay(MINUTE, 0)
        await replay.run(came.append)
        assert isinstance(came[0], InspectorHello)
        assert isinstance(came[1], StateSnapshot)
        assert isinstance(came[-1], Lost)
        with pytest.raises(NotConnected, match="recording"):
            await first(replay, lambda number: None)  # type: ignore[arg-type,return-value]

    asyncio.run(scenario())


def test_its_pace_is_the_recorded_one(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r.jsonl")
    for message in (hello(), snapshot(state()), pulse(4, 0.1)):
        recorder.add(message)
    recorder.close()
    came: list[float] = []
    asyncio.run(Replay(tmp_path / "r.jsonl", 20.0).run(lambda _: came.append(time.monotonic())))
    _, first_at, last_at, _ = came
    assert 4 / 20 <= last_at - first_at < 4


def test_a_recording_is_its_owners_and_overwrites_nothing(tmp_path: Path):
    before = os.umask(0o022)
    try:
        made = tmp_path / "made.jsonl"
        Recorder(made).close()
        assert made.stat().st_mode & 0o777 == 0o600
        target, link = tmp_path / "target", tmp_path / "link.jsonl"
        link.symlink_to(target)
        for taken in (made, link):
            with pytest.raises(FileExistsError):
                Recorder(taken)
        assert not target.exists()
    finally:
        os.umask(before)


def numbered(path: Path) -> Path:
    """A recording of a minute, one update each second."""
    recorder = Recorder(path)
    for message in (hello(), snapshot(state(peer()))):
        recorder.add(message)
    for second in range(8, 68):
        recorder.add(pulse(second, 0.1))
    recorder.close()
    return path


def test_it_is_paused_and_wound_forward_and_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        replay = Replay(numbered(tmp_path / "r.jsonl"))
        came: list[Any] = []
        task = asyncio.create_task(replay.run(came.append))

        async def until(at: float) -> None:
            await asyncio.to_thread(wait_until, f"it to be at {at}", lambda: replay.at == at, 10)

        replay.pause()
        await until(NOW)
        replay.seek(20)
        await until(NOW + 20)
        assert len(came) == 2 + 13
        await asyncio.sleep(0.1)
        assert replay.at == NOW + 20, "it stands still"
        came.clear()
        replay.seek(-10)
        await until(NOW + 10)
        assert isinstance(came[0], InspectorHello)
        assert isinstance(came[1], StateSnapshot)
        assert len(came) == 2 + 3
        replay.seek(1000)
        await task
        assert replay.ended
        came.clear()
        replay.pause()
        replay.seek(-1)
        task = asyncio.create_task(replay.run(came.append))
        await task
        assert isinstance(came[0], InspectorHello)
        assert isinstance(came[-1], Lost)

    asyncio.run(scenario())
