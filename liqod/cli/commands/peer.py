"""``peer``: borrow from another cluster."""

from typing import Annotated

import typer

from liqod.cli import presence
from liqod.cli.clusters import connect_there
from liqod.cli.frame import Frame, command
from liqod.cli.options import LiqoNamespace, OwnFile, RemoteKubeconfig
from liqod.errors import Misuse
from liqod.model import ids, labels
from liqod.model.objects.quantities import is_quantity
from liqod.procedures import networkobjects, peering
from liqod.procedures.networking import Joining
from liqod.procedures.slicerequest import Asked

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
        "--gw-server-service-port", min=1, max=65535, help="Its UDP port, or the next that is free."
    ),
]
NodePort = Annotated[
    int,
    typer.Option(
        "--gw-server-service-nodeport",
        max=65535,
        help="Its UDP port, this one.",
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
        "--gw-client-address", help="What the other side dials.", show_default="what it is told"
    ),
]
ClientPort = Annotated[
    int,
    typer.Option("--gw-client-port", max=65535, help="Likewise its port.", show_default="likewise"),
]
Mtu = Annotated[int, typer.Option(help="MTU of the tunnel.", min=1280, max=9000)]
Tunnel = Annotated[str, typer.Option(help="What makes the tunnel; `liqod plugins` has a list.")]
RemoteLiqoNamespace = Annotated[str, typer.Option(help="The same at the provider.")]


@command(timeout=120.0)
async def peer(
    frame: Frame,
    remote_kubeconfig: RemoteKubeconfig,
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
    networking_disabled: NoNetwork = False,
    gw_server_service_location: ServerAt = "Provider",
    gw_server_service_type: ServiceType = "LoadBalancer",
    gw_server_service_port: ServerPort = networkobjects.PORT,
    gw_server_service_nodeport: NodePort = 0,
    gw_server_service_loadbalancerip: BalancerIp = "",
    gw_client_address: ClientAddress = "",
    gw_client_port: ClientPort = 0,
    mtu: Mtu = networkobjects.MTU,
    tunnel: Tunnel = networkobjects.WIREGUARD,
    expect: Expected = "",
    replace: Replaced = False,
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
    remote_liqo_namespace: RemoteLiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Borrow from another cluster; ends when it is a Ready node here.

    The networks are joined, too, so that pods reach each other, where both daemons have the rights
    and the tools for it; where one has not, it says what is missing and peers without.

    Each cluster needs its daemon. Done again, it changes what is asked for or continues; a provider
    that is known must be where it was, and have the authority that it had.

    \b
    Examples:
      liqod peer --remote-kubeconfig rome-at-milan.kubeconfig --cpu 4 --memory 8Gi
      liqod peer --remote-kubeconfig FILE --resource-slice gpus --resource nvidia.com/gpu=1
      liqod peer --remote-kubeconfig FILE --expect milan --replace
    """
    asked = Asked(
        name=slice_name(resource_slice),
        class_name=resource_slice_class,
        resources=quantities(cpu, memory, pods, resource or []),
        node=create_virtual_node,
    )
    joining = None
    if not networking_disabled:
        how = networkobjects.Asked(
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
        joining = Joining(how, frame.progress)
    async with (
        frame.client() as local,
        connect_there(remote_kubeconfig, remote_context, own=own_file) as remote,
        presence.both(local, liqo_namespace, remote, remote_liqo_namespace, frame.progress),
    ):
        provider = await peering.peer(
            local,
            remote,
            asked if create_resource_slice else None,
            progress=frame.progress,
            liqo=liqo_namespace,
            remote_liqo=remote_liqo_namespace,
            expected=expect,
            replace=replace,
            joining=joining,
        )
    network = _told(joining)
    if create_resource_slice and create_virtual_node:
        frame.say(f"peered: {provider} is the node {resource_slice or provider} here{network}")
    else:
        frame.say(f"peered with {provider}{network}")


def _told(joining: Joining | None) -> str:
    """What came of the networks, behind what is said of the peering."""
    if joining is None:
        return ""
    if joining.without:
        return f"; without a network, since {joining.without}"
    return ", and packets go from each to the other"


def slice_name(name: str) -> str:
    """The name; an empty one is the provider's. Raises Misuse where it is none for a slice."""
    problem = ids.slice_name_problem(name) if name else None
    if problem is not None:
        raise Misuse(problem)
    return name


def quantities(cpu: str, memory: str, pods: str, others: list[str]) -> dict[str, str]:
    """What was asked for, by resource name. Raises Misuse where a quantity is none."""
    asked = {
        name: text for name, text in (("cpu", cpu), ("memory", memory), ("pods", pods)) if text
    }
    for item in others:
        name, equals, text = item.partition("=")
        if not (name and equals and text):
            raise Misuse(f"--resource {item}: write name=quantity, such as nvidia.com/gpu=1")
        asked[name] = text
    for name, text in asked.items():
        if not is_quantity(text) or text.startswith("-"):
            raise Misuse(f"{text!r} is no quantity for {name}; write 4, 500m or 8Gi")
    return asked
