"""The verbs that look into a running daemon: ``events``, ``tasks`` and ``history``."""

import time
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any

import msgspec
import typer

from liqod.cli import common, inspector, picking, terminal
from liqod.errors import ConfigError
from liqod.inspect.protocol import GetHistory, GetTasks, Metrics, Series, Tasks, Update
from liqod.model.text import printable
from liqod.model.view.figures import bars, counted, measured, span
from liqod.model.view.rows import Event


def events(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as they happen.")] = False,
    peer: Annotated[str, typer.Option(help="Of one peer only.")] = "",
    last: Annotated[int, typer.Option(help="How many past ones.", min=0, max=1000)] = 50,
    socket: common.Socket = None,
    cluster_id: common.ClusterId = "",
    output: common.Output = "text",
    get: picking.Get = "",
) -> None:
    """What the daemon decided, one line each.

    With `-o json` each is an object on a line of its own.

    \b
    Examples:
      liqod events --follow
      liqod events --peer milan -o json --last 200
    """
    common.check_output(output, "text", "json")

    async def main(progress: common.Progress) -> None:
        async with inspector.connect(socket, cluster_id) as looker:
            first, state = await looker.snapshot(events=last)
            past = [event for event in first.events if peer in ("", event.peer)]
            if peer and not past and not follow and peer not in state.peers:
                raise ConfigError(f"there is no peer {peer}")
            _tell(past, output, get)
            while follow:
                message = await looker.receive()
                if isinstance(message, Update):
                    seen = (each for each in message.delta.events if peer in ("", each.peer))
                    _tell(seen, output, get)

    common.run(main, timeout=None if follow else 30.0, quiet=follow)


def _tell(found: Iterable[Event], output: str, get: str) -> None:
    for event in found:
        if get:
            picking.show(event, output, get)
        elif output == "json":
            terminal.say_json(msgspec.json.encode(event).decode())
        else:
            terminal.say(line(event, time.time()), lines=True)
    terminal.flush()


def line(event: Event, now: float) -> str:
    """An event as a line: time (with the day where that is not today), peer, topic and facts."""
    when, today = datetime.fromtimestamp(event.at), datetime.fromtimestamp(now)
    at = when.strftime("%H:%M:%S" if when.date() == today.date() else "%Y-%m-%d %H:%M:%S")
    facts = " ".join(f"{key}={_brief(value)}" for key, value in event.facts.items() if value != "")
    return printable(f"{at} {event.peer or '-':15} {event.topic:20} {facts}".rstrip())


