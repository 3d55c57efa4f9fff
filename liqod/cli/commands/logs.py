"""``logs``: print the logs of a pod that runs on a peer."""

from typing import Annotated, Any

import msgspec
import typer

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, PODS, SECRETS
from liqod.cli import terminal
from liqod.cli.clusters import AGENT
from liqod.cli.frame import Frame, command
from liqod.errors import ConfigError, NotFound
from liqod.kube.client import Client
from liqod.kube.credentials import credentials
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.http import proxies
from liqod.kube.selection import Selection
from liqod.resources import NAMESPACE_MAPS, VIRTUAL_NODES, NamespaceMap, VirtualNode


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
    virtual = [
        item for item in await client.list(VIRTUAL_NODES, decode=VirtualNode) if item.name == node
    ]
    if not virtual:
        where = f"on the node {node}" if node else "on no node yet"
        raise ConfigError(f"the pod {namespace}/{pod} is {where}, not on a peer: `kubectl logs`")
    item = virtual[0]
    for mapping in await client.list(
        NAMESPACE_MAPS, Selection(item.namespace), decode=NamespaceMap
    ):
        entry = mapping.status.current_mapping.get(namespace)
        if entry is not None and labels.REPLICATED not in mapping.metadata.labels:
            return await _slice_way(client, item), entry.remote_namespace
    raise ConfigError(f"the namespace {namespace} is not mapped on {item.spec.cluster_id}")


async def _slice_way(client: Client, node: VirtualNode) -> Credentials:
    reference = node.spec.kubeconfig_secret_ref
    if reference is None or not reference.name:
        raise NotFound(f"the virtual node {node.name} names no kubeconfig Secret")
    secret: dict[str, Any] = await client.get(SECRETS, reference.name, node.namespace)
    data = msgspec.convert(secret["data"][labels.KUBECONFIG_FIELD], bytes, strict=False)
    return credentials.from_kubeconfig(data)
