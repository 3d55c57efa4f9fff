"""One run in a real terminal: peers appear, one dies and is named, it comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.viewer.scenes import federation, offload, peer
from tests.viewer.terminal import Terminal, line_of, top

pytestmark = [pytest.mark.viewer, pytest.mark.usefixtures("viewers")]

NAMED_WITHIN = 5.0
"""Seconds after which the view is to name a peer that died; asserted with factor two."""


async def test_the_view_follows_peers_that_come_die_and_come_back(tmp_path: Path) -> None:
    async with federation(tmp_path) as (rome, milan, turin):
        screen = Terminal(tmp_path, top("--socket", str(rome.daemon.inspector)))
        try:
            await screen.until(lambda text: "no peers yet" in text)
            await peer(rome, milan)
            await peer(rome, turin)
            await screen.until(lambda text: "● " in line_of(text, "milan"))
            await screen.until(lambda text: "✓ all is well: 2 peers" in text)
            await offload(rome, "shop")

            await milan.cluster.stop()
            took = await screen.until(
                lambda text: (
                    any(mark in line_of(text, "milan") for mark in "✗◌")
                    and "milan" in text.splitlines()[1]
                )
            )
            print(f"the view named a peer that died after {took:.1f} s")
            assert took < 2 * NAMED_WITHIN
            assert "●" in line_of(screen.text(), "turin")

            await milan.cluster.start()
            await screen.until(lambda text: "✓ all is well: 2 peers" in text, 40)

            screen.press("Enter")
            await screen.until(lambda text: "[ladder]" in text)
            screen.press("Escape")
            await screen.until(lambda text: "[1 Peers]" in text)
            screen.press("q")
            await screen.until(lambda text: "ended with 0" in text)
        finally:
            screen.close()


@pytest.mark.top
async def test_the_view_outlives_the_daemon_and_says_so(tmp_path: Path) -> None:
    async with federation(tmp_path) as (rome, milan, _):
        await peer(rome, milan)
        screen = Terminal(tmp_path, top("--socket", str(rome.daemon.inspector)), (80, 24))
        try:
            await screen.until(lambda text: "all is well" in text)
            await rome.stop()
            await screen.until(lambda text: "shown is how it was" in text)
            assert "milan" in screen.text()
            await rome.start()
            await screen.until(lambda text: "all is well" in text and "1 restart seen" in text, 40)
        finally:
            screen.close()


@pytest.mark.top
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--screen", "nowhere"), "there is no screen nowhere; there are peers"),
        (("--url", "wss://localhost:1"), "--url needs --token-file"),
        (("--replay", "/dev/null"), "not a recording"),
    ],
)
async def test_what_cannot_be_says_what_can(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    screen = Terminal(tmp_path, top(*words))
    try:
        await screen.until(lambda text: "ended with 2" in text)
        assert said in screen.text()
    finally:
        screen.close()
