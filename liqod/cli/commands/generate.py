"""``generate``: kubeconfigs for others, with which one consumer may peer, or one node be set up."""

from typing import Annotated

import msgspec
import typer

from liqod.apimachinery import labels
from liqod.cli import files, terminal
from liqod.cli.clusters import AGENT
from liqod.cli.frame import Frame, command
from liqod.cli.options import CredentialFile, LiqoNamespace
from liqod.cluster.ownid import own_cluster_id
from liqod.errors import ConfigError
from liqod.install import daemonkubeconfig
from liqod.kube.client import Client
from liqod.kube.credentials import credentials
from liqod.procedures import peeringusers
from liqod.provider.timings import ORDINARY


@command(timeout=60.0)
async def peering_user(
    frame: Frame,
    consumer_cluster_id: Annotated[str, typer.Option(help="The consumer that is let in.")],
    server: Annotated[
        str,
        typer.Option(help="This API server as it reaches it.", show_default="as in the kubeconfig"),
    ] = "",
    output: CredentialFile = None,
    lifetime: Annotated[
        float, typer.Option(help="Seconds for which it is good.", min=600)
    ] = ORDINARY.peering_user_life,
    liqoctl: Annotated[
        bool, typer.Option("--liqoctl", help="Grant what liqoctl needs beyond liqod's own verbs.")
    ] = False,
    replace_living: Annotated[
        bool,
        typer.Option(
            "--replace-living",
            help="Take a consumer with names as in Liqo though certificates for them were revoked,"
            " live, and are good again by this.",
        ),
    ] = False,
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Make a kubeconfig with which one consumer can peer with this cluster, and no more.

    It is good for an hour, and reads only once the consumer was accepted. For a consumer that was
    revoked it takes that back. Without --output it is printed.

    \b
    Examples:
      liqod generate peering-user --consumer-cluster-id rome --output rome-at-milan.kubeconfig
    """
    files.check_place(output)
    found = await credentials.load(frame.kubeconfig, frame.context or None)
    if found.ca is None and found.insecure:
        raise ConfigError("the kubeconfig has no certificate authority to hand on")
    async with Client(found, user_agent=AGENT) as client:
        frame.progress(f"make a peering user for {consumer_cluster_id}")
        made = await peeringusers.generate(
            client,
            consumer_cluster_id,
            here=await own_cluster_id(client, liqo_namespace),
            server=server or found.server,
            ca=found.ca or b"",
            namespace=liqo_namespace,
            list_secrets=liqoctl,
            lifetime=lifetime,
            replace_living=replace_living,
        )
    frame.hand_out(made, output)
    if output is not None:
        terminal.note(f"next, at {consumer_cluster_id}: liqod peer --remote-kubeconfig {output}")


@command(timeout=60.0)
async def node(
    frame: Frame,
    name: Annotated[str, typer.Argument(metavar="NODE", help="Name of the Node.")],
    server: Annotated[
        str,
        typer.Option(
            help="The API server as the node reaches it.", show_default="as in the kubeconfig"
        ),
    ] = "",
    output: CredentialFile = None,
    lifetime: Annotated[
        float, typer.Option(help="Seconds for which it is good.", min=600)
    ] = daemonkubeconfig.NODES_TOKEN,
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Make a kubeconfig for `liqod node` on a machine; it is that node's alone, and dies with it.

    A DaemonSet needs none. Without --output it is printed.

    \b
    Examples:
      liqod generate node worker-1 --output worker-1.kubeconfig
    """
    files.check_place(output)
    found = await credentials.load(frame.kubeconfig, frame.context or None)
    async with Client(found, user_agent=AGENT) as client:
        frame.progress(f"make a token for {name}")
        cluster_id = await own_cluster_id(client, liqo_namespace)
        reached = msgspec.structs.replace(found, server=server) if server else found
        made = await daemonkubeconfig.node_kubeconfig(
            client, reached, liqo_namespace, cluster_id, name, lifetime
        )
    frame.hand_out(made, output)
