"""The version of a peer's API server: read when it answers anew, and every hour.

Nothing depends on it but its display: two versions explain which fields cross and which do not.
"""

from typing import NoReturn

import msgspec
import trio

from liqod.consumer.link import PeerLink
from liqod.consumer.remote import Remote
from liqod.consumer.remotes import Remotes
from liqod.errors import LiqodError
from liqod.model.peering.intervals import PEER_VERSION_EVERY
from liqod.runtime.gather import either

UNTOLD = 600.0
"""Seconds until the next read where nothing was reported."""
LONGEST = 64
"""Characters of a version that are kept: the peer may send anything."""


class Version(msgspec.Struct, frozen=True, rename="camel"):
    """The part of the answer to ``/version`` that is used."""

    git_version: str = ""


async def follow(
    link: PeerLink,
    remotes: Remotes,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Keep ``link.version`` until cancelled; the known value stays where it cannot be read."""
    task_status.started()

    def seen() -> tuple[bool, Remote | None]:
        return link.up and link.probed, remotes.control() or remotes.any_slice()

    while True:
        up, remote = before = seen()
        told = await _read(remote) if up and remote is not None else ""
        link.version = told or link.version
        with trio.move_on_after(PEER_VERSION_EVERY if told else UNTOLD):
            while seen() == before:
                await either(link.wait_changed, remotes.changed)


async def _read(remote: Remote) -> str:
    """The version; empty where the peer does not report it."""
    try:
        answer = await remote.client.raw("GET", "/version")
        return msgspec.json.decode(answer.body, type=Version).git_version[:LONGEST]
    except (LiqodError, msgspec.DecodeError, UnicodeError, RecursionError):
        return ""
