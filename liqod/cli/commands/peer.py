"""``peer``: borrow from another cluster, or lend to one that invites to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from liqod.apimachinery import labels
from liqod.cli import meet, presence, terminal, typed
from liqod.cli.clusters import connect_there
from liqod.cli.frame import OUTPUTS, Frame, command
from liqod.cli.options import LiqoNamespace, OwnFile
from liqod.errors import Misuse
from liqod.kube.client import Client
from liqod.procedures import networkobjects, overcommit, slicenodes, spreadwarning
from liqod.procedures.resourcerequest import ResourceRequest

if TYPE_CHECKING:
    from liqod.procedures.networkjoin import Joining
    from liqod.procedures.relaying import Relay

Expected = Annotated[
    str, typer.Option(help="The id that the provider must have.", show_default="any")
]
Replaced = Annotated[
    bool,
    typer.Option("--replace", help="The provider of that id was moved or made anew: this is it."),
]
Others = Annotated[
    list[str] | None, typer.Option(help="Another resource to ask for, as name=quantity.")
]
SliceName = Annotated[
    str, typer.Option(help="Name of the slice and of its node.", show_default="the provider")
]
Class = Annotated[str, typer.Option(help="Class of the slice.")]
Parts = Annotated[
    Literal["whole", "groups", "nodes"] | None,
    typer.Option(
        help="One node for the slice, one for each group of the provider's machines, or one for "
        "each machine.",
        show_default="as before, and first one",
    ),
]
NoNetwork = Annotated[
    bool, typer.Option("--networking-disabled", help="Leave the networks of both as they are.")
]
ServerAt = Annotated[
    networkobjects.Where,
    typer.Option("--gw-server-service-location", help="The side whose gateway is dialled."),
]
ServiceType = Annotated[
    networkobjects.ServiceType,
    typer.Option("--gw-server-service-type", help="How that gateway is exposed."),
]
ServerPort = Annotated[
    int,
    typer.Option(
        "--gw-server-service-port",
        min=0,
        max=65535,
        help="Its port, or the next that is free.",
        show_default="51840, websocket 443",
    ),
]
NodePort = Annotated[
    int,
    typer.Option(
        "--gw-server-service-nodeport",
        min=0,
        max=65535,
        help="Its port, this one.",
        show_default="any",
    ),
]
BalancerIp = Annotated[
    str,
    typer.Option(
        "--gw-server-service-loadbalancerip", help="An address of it.", show_default="the machine's"
    ),
]
ClientAddress = Annotated[
    str,
    typer.Option(
        "--gw-client-address", help="What the other side dials.", show_default="the address it gets"
    ),
]
ClientPort = Annotated[
    int,
    typer.Option(
        "--gw-client-port",
        min=0,
        max=65535,
        help="Likewise its port.",
        show_default="likewise",
    ),
]
Mtu = Annotated[int, typer.Option(help="MTU of the tunnel.", min=1280, max=9000)]
Tunnel = Annotated[
    str,
    typer.Option(
        help="What makes the tunnel, such as websocket where no UDP passes; "
        "`liqod plugins` has a list.",
        show_default="wireguard, or what both make",
    ),
]
ThroughTunnel = Annotated[
    bool,
    typer.Option("--in-band", help="Reach the provider's API server through the tunnel."),
]
ProxyUrl = Annotated[
    str, typer.Option(help="Reach it by this HTTP proxy.", show_default="directly")
]
RelayKubeconfig = Annotated[
    Path | None,
    typer.Option(help="Of a peer of both, by which the tunnel may go.", show_default="none"),
]
RemoteLiqoNamespace = Annotated[str, typer.Option(help="The same at the provider.")]


Whom = Annotated[
    str,
    typer.Argument(
        metavar="WHOM",
        help="An invitation (`-` reads it from standard input), or the id of a cluster that is "
        "seen or configured.",
        show_default=False,
    ),
]
TheirKubeconfig = Annotated[
    Path | None,
    typer.Option(help="The provider's, from `liqod generate peering-user` there."),
]
Lend = Annotated[
    bool,
    typer.Option("--yes", "-y", help="Lend what an invitation to borrow asks without being asked."),
]
Words = Annotated[
    str,
    typer.Option(help="The words that the other side shows; compared with those shown here."),
]


NOBODY = (
    "with whom? Say an invitation, the id of a cluster that is seen (`liqod discover`), or"
    " --remote-kubeconfig FILE"
)


@command(timeout=120.0, outputs=OUTPUTS)
async def peer(
    frame: Frame,
    whom: Whom = "",
    remote_kubeconfig: TheirKubeconfig = None,
    remote_context: Annotated[str, typer.Option(help="Context in that kubeconfig.")] = "",
    own_file: OwnFile = False,
    cpu: Annotated[str, typer.Option(help="CPUs to ask for.")] = "",
    memory: Annotated[str, typer.Option(help="Memory to ask for, such as 8Gi.")] = "",
    pods: Annotated[str, typer.Option(help="Pods to ask for.")] = "",
    resource: Others = None,
    resource_slice: SliceName = "",
    resource_slice_class: Class = "default",
    create_resource_slice: Annotated[bool, typer.Option(help="Ask for resources.")] = True,
    create_virtual_node: Annotated[bool, typer.Option(help="Make a virtual node.")] = True,
    virtual_nodes: Parts = None,
    networking_disabled: NoNetwork = False,
    gw_server_service_location: ServerAt = "Provider",
    gw_server_service_type: ServiceType = "LoadBalancer",
    gw_server_service_port: ServerPort = 0,
    gw_server_service_nodeport: NodePort = 0,
    gw_server_service_loadbalancerip: BalancerIp = "",
    gw_client_address: ClientAddress = "",
    gw_client_port: ClientPort = 0,
    mtu: Mtu = networkobjects.MTU,
    tunnel: Tunnel = "",
    relay_kubeconfig: RelayKubeconfig = None,
    relay_context: Annotated[str, typer.Option(help="Context in that kubeconfig.")] = "",
    in_band: ThroughTunnel = False,
    proxy_url: ProxyUrl = "",
    expect: Expected = "",
    replace: Replaced = False,
    words: Words = "",
    yes: Lend = False,
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
    remote_liqo_namespace: RemoteLiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Borrow from another cluster; ends when it is a Ready node. Or lend to one that invites.

    The networks are joined, too, so that pods reach each other, where both daemons have the rights
    and the tools for it. Where one has not, it says what is missing, and peers without.

    With an invitation, or the id of a cluster, the daemons of both meet, and this cluster's daemon
    asks: no kubeconfig is needed. Where a person has to agree there, this waits; the daemon goes on
    where it is stopped, and the same command waits again. Both sides show the same words, which two
    people compare where nothing else says who is there. With the provider's kubeconfig nobody has
    to be asked.

    An invitation of `liqod invite --borrow` asks this cluster to lend. Its daemon dials the other's
    and keeps that connection, by which the other one comes: nobody has to reach this cluster. The
    request is shown, and lent if somebody here, a policy or --yes says so: --cpu at most, say.

    --words goes on with the request that waits, as it is. Each cluster needs its daemon. Done
    again, it changes what is asked for or continues; a known provider must be where it was.

    \b
    Examples:
      liqod peer 'liqod://milan.example:6446/#v1.…'
      liqod peer - < invitation
      liqod peer 'liqod://rome.example:6446/#b1.…' --cpu 4
      liqod peer milan --cpu 4
      liqod peer milan --words copper-lantern-otter-plum
      liqod peer --remote-kubeconfig rome-at-milan.kubeconfig --cpu 4 --memory 8Gi
      liqod peer --remote-kubeconfig FILE --resource-slice gpus --resource nvidia.com/gpu=1
      liqod peer --remote-kubeconfig FILE --expect milan --replace
    """
    asked = ResourceRequest(
        name=typed.slice_name(resource_slice),
        class_name=resource_slice_class,
        resources=typed.quantities(cpu, memory, pods, resource or []),
        node=create_resource_slice and create_virtual_node,
        virtual_nodes=virtual_nodes or "",
    )
    how = networkobjects.NetworkOptions(
        server_at=gw_server_service_location,
        service_type=gw_server_service_type,
        port=gw_server_service_port,
        node_port=gw_server_service_nodeport,
        load_balancer_ip=gw_server_service_loadbalancerip,
        client_address=gw_client_address,
        client_port=gw_client_port,
        mtu=mtu,
        backend=tunnel,
    )
    _check_one_way(whom, remote_kubeconfig)
    if whom:
        more = {"--remote-context": remote_context, "--expect": expect, "--in-band": in_band}
        more |= {"--proxy-url": proxy_url, "--relay-kubeconfig": relay_kubeconfig}
        typed.only_for("--remote-kubeconfig", more | _not_met(asked, how, create_resource_slice))
        network = not networking_disabled
        request = meet.request_of(whom, asked, replace=replace, networking=network, words=words)
        await meet.have_met(frame, request, asked, words, liqo_namespace, yes=yes)
        return
    assert remote_kubeconfig is not None, "it is one of both"
    typed.only_for("whom, where two people compare", {"--words": words})
    typed.cluster(expect, "--expect")
    # Bring certificates and the networks, which those who meet do without.
    from liqod.procedures import kubeconfigpeering
    from liqod.procedures.inbandpeering import InBandOptions
    from liqod.procedures.networkjoin import Joining

    waiting = frame.progress, frame.timings
    async with (
        frame.client() as local,
        connect_there(remote_kubeconfig, remote_context, own=own_file) as remote,
        _relay(relay_kubeconfig, relay_context, own=own_file) as relay,
        presence.both(local, liqo_namespace, remote, remote_liqo_namespace, *waiting),
    ):
        joining = None if networking_disabled else Joining(how, frame.progress, relay)
        provider = await kubeconfigpeering.peer(
            *(local, remote, asked if create_resource_slice else None),
            progress=frame.progress,
            liqo=liqo_namespace,
            remote_liqo=remote_liqo_namespace,
            expected=expect,
            replace=replace,
            joining=joining,
            in_band=InBandOptions(requested=in_band, proxy_url=proxy_url),
            timings=frame.timings.peering,
        )
        await _report(frame, local, provider, asked, joining)


