"""``history``: past values of a metric."""

import time
from typing import Annotated

import typer

from liqod.cli import output
from liqod.cli.frame import OUTPUTS, Frame, command
from liqod.inspect.protocol import GetHistory, Metrics, Series
from liqod.model.view.figures import bars, measured, span


@command(within=30.0, daemon=True, outputs=OUTPUTS, get=True)
async def history(
    frame: Frame,
    metric: Annotated[
        str, typer.Argument(metavar="METRIC", help="Without one: which there are.")
    ] = "",
    peer: Annotated[str, typer.Option(help="Of a peer; otherwise the daemon's own.")] = "",
    since: Annotated[float, typer.Option(help="Seconds back: at most 86400.", min=1)] = 60.0,
) -> None:
    """Past values of a metric.

    By the second for ten minutes, by the minute for a day.

    \b
    Examples:
      liqod history
      liqod history rtt --peer milan
      liqod history rss --since 86400 -o json
    """
    expected: type[Series | Metrics] = Series if metric else Metrics
    async with frame.daemon() as viewer:
        ask = GetHistory(id=viewer.number(), metric=metric, peer=peer, span=since)
        found = await viewer.request(ask, expected)
    if frame.show(found):
        return
    if isinstance(found, Metrics):
        rows = [[name, "peer", text] for name, text in found.peer.items()]
        rows += [[name, "daemon", text] for name, text in found.daemon.items()]
        frame.print_text(output.table(rows, ["METRIC", "OF", "MEANING"]), lines=True)
    else:
        frame.print_text(_graph(found), lines=True)


def _graph(series: Series) -> str:
    """A line of blocks, and the figures that matter."""
    known = [value for value in series.values if value is not None]
    if not known:
        return f"{series.metric}: nothing was measured in that time"
    room = max((output.width() or 80) - 2, 20)
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
