"""``peer`` and ``unpeer``, and the peering users that let a consumer in."""

from pathlib import Path
from typing import Annotated

import typer

from liqod.cli import common, completing, presence, terminal
from liqod.consumer.procedures import departure, handshake
from liqod.consumer.procedures.departure import Departed
from liqod.errors import ConfigError
from liqod.kube.client import Client
from liqod.kube.credentials import credentials
from liqod.model import ids, labels
from liqod.model.objects.quantities import is_quantity
from liqod.preflight import own_cluster_id
from liqod.provider.tenants import narrowing, peering_users
from liqod.resources import FOREIGN_CLUSTERS, ForeignCluster

RemoteKubeconfig = Annotated[
    Path, typer.Option(help="The provider's, from `liqod generate peering-user` there.")
]

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
RemoteLiqoNamespace = Annotated[str, typer.Option(help="The same at the provider.")]
OwnFile = Annotated[
    bool,
    typer.Option(
        "--own-remote-kubeconfig",
        help="That file is your own: the programs and files that it names may be used.",
    ),
]
PeerId = Annotated[
    str,
    typer.Argument(metavar="PEER", help="The peer's cluster id.", autocompletion=completing.peers),
]


def peer(
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
    expect: Expected = "",
    replace: Replaced = False,
    liqo_namespace: common.LiqoNamespace = labels.LIQO_NAMESPACE,
    remote_liqo_namespace: RemoteLiqoNamespace = labels.LIQO_NAMESPACE,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 120.0,
) -> None:
    """Borrow from another cluster; ends when it is a Ready node here.

    Each cluster needs its daemon. Done again, it changes what is asked for or continues; a provider
    that is known must be where it was, and have the authority that it had.

    \b
    Examples:
      liqod peer --remote-kubeconfig rome-at-milan.kubeconfig --cpu 4 --memory 8Gi
      liqod peer --remote-kubeconfig FILE --resource-slice gpus --resource nvidia.com/gpu=1
      liqod peer --remote-kubeconfig FILE --expect milan --replace
    """
    asked = handshake.Asked(
        name=slice_name(resource_slice),
        class_name=resource_slice_class,
        resources=quantities(cpu, memory, pods, resource or []),
        node=create_virtual_node,
    )

    async def main(progress: common.Progress) -> str:
        async with (
            await common.connect(kubeconfig, context) as local,
            common.connect_there(remote_kubeconfig, remote_context, own=own_file) as remote,
            presence.both(local, liqo_namespace, remote, remote_liqo_namespace, progress),
        ):
            return await handshake.peer(
                local,
                remote,
                asked if create_resource_slice else None,
                progress=progress,
                liqo=liqo_namespace,
                remote_liqo=remote_liqo_namespace,
                expected=expect,
                replace=replace,
            )

    provider = common.run(main, timeout=timeout)
    if create_resource_slice and create_virtual_node:
        terminal.say(f"peered: {provider} is the node {resource_slice or provider} here")
    else:
        terminal.say(f"peered with {provider}")


def slice_name(name: str) -> str:
    """The name; ends the program where it is none for a slice. An empty one is the provider's."""
    problem = ids.slice_name_problem(name) if name else None
    if problem is not None:
        common.die(problem, 2)
    return name


def quantities(cpu: str, memory: str, pods: str, others: list[str]) -> dict[str, str]:
    """What was asked for, by resource name; ends the program where a quantity is none."""
    asked = {
        name: text for name, text in (("cpu", cpu), ("memory", memory), ("pods", pods)) if text
    }
    for item in others:
        name, equals, text = item.partition("=")
        if not (name and equals and text):
            common.die(f"--resource {item}: write name=quantity, such as nvidia.com/gpu=1", 2)
        asked[name] = text
    for name, text in asked.items():
        if not is_quantity(text) or text.startswith("-"):
            common.die(f"{text!r} is no quantity for {name}; write 4, 500m or 8Gi", 2)
    return asked


