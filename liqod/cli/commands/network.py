"""``network status``: the networks that are joined with peers."""

from typing import Annotated

import typer
from msgspec.structs import replace

from liqod.apimachinery import labels
from liqod.cli import completion
from liqod.cli.frame import OUTPUTS, Frame, command, warn
from liqod.cli.networktext import render
from liqod.cli.options import LiqoNamespace
from liqod.cluster.ownid import cluster_uid, known_as
from liqod.errors import LiqodError
from liqod.procedures import networkstatus

Peer = Annotated[
    str,
    typer.Argument(metavar="[PEER]", help="One peer only.", autocompletion=completion.peers),
]


@command(timeout=30.0, daemon=True, outputs=OUTPUTS, get=True)
async def status(
    frame: Frame, peer: Peer = "", liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE
) -> None:
    """The networks that are joined with peers: tunnels, addresses, and what is in the way.

    It reads custom resources, so it works while the daemon is down: the state is the tunnel's as
    this cluster's gateway last wrote it. Where this cluster's daemon runs on this machine, round
    trip, loss, bytes, what the way carries and what was refused come from it, of this moment. With
    a PEER everything is shown. Where this cluster has several nodes, so are their routes to the
    gateway.

    \b
    Examples:
      liqod network status
      liqod network status milan
      liqod network status -o json
    """
    from liqod.cli import live  # brings the websocket, which other commands do without

    async with frame.client() as client:
        found = await networkstatus.look(client, peer, liqo_namespace)
        nodes = await networkstatus.nodes(client) if found else ()
        cluster = frame.cluster_id or await known_as(client, liqo_namespace)
        uid = "" if frame.cluster_id else await cluster_uid(client)
    try:
        known = await live.networks(frame.socket, cluster, uid)
        found = [replace(each, network=known.get(each.peer)) for each in found]
    except LiqodError as error:
        warn(str(error))
    if not frame.show([networkstatus.shown(each, nodes) for each in found]):
        frame.say(render(found, nodes, whole=bool(peer)), lines=True)
