"""What several clusters' gateways stand on in network namespaces, and the wires between them."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import permutations
from pathlib import Path

import msgspec
import trio

from liqod.network.dataplane.names import PeerNames
from liqod.plugins.network import processes, uapi
from tests.netns.lab import Lab, run


class Ground(msgspec.Struct, frozen=True):
    """Where a test's clusters are.

    Attributes:
        word: begins the names of all its namespaces.
        ids: of its clusters.
        lab: makes namespaces and pods.
        short: a folder for sockets, whose names have an end that pytest's own folders use up.
    """

    word: str
    ids: tuple[str, ...]
    lab: Lab
    short: Path


@asynccontextmanager
async def ground(folder: Path, letters: str, *more: str) -> AsyncIterator[Ground]:
    """Room for some clusters; nothing of them is left after the block.

    Args:
        folder: for files.
        letters: an end of an id for each cluster.
        more: ends of further ids that own namespaces of peers.
    """
    word = f"t{secrets.token_hex(2)}"
    short = Path("/run") / f"liqod-{word}"
    short.mkdir(mode=0o700)
    made = Ground(word, tuple(f"{word}{each}" for each in letters), Lab(folder, word), short)
    try:
        yield made
    finally:
        await end_processes(short)
        made.lab.close()
        shutil.rmtree(short)
        forget((*made.ids, *(f"{word}{each}" for each in more)))


async def end_processes(folder: Path) -> None:
    """End the tunnels' processes of machines whose folders are in that one."""
    with trio.CancelScope(shield=True):
        for control in await trio.Path(folder).glob("*/tunnels*.socket"):
            process = await uapi.process(Path(control))
            if process is not None:
                await processes.end(process, named=str(control))


def forget(ids: Iterable[str]) -> None:
    """Takes away the namespaces that clusters have for each other, where they are there."""
    for own, peer in permutations(ids, 2):
        run("ip", "netns", "delete", PeerNames(own, peer).namespace, check=False)
