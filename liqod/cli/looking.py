"""The verbs that only look: ``status``, ``logs``, ``plugins``, ``check`` and ``version``."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import trio
import typer

from liqod import __version__
from liqod.cli import common, completing, picking, terminal
from liqod.cli.render import render
from liqod.cli.snapshot import take
from liqod.config import ENVIRONMENT, Config, load
from liqod.errors import ConfigError, LiqodError, NotFound, TransientError, Unreachable
from liqod.kube.client import Client
from liqod.kube.credentials import credentials
from liqod.kube.kinds import NAMESPACES, PODS, SECRETS
from liqod.model import labels
from liqod.model.view.figures import counted
from liqod.model.view.overview import Overview, overview
from liqod.plugins import loader
from liqod.resources import NAMESPACE_MAPS, VIRTUAL_NODES, NamespaceMap, VirtualNode

if TYPE_CHECKING:
    from liqod.cli.live import Live

ASKING = 5.0
"""Seconds of ``--timeout`` that are kept for asking the daemon where the API server is down."""


def status(
    peer: Annotated[
        str,
        typer.Argument(metavar="PEER", help="Show one peer only.", autocompletion=completing.peers),
    ] = "",
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    liqo_namespace: common.LiqoNamespace = labels.LIQO_NAMESPACE,
    socket: common.Socket = None,
    cluster_id: common.ClusterId = "",
    timeout: common.Timeout = 30.0,
    output: common.Output = "text",
    get: picking.Get = "",
) -> None:
    """Show peers, nodes, namespaces and problems.

    Problems come first, the worst of them at the top; with one of them the exit status is 1. Pods
    of yours that wait, and what somebody meant so, are hints, marked ·, and leave it 0. It reads
    custom resources, so it works while the daemon is down; where this cluster's daemon runs on
    this machine, the round trip, the silence and the backlog of each peer come from it. While the
    API server is down it shows what that daemon knows by itself, and ends with exit status 1; so
    it does where the daemon of --socket does not answer. With a PEER it also shows the slices
    with their verdicts, the conditions, and which pods wait there and why.

    \b
    Examples:
      liqod status
      liqod status milan
      liqod status -o json
      liqod status --get peers.0.api
    """
    common.check_output(output, "text", "json", "yaml")

    async def main(progress: common.Progress) -> "tuple[Overview, Live | None, str]":
        from liqod.cli import live  # brings the websocket, which other verbs do without

        try:
            async with await common.connect(kubeconfig, context) as client:
                view = await _read(client, liqo_namespace, peer, timeout)
        except TransientError as error:
            seen = await live.instead(socket, cluster_id, error, kubeconfig, context)
            return live.remembered(seen, peer, error), live.figures(seen), ""
        try:
            daemon = await live.look(socket, cluster_id or view.cluster_id)
            return live.joined(view, daemon, peer), daemon, ""
        except LiqodError as error:
            return view, None, str(error)

    view, live, silent = common.run(main, timeout=timeout)
    if silent:
        common.warn(silent)
    if view.source == "daemon":
        common.warn(f"{view.problems[0].what}; this is what the daemon of {view.cluster_id} knows")
    elif peer and not view.peers and view.knows_peers:
        common.die(f"there is no peer {peer}; `liqod status` lists them")
    whole = {**msgspec.to_builtins(view), "live": live}
    if not picking.show(whole, output, get):
        terminal.say(render(view, common.width(), now=time.time(), live=live), lines=True)
    if silent or view.source == "daemon" or not view.well:
        raise SystemExit(1)


async def _read(client: Client, namespace: str, peer: str, timeout: float) -> Overview:
    """What the custom resources say; raises Unreachable while there is time to ask the daemon."""
    patience = max(timeout - ASKING, timeout / 2)
    with trio.move_on_after(patience):
        return overview(await take(client, namespace), peer)
    raise Unreachable(f"the API server has not answered within {patience:g} s")


def logs(
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
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 30.0,
) -> None:
    """Print the logs of a pod that runs on a peer.

    They are read through the peer connection, with the rights of the peering.

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

    async def main(progress: common.Progress) -> None:
        async with await common.connect(kubeconfig, context) as client:
            remote, there = await _remote_of(client, namespace, pod)
            async with (
                remote,
                remote.stream("GET", PODS.path(there, pod, "log"), query=query) as chunks,
            ):
                async for chunk in chunks:
                    terminal.pass_on(chunk)

    common.run(main, timeout=None if follow else timeout, quiet=follow)


async def _remote_of(client: Client, namespace: str, pod: str) -> tuple[Client, str]:
    """A client for the peer where a pod runs, and the name of its namespace there.

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
    for mapping in await client.list(NAMESPACE_MAPS, item.namespace, decode=NamespaceMap):
        entry = mapping.status.current_mapping.get(namespace)
        if entry is not None and labels.REPLICATED not in mapping.metadata.labels:
            return await _slice_client(client, item), entry.remote_namespace
    raise ConfigError(f"the namespace {namespace} is not mapped on {item.spec.cluster_id}")


async def _slice_client(client: Client, node: VirtualNode) -> Client:
    reference = node.spec.kubeconfig_secret_ref
    if reference is None or not reference.name:
        raise NotFound(f"the virtual node {node.name} names no kubeconfig Secret")
    secret: dict[str, Any] = await client.get(SECRETS, reference.name, node.namespace)
    data = msgspec.convert(secret["data"][labels.KUBECONFIG_FIELD], bytes, strict=False)
    return Client(credentials.from_kubeconfig(data), user_agent="liqod-cli")


def plugins(
    config: Annotated[Path | None, typer.Option(help="The daemon's configuration.")] = None,
    output: common.Output = "text",
) -> None:
    """What each plugin is, and why one is left out."""
    common.check_output(output, "text", "json", "yaml")
    loaded = loader.load(blocked=_config(config).plugins.blocked).records
    if output != "text":
        common.emit(loaded, output)
        return
    rows = [[p.name, p.kind, p.version, p.package, p.state, p.why or "-"] for p in loaded]
    header = ["NAME", "KIND", "VERSION", "PACKAGE", "STATE", "WHY"]
    terminal.say(common.table(rows, header), lines=True)


def check(
    config: Annotated[Path | None, typer.Option(help="The daemon's configuration.")] = None,
) -> None:
    """Read the configuration as `liqod run` would.

    What it read is the file of --config or LIQOD_CONFIG and the variables LIQOD_…; it says which.
    """
    tables = _config(config).plugins
    try:
        loaded = loader.load(blocked=tables.blocked, settings=tables.settings)
    except ConfigError as error:
        common.die(str(error), 2)
    wrong = [p for p in loaded.records if p.state == "left out"]
    for plugin in wrong:
        terminal.note(f"plugin {plugin.name}: {plugin.why}")
    if wrong:
        common.die(f"{counted(len(wrong), 'plugin')} would be left out")
    variables = sorted(name for name in os.environ if name in ENVIRONMENT)
    named = f" with {', '.join(variables)}" if variables else ""
    file = str(config or os.environ.get("LIQOD_CONFIG", ""))
    if file:
        terminal.say(f"the configuration {file}{named} is good")
    else:
        terminal.say(f"no file was read, since none is named: the defaults{named} are good")


def _config(path: Path | None) -> Config:
    try:
        return load(str(path) if path else None, os.environ)
    except ConfigError as error:
        common.die(str(error), 2)


def version() -> None:
    """Print the version."""
    terminal.say(f"liqod {__version__}")
