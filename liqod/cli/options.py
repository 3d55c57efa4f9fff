"""Options that several commands have, so that each means the same everywhere."""

from pathlib import Path
from typing import Annotated

import typer

from liqod.cli import completion

Kubeconfig = Annotated[
    Path | None, typer.Option(help="Kubeconfig of this cluster.", show_default="usual places")
]
Context = Annotated[str, typer.Option(help="Context in that kubeconfig.", show_default="current")]
LiqoNamespace = Annotated[str, typer.Option(help="Namespace that liqod was installed into.")]
Timeout = Annotated[float, typer.Option(help="Seconds to wait at the most.", min=0.1)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before deleting.")]
Socket = Annotated[
    Path | None, typer.Option(help="The daemon's socket.", show_default="usual folders")
]
ClusterId = Annotated[str, typer.Option(help="Of several daemons here that of this cluster.")]
Output = Annotated[str, typer.Option("--output", "-o", help="text, json or yaml.")]
Get = Annotated[str, typer.Option("--get", help="Print one value only, such as a.b.0.c.")]
CredentialFile = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", help="File to write, for its owner only.", show_default="print it"
    ),
]
OwnFile = Annotated[
    bool,
    typer.Option(
        "--own-remote-kubeconfig",
        help="That file is your own: the programs and files that it names may be used.",
    ),
]
PeerId = Annotated[
    str,
    typer.Argument(metavar="PEER", help="The peer's cluster id.", autocompletion=completion.peers),
]
OnePeer = Annotated[
    str, typer.Argument(metavar="PEER", help="Of one peer only.", autocompletion=completion.peers)
]
TenantName = Annotated[
    str,
    typer.Argument(
        metavar="PEER", help="The consumer's cluster id.", autocompletion=completion.tenants
    ),
]
NamespaceName = Annotated[
    str,
    typer.Argument(
        metavar="NAMESPACE", help="The namespace to spread.", autocompletion=completion.namespaces
    ),
]
OffloadedNamespace = Annotated[
    str,
    typer.Argument(
        metavar="NAMESPACE",
        help="The namespace to bring back.",
        autocompletion=completion.offloaded,
    ),
]
SliceName = Annotated[
    str,
    typer.Argument(metavar="SLICE", help="The resource slice.", autocompletion=completion.slices),
]
RemoteId = Annotated[str, typer.Option(help="The consumer whose slice it is.")]
MetAt = Annotated[
    list[str] | None,
    typer.Option(
        "--address",
        help="Where this cluster's daemon is reached, as host:port.",
        show_default="what it says of itself",
    ),
]
