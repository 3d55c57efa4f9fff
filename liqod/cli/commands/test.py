"""``test network``: pods of this cluster and of its peers try each other."""

from typing import Annotated

import msgspec
import typer

from liqod.apimachinery import labels
from liqod.cli import output, presence
from liqod.cli.completion import peers as known_peers
from liqod.cli.frame import OUTPUTS, Frame, command
from liqod.cli.options import LiqoNamespace
from liqod.cluster.ownid import cluster_id
from liqod.errors import Misuse
from liqod.procedures.testnetwork import NetworkTestOptions, test_network
from liqod.procedures.testplan import IMAGE, NetworkTestRow, passed

OUTSIDE = "1.1.1.1:443"


@command(timeout=300.0, outputs=OUTPUTS)
async def network(
    frame: Frame,
    peers: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PEER]...",
            help="Peers to try; all that lend to this cluster if none is named.",
            autocompletion=known_peers,
        ),
    ] = None,
    image: Annotated[str, typer.Option(help="Image of the pods; it has busybox.")] = IMAGE,
    nodes: Annotated[int, typer.Option(help="Nodes here to try from, at the most.", min=1)] = 3,
    outside: Annotated[
        str, typer.Option(help="HOST:PORT outside of the clusters to try; '' for none.")
    ] = OUTSIDE,
    ready: Annotated[float, typer.Option(help="Seconds for a pod to start.", min=1.0)] = 60.0,
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Try the network: pod to pod, to service, from nodes, to node ports and outside, each way.

    It brings a namespace with pods of its own to this cluster and to the peers, and takes all of it
    away again, also when it is interrupted. It ends with status 1 where anything fails.

    \b
    Examples:
      liqod test network
      liqod test network milan --outside ''
      liqod test network -o json
    """
    if outside and not outside.rpartition(":")[2].isdecimal():
        raise Misuse("--outside is HOST:PORT")
    async with frame.client() as client:
        asked = NetworkTestOptions(
            cluster=await cluster_id(client, liqo_namespace),
            peers=tuple(peers or ()),
            nodes=nodes,
            image=image,
            outside=outside,
            ready=ready,
        )
        async with presence.daemon(client, liqo_namespace, frame.progress, frame.timings):
            found = await test_network(client, asked, frame.progress)
    if not frame.show(msgspec.to_builtins(found)):
        frame.print_text(_table(found), lines=True)
    if not passed(found):
        failed = sum(row.verdict == "failed" for row in found)
        frame.die(f"{failed} of {len(found)} failed" if failed else "nothing could be tried")


def _table(found: list[NetworkTestRow]) -> str:
    rows = [[row.source, row.target, row.verdict, row.detail] for row in found]
    return output.table(rows, ["FROM", "TO", "RESULT", "DETAIL"], width=output.width())