def unpeer(
    peer_id: PeerId,
    remote_kubeconfig: Annotated[
        Path | None,
        typer.Option(help="Kubeconfig of the peer, to clear its side at once too."),
    ] = None,
    own_file: OwnFile = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Give up what a dead peer still has of ours.")
    ] = False,
    yes: common.Yes = False,
    liqo_namespace: common.LiqoNamespace = labels.LIQO_NAMESPACE,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 180.0,
) -> None:
    """End a peering, from either side.

    It names what it deletes and asks first. A peer that does not answer holds nothing up.

    \b
    Examples:
      liqod unpeer milan
      liqod unpeer milan --yes --forget
    """

    async def look(progress: common.Progress) -> list[str]:
        async with await common.connect(kubeconfig, context) as client:
            await _known(client, peer_id)
            return await departure.plan(client, peer_id)

    doomed = common.run(look, timeout=timeout)
    if not doomed:
        terminal.say(f"the peering with {peer_id} has been ended; the daemon forgets it soon")
        return
    common.confirm("deletes " + ", ".join(doomed), yes=yes)

    async def main(progress: common.Progress) -> Departed:
        async with (
            await common.connect(kubeconfig, context) as local,
            presence.daemon(local, liqo_namespace, progress),
        ):
            if forget:
                await departure.forget(local, peer_id, progress=progress)
            if remote_kubeconfig is None:
                return await departure.unpeer(local, peer_id, progress=progress)
            async with common.connect_there(remote_kubeconfig, own=own_file) as remote:
                return await departure.unpeer(
                    local, peer_id, remote=remote, liqo=liqo_namespace, progress=progress
                )

    end = common.run(main, timeout=timeout)
    if end.complete:
        terminal.say(f"unpeered from {peer_id}")
    else:
        terminal.say(
            f"unpeered from {peer_id}, which does not answer: what it still has of ours is removed "
            f"when it does; `liqod unpeer {peer_id} --forget` gives it up"
        )


async def _known(client: Client, peer_id: str) -> None:
    """Raises ConfigError where there is no such peer, nor anything left of one."""
    peers = await client.list(FOREIGN_CLUSTERS, decode=ForeignCluster)
    names = sorted(each.spec.cluster_id for each in peers)
    if peer_id not in names and not await departure.plan(client, peer_id):
        there = f"the peers are {', '.join(names)}" if names else "there are none"
        raise ConfigError(f"there is no peer {peer_id} here; {there}")


def generate_peering_user(
    consumer_cluster_id: Annotated[str, typer.Option(help="The consumer that is let in.")],
    server: Annotated[
        str,
        typer.Option(help="This API server as it reaches it.", show_default="as in the kubeconfig"),
    ] = "",
    output: common.CredentialFile = None,
    lifetime: Annotated[
        float, typer.Option(help="Seconds for which it is good.", min=600)
    ] = narrowing.LIFE,
    liqoctl: Annotated[
        bool, typer.Option("--liqoctl", help="Grant what liqoctl needs beyond liqod's own verbs.")
    ] = False,
    liqo_namespace: common.LiqoNamespace = labels.LIQO_NAMESPACE,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 60.0,
) -> None:
    """Make a kubeconfig with which one consumer can peer with this cluster, and no more.

    It is good for an hour, and reads only once the consumer was accepted. For a consumer that was
    revoked it takes that back. Without --output it is printed.

    \b
    Examples:
      liqod generate peering-user --consumer-cluster-id rome --output rome-at-milan.kubeconfig
    """
    common.check_place(output)

    async def main(progress: common.Progress) -> bytes:
        found = await credentials.load(kubeconfig, context or None)
        if found.ca is None and found.insecure:
            raise ConfigError("the kubeconfig has no certificate authority to hand on")
        async with Client(found, user_agent="liqod-cli") as client:
            progress(f"make a peering user for {consumer_cluster_id}")
            return await peering_users.generate(
                client,
                consumer_cluster_id,
                here=await own_cluster_id(client, liqo_namespace),
                server=server or found.server,
                ca=found.ca or b"",
                namespace=liqo_namespace,
                list_secrets=liqoctl,
                lifetime=lifetime,
            )

    common.hand_out(common.run(main, timeout=timeout), output)


def delete_peering_user(
    consumer_cluster_id: Annotated[str, typer.Option(help="The consumer that was let in.")],
    yes: common.Yes = False,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 60.0,
) -> None:
    """Revoke the peering user of a consumer; a peering that it made stays.

    \b
    Examples:
      liqod delete peering-user --consumer-cluster-id rome
    """
    common.confirm(f"revokes the kubeconfig by which {consumer_cluster_id} may peer", yes=yes)

    async def main(progress: common.Progress) -> int:
        async with await common.connect(kubeconfig, context) as client:
            progress(f"revoke the peering user of {consumer_cluster_id}")
            return await peering_users.delete(client, consumer_cluster_id)

    gone = common.run(main, timeout=timeout)
    text = "revoked" if gone else "there was no peering user"
    terminal.say(f"{consumer_cluster_id}: {text}")
