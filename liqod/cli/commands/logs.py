"""``logs``: print the logs of a pod that runs on a peer."""

from typing import Annotated

import typer

from liqod.apimachinery.kinds import NAMESPACES, PODS
from liqod.cli import terminal
from liqod.cli.clusters import AGENT
from liqod.cli.frame import Frame, command
from liqod.cli.remoteaccess import (
    credentials_of,
    not_mapped,
    remote_namespaces,
    virtual_nodes,
)
from liqod.errors import ConfigError, NotFound
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.http import proxies


@command(timeout=30.0)
async def logs(
    frame: Frame,
    pod: Annotated[str, typer.Argument(metavar="POD", help="A pod that runs on a peer.")],
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Its namespace here.")
    ] = "default",
    container: Annotated[
        str, typer.Option("--container", "-c", help="One of its containers.")
    ] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as it writes.")] = False,
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="Of the run before this one.")
    ] = False,
    tail: Annotated[int, typer.Option(help="Only the last lines; -1 means all.")] = -1,
    timestamps: Annotated[bool, typer.Option(help="With the time of each line.")] = False,
) -> None:
    """Print the logs of a pod that runs on a peer.

    They are read through the peer connection, with the rights of the peering. A provider that dials
    this cluster is reached by its daemon alone: there they are read as `kubectl logs` reads them.

    \b
    Examples:
      liqod logs web-1 -n shop
      liqod logs web-1 -n shop -f --tail 10
    """
    query = {
        **({"container": container} if container else {}),
        **({"follow": "true"} if follow else {}),
        **({"previous": "true"} if previous else {}),
        **({"tailLines": str(tail)} if tail >= 0 else {}),
        **({"timestamps": "true"} if timestamps else {}),
    }
    if follow:
        frame.follow()
    async with frame.client() as client:
        there, name = await remote_of(client, namespace, pod)
        if proxies.dials_here(there.proxy):
            # Only the daemon reaches that peer: it is asked as `kubectl logs` asks it.
            await _pass_on(client, PODS.path(namespace, pod, "log"), query)
            return
        async with Client(there, user_agent=AGENT) as remote:
            await _pass_on(remote, PODS.path(name, pod, "log"), query)


async def _pass_on(client: Client, path: str, query: dict[str, str]) -> None:
    async with client.stream("GET", path, query=query) as chunks:
        async for chunk in chunks:
            terminal.pass_on(chunk)


async def remote_of(client: Client, namespace: str, pod: str) -> tuple[Credentials, str]:
    """The way to the peer where a pod runs, and the name of its namespace there.

    Raises:
        ConfigError: the pod is not on a virtual node, or its namespace is not mapped there.
        NotFound: there is no such pod.
    """
    found = await client.find(PODS, pod, namespace)
    if found is None:
        if await client.find(NAMESPACES, namespace) is None:
            raise ConfigError(f"there is no namespace {namespace}")
        raise NotFound(f"there is no pod {pod} in the namespace {namespace}")
    node = found["spec"].get("nodeName", "")
    virtual = [each for each in await virtual_nodes(client) if each.name == node]
    if not virtual:
        where = f"on the node {node}" if node else "on no node yet"
        raise ConfigError(f"the pod {namespace}/{pod} is {where}, not on a peer: `kubectl logs`")
    item = virtual[0]
    names = await remote_namespaces(client, namespace, item.namespace)
    if not names:
        raise not_mapped(namespace, item.spec.cluster_id)
    return await credentials_of(client, item), next(iter(names.values()))
