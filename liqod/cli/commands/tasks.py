"""``tasks``: show the daemon's tasks, and what each waits for."""

from typing import Annotated

import msgspec
import typer

from liqod.cli import output
from liqod.cli.frame import OUTPUTS, Frame, command
from liqod.errors import ConfigError
from liqod.inspect.protocol import GetTasks, Tasks
from liqod.model.view.figures import counted, span


@command(within=30.0, daemon=True, outputs=OUTPUTS, get=True)
async def tasks(
    frame: Frame,
    peer: Annotated[str, typer.Option(help="Of one peer only.")] = "",
) -> None:
    """Show the daemon's tasks, and what each waits for.

    Below them are the queues, the watches and the requests. How long a task has waited is known
    from the second look on.

    \b
    Examples:
      liqod tasks
      liqod tasks --peer milan
      liqod tasks --get lag.1
    """
    async with frame.daemon() as viewer:
        _, state = await viewer.snapshot()
        if peer and peer not in state.peers:
            raise ConfigError(f"there is no peer {peer}; `liqod status` lists them")
        found = await viewer.request(GetTasks(id=viewer.number()), Tasks)
        if peer:
            found = _of_peer(found, peer, state.peers[peer].server)
    if not frame.show(found):
        frame.print_text(_tree(found), lines=True)


def _of_peer(found: Tasks, peer: str, server: str) -> Tasks:
    """The part that is for one peer, whose API server is at that URL."""
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
    parts = [output.table(rows, ["TASK", "PEER", "FOR", "WAITS IN"], width=output.width())]
    busy = [each for each in found.queues if each.waiting or each.busy]
    if busy:
        cells = [[q.name, q.peer or "-", str(q.waiting), str(q.busy), span(q.oldest)] for q in busy]
        parts.append(output.table(cells, ["QUEUE", "PEER", "WAITING", "BUSY", "OVERDUE"]))
    rows = [
        [
            *(each.kind, each.namespace or "-", each.server, str(each.objects)),
            "-" if each.heard is None else span(each.heard),
            each.problem or each.suspect or "-",
        ]
        for each in found.watches
    ]
    header = ["WATCH", "NAMESPACE", "SERVER", "OBJECTS", "HEARD", "PROBLEM"]
    parts.append(output.table(rows, header, width=output.width()))
    rows = [
        [each.server, str(each.active), str(each.waiting), str(each.total)]
        for each in found.traffic
    ]
    parts.append(output.table(rows, ["REQUESTS TO", "NOW", "WAITING", "IN ALL"]))
    late, worst = found.lag
    parts.append(
        f"{counted(len(found.tasks), 'task')}; the loop was {1000 * late:.0f} ms late in the last "
        f"second, {1000 * worst:.0f} ms at most in the last minute"
    )
    return "\n\n".join(parts)
