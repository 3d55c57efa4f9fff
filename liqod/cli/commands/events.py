"""``events``: show decisions of the daemon."""

import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated

import msgspec
import trio
import typer

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import EVENTS, NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.cli import terminal
from liqod.cli.frame import Frame, command, warn
from liqod.errors import ConfigError
from liqod.inspect.protocol import Update
from liqod.kube import times
from liqod.kube.client import Selection
from liqod.model.objects import partial
from liqod.model.text import printable
from liqod.model.view.rows import EventRow

AGAIN = 2.0
"""Seconds between two reads of the Events of objects."""


@command(within=30.0, daemon=True, outputs=("text", "json"), get=True)
async def events(
    frame: Frame,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as they happen.")] = False,
    peer: Annotated[str, typer.Option(help="Of one peer only.")] = "",
    last: Annotated[int, typer.Option(help="How many past ones.", min=0, max=1000)] = 50,
) -> None:
    """Show decisions of the daemon, one line each.

    With `-o json` each is an object on a line of its own. Where the daemon does not run on this
    machine, it is what it wrote as Events of objects, and the exit status is 1.

    \b
    Examples:
      liqod events --follow
      liqod events --peer milan -o json --last 200
    """
    if follow:
        frame.follow()
    from liqod.cli.inspectorclient import NoDaemon  # brings the websocket

    try:
        await _by_daemon(frame, follow, peer, last)
    except NoDaemon as error:
        if frame.socket is not None or frame.cluster_id:
            raise
        warn(f"{error}; these are the Events of objects")
        await _by_objects(frame, follow, peer, last)
        raise SystemExit(1) from None


async def _by_daemon(frame: Frame, follow: bool, peer: str, last: int) -> None:
    async with frame.daemon() as viewer:
        first, state = await viewer.snapshot(events=last)
        past = [event for event in first.events if peer in ("", event.peer)]
        if peer and not past and not follow and peer not in state.peers:
            raise ConfigError(f"there is no peer {peer}; `liqod status` lists them")
        _print(frame, past)
        while follow:
            message = await viewer.receive()
            if isinstance(message, Update):
                _print(frame, (each for each in message.delta.events if peer in ("", each.peer)))


async def _by_objects(frame: Frame, follow: bool, peer: str, last: int) -> None:
    """Shows what the daemon wrote as Events of objects; Kubernetes keeps them for an hour."""
    async with frame.client() as client:
        tenants = f"{labels.TENANT_NAMESPACE}={labels.TRUE}"
        chosen = Selection(labels=tenants, metadata_only=True)
        spaces = await client.list(NAMESPACES, chosen, decode=Partial)
        peers = {
            each.metadata.name: each.metadata.labels.get(labels.REMOTE_CLUSTER_ID, "")
            for each in spaces
        }
        seen: set[str] = set()
        while True:
            chosen = Selection(fields="source=liqod")
            found = await client.list(EVENTS, chosen, decode=partial.Event)
            new = [_shown(each, peers) for each in found if each.metadata.uid not in seen]
            seen = {each.metadata.uid for each in found}
            shown = (each for each in new if peer in ("", each.peer))
            newest = sorted(shown, key=lambda one: one.at)
            _print(frame, newest[-last:] if last else ())
            if not follow:
                return
            last = len(seen) + 1
            await trio.sleep(AGAIN)


def _shown(written: partial.Event, peers: Mapping[str, str]) -> EventRow:
    """An Event of an object, as those of the daemon are shown.

    Args:
        written: as the daemon wrote it.
        peers: the peers' ids by their tenant namespaces.
    """
    about = written.involved_object
    at = written.last_timestamp or written.metadata.creation_timestamp
    whose = peers.get(about.namespace, about.name if about.name in peers.values() else "")
    facts = {
        "object": f"{about.kind} {about.namespace}/{about.name}".replace(" /", " "),
        "message": written.message,
    }
    when = times.seconds(at) if at else 0.0
    return EventRow(0, when, written.reason, whose, facts)


def _print(frame: Frame, found: Iterable[EventRow]) -> None:
    for event in found:
        if frame.get:
            frame.show(event)
        elif frame.output == "json":
            terminal.print_json(msgspec.json.encode(event).decode())
        else:
            terminal.print_text(line(event, time.time()), lines=True)
    terminal.flush()


def line(event: EventRow, now: float) -> str:
    """An event as a line: time (with the day where that is not today), peer, topic and facts."""
    when, today = datetime.fromtimestamp(event.at), datetime.fromtimestamp(now)
    at = when.strftime("%H:%M:%S" if when.date() == today.date() else "%Y-%m-%d %H:%M:%S")
    return printable(f"{at} {event.peer or '-':15} {event.topic:20} {event.text}".rstrip())