def _check_one_way(whom: str, remote_kubeconfig: Path | None) -> None:
    """Raises Misuse: nobody is named, or by both ways."""
    if whom and remote_kubeconfig is not None:
        raise Misuse("say whom, or --remote-kubeconfig, and not both")
    if not whom and remote_kubeconfig is None:
        raise Misuse(NOBODY)


def _not_met(
    asked: ResourceRequest, how: networkobjects.NetworkOptions, makes_slice: bool
) -> dict[str, bool]:
    """The options that daemons which meet do not pass on, and whether each says something.

    Args:
        asked: by those of the slice.
        how: by those of the network.
        makes_slice: whether a slice is to be made.
    """
    usual = networkobjects.NetworkOptions()
    network = {
        option: getattr(how, field) != getattr(usual, field)
        for option, field in (
            ("--mtu", "mtu"),
            ("--tunnel", "backend"),
            ("--gw-server-service-location", "server_at"),
            ("--gw-server-service-type", "service_type"),
            ("--gw-server-service-port", "port"),
            ("--gw-server-service-nodeport", "node_port"),
            ("--gw-server-service-loadbalancerip", "load_balancer_ip"),
            ("--gw-client-address", "client_address"),
            ("--gw-client-port", "client_port"),
        )
    }
    return network | {
        "--resource-slice-class": asked.class_name != ResourceRequest().class_name,
        "--no-create-resource-slice": not makes_slice,
        "--no-create-virtual-node": makes_slice and not asked.node,
    }


@asynccontextmanager
async def _relay(path: Path | None, context: str, *, own: bool) -> "AsyncIterator[Relay | None]":
    """The peer of both that the options name."""
    if path is None:
        yield None
        return
    from liqod.procedures.relaying import Relay

    async with connect_there(path, context, own=own) as client:
        yield Relay(client)


async def _report(
    frame: Frame, local: Client, provider: str, asked: ResourceRequest, joining: "Joining | None"
) -> None:
    """Print the result of a peering by kubeconfig, and of the networks."""
    node = asked.name or provider
    nodes = await slicenodes.nodes_of(local, provider, node)
    beyond = await overcommit.beyond_there(local, provider, asked.name)
    hurt = await spreadwarning.hurt(local, *nodes) if asked.node else ""
    for each in filter(None, (beyond, hurt)):
        terminal.note(f"warning: {each}")
    if frame.show({"clusterID": provider, "node": node}):
        return
    network = ""
    if joining is not None:
        joined = ", and packets go from each to the other"
        network = f"; without a network, since {joining.without}" if joining.without else joined
    here = f"peered: {provider} is {slicenodes.named(nodes)} here"
    frame.print_text((here if asked.node else f"peered with {provider}") + network)