def _brief(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def tasks(
    peer: Annotated[str, typer.Option(help="Of one peer only.")] = "",
    socket: common.Socket = None,
    cluster_id: common.ClusterId = "",
    output: common.Output = "text",
    get: picking.Get = "",
) -> None:
    """What the daemon is at, and what each task waits for.

    Below them are the queues, the watches and the requests. How long a task has waited is known
    from the second look on.

    \b
    Examples:
      liqod tasks
      liqod tasks --peer milan
      liqod tasks --get lag.1
    """
    common.check_output(output, "text", "json", "yaml")

    async def main(progress: common.Progress) -> Tasks:
        async with inspector.connect(socket, cluster_id) as looker:
            _, state = await looker.snapshot()
            if peer and peer not in state.peers:
                raise ConfigError(f"there is no peer {peer}")
            found = await looker.ask(GetTasks(id=1), Tasks)
            return _of_peer(found, peer, state.peers[peer].server) if peer else found

    found = common.run(main, timeout=30.0)
    if not picking.show(found, output, get):
        terminal.say(_tree(found), lines=True)


def _of_peer(found: Tasks, peer: str, server: str) -> Tasks:
    """What of it is for one peer, whose API server is at that URL."""
    return msgspec.structs.replace(
        found,
        tasks=tuple(each for each in found.tasks if each.peer == peer),
        queues=tuple(each for each in found.queues if each.peer == peer),
        watches=tuple(each for each in found.watches if each.server == server),
        traffic=tuple(each for each in found.traffic if each.server == server),
    )


def _tree(found: Tasks) -> str:
    least = min((task.depth for task in found.tasks), default=0)
    rows = [
        [
            "  " * (task.depth - least) + task.name.removeprefix("liqod."),
            task.peer or "-",
            "-" if task.waiting is None else span(task.waiting),
            task.waits or "runs",
        ]
        for task in found.tasks
    ]
    parts = [common.table(rows, ["TASK", "PEER", "FOR", "WAITS IN"], width=common.width())]
    busy = [each for each in found.queues if each.waiting or each.busy]
    if busy:
        cells = [[q.name, q.peer or "-", str(q.waiting), str(q.busy), span(q.oldest)] for q in busy]
        parts.append(common.table(cells, ["QUEUE", "PEER", "WAITING", "BUSY", "OVERDUE"]))
    rows = [
        [
            *(each.kind, each.namespace or "-", each.server, str(each.objects)),
            "-" if each.heard is None else span(each.heard),
            each.problem or each.suspect or "-",
        ]
        for each in found.watches
    ]
    header = ["WATCH", "NAMESPACE", "SERVER", "OBJECTS", "HEARD", "PROBLEM"]
    parts.append(common.table(rows, header, width=common.width()))
    rows = [
        [each.server, str(each.active), str(each.waiting), str(each.total)]
        for each in found.traffic
    ]
    parts.append(common.table(rows, ["REQUESTS TO", "NOW", "WAITING", "IN ALL"]))
    late, worst = found.lag
    parts.append(
        f"{counted(len(found.tasks), 'task')}; the loop was {1000 * late:.0f} ms late in the last "
        f"second, {1000 * worst:.0f} ms at most in the last minute"
    )
    return "\n\n".join(parts)


def history(
    metric: Annotated[
        str, typer.Argument(metavar="METRIC", help="Without one: which there are.")
    ] = "",
    peer: Annotated[str, typer.Option(help="Of a peer; otherwise the daemon's own.")] = "",
    since: Annotated[float, typer.Option(help="Seconds back: at most 86400.", min=1)] = 60.0,
    socket: common.Socket = None,
    cluster_id: common.ClusterId = "",
    output: common.Output = "text",
    get: picking.Get = "",
) -> None:
    """Past values of a metric.

    By the second for ten minutes, by the minute for a day.

    \b
    Examples:
      liqod history
      liqod history rtt --peer milan
      liqod history rss --since 86400 -o json
    """
    common.check_output(output, "text", "json", "yaml")
    ask = GetHistory(id=1, metric=metric, peer=peer, span=since)
    expected: type[Series | Metrics] = Series if metric else Metrics
    found = inspector.fetch(socket, cluster_id, ask, expected)
    if picking.show(found, output, get):
        return
    if isinstance(found, Metrics):
        rows = [[name, "peer", text] for name, text in found.peer.items()]
        rows += [[name, "daemon", text] for name, text in found.daemon.items()]
        terminal.say(common.table(rows, ["METRIC", "OF", "MEANING"]), lines=True)
    else:
        terminal.say(_graph(found), lines=True)


def _graph(series: Series) -> str:
    """A line of blocks, and the figures that matter."""
    known = [value for value in series.values if value is not None]
    if not known:
        return f"{series.metric}: nothing was measured in that time"
    room = max((common.width() or 80) - 2, 20)
    newest = series.values[-room:]
    low, high = min(known), max(known)
    whose = f" of {series.peer}" if series.peer else ""
    unit = series.unit
    ago = span(time.time() - series.end)
    return (
        f"{series.metric}{whose}, each {span(series.step)}, newest {ago} ago\n"
        f"{bars(newest, low, high)}\n"
        f"least {measured(low, unit)}, most {measured(high, unit)}, "
        f"mean {measured(sum(known) / len(known), unit)}, "
        f"now {'-' if newest[-1] is None else measured(newest[-1], unit)}"
    )
