"""``events``: what the daemon decided."""

import time
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

import msgspec
import typer

from liqod.cli import terminal
from liqod.cli.frame import Frame, command
from liqod.errors import ConfigError
from liqod.inspect.protocol import Update
from liqod.model.text import printable
from liqod.model.view.eventtext import facts
from liqod.model.view.rows import Event


@command(within=30.0, daemon=True, outputs=("text", "json"), get=True)
async def events(
    frame: Frame,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as they happen.")] = False,
    peer: Annotated[str, typer.Option(help="Of one peer only.")] = "",
    last: Annotated[int, typer.Option(help="How many past ones.", min=0, max=1000)] = 50,
) -> None:
    """What the daemon decided, one line each.

    With `-o json` each is an object on a line of its own.

    \b
    Examples:
      liqod events --follow
      liqod events --peer milan -o json --last 200
    """
    if follow:
        frame.follow()
    async with frame.daemon() as looker:
        first, state = await looker.snapshot(events=last)
        past = [event for event in first.events if peer in ("", event.peer)]
        if peer and not past and not follow and peer not in state.peers:
            raise ConfigError(f"there is no peer {peer}")
        _tell(frame, past)
        while follow:
            message = await looker.receive()
            if isinstance(message, Update):
                _tell(frame, (each for each in message.delta.events if peer in ("", each.peer)))


def _tell(frame: Frame, found: Iterable[Event]) -> None:
    for event in found:
        if frame.get:
            frame.show(event)
        elif frame.output == "json":
            terminal.say_json(msgspec.json.encode(event).decode())
        else:
            terminal.say(line(event, time.time()), lines=True)
    terminal.flush()


def line(event: Event, now: float) -> str:
    """An event as a line: time (with the day where that is not today), peer, topic and facts."""
    when, today = datetime.fromtimestamp(event.at), datetime.fromtimestamp(now)
    at = when.strftime("%H:%M:%S" if when.date() == today.date() else "%Y-%m-%d %H:%M:%S")
    return printable(f"{at} {event.peer or '-':15} {event.topic:20} {facts(event)}".rstrip())
