"""``network status``: the networks that are joined with peers, from the objects alone."""

from typing import Annotated

import typer

from liqod.cli import completion, output
from liqod.cli.frame import OUTPUTS, Frame, command
from liqod.procedures import networkstatus
from liqod.procedures.networkstatus import PeerStatus

Peer = Annotated[
    str,
    typer.Argument(metavar="[PEER]", help="One peer only.", autocompletion=completion.peers),
]
HEADER = ["PEER", "STATE", "RTT", "SIDE", "TUNNEL", "ENDPOINTS", "THEIR RANGES", "SEEN HERE AS"]


@command(timeout=30.0, outputs=OUTPUTS, get=True)
async def status(frame: Frame, peer: Peer = "") -> None:
    """The networks that are joined with peers: tunnels, addresses, and what is in the way.

    It needs no daemon. The state is the tunnel's as this cluster's gateway last wrote it.

    \b
    Examples:
      liqod network status
      liqod network status milan
      liqod network status -o json
    """
    async with frame.client() as client:
        found = await networkstatus.look(client, peer)
    if not frame.show(found):
        frame.say(_text(found), lines=True)


def _text(found: list[PeerStatus]) -> str:
    if not found:
        return "there are no peers"
    rows = [_row(each) for each in found]
    lines = [output.table(rows, HEADER)]
    for each in found:
        lines += [f"{each.peer}: {problem}" for problem in each.problems]
    return "\n".join(lines)


def _row(one: PeerStatus) -> list[str]:
    return [
        one.peer,
        one.state or "-",
        one.latency or "-",
        one.side or "-",
        one.backend or "-",
        ", ".join(one.endpoints) or "-",
        ", ".join(one.ranges) or "-",
        ", ".join(one.aliases) or "-",
    ]
