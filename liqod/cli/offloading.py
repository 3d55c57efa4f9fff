"""``offload namespace`` and ``unoffload namespace``: a NamespaceOffloading and what comes of it."""

import enum
from typing import Annotated, Any

import trio
import typer

from liqod.cli import common, completing, presence, terminal
from liqod.consumer.namespaces.offloadplan import draining
from liqod.consumer.procedures.namespaceoffloading import DEFAULTS, NAME, manifest, spread, twins
from liqod.errors import ConfigError, LiqodError
from liqod.kube.client import Client
from liqod.kube.kinds import MUTATING_WEBHOOKS, NAMESPACES
from liqod.kube.meta import Partial
from liqod.model import labels
from liqod.model.crossing.crossing import namespace_stays
from liqod.model.objects.requirements import node_selector
from liqod.model.text import printable
from liqod.resources import (
    FOREIGN_CLUSTERS,
    NAMESPACE_MAPS,
    NAMESPACE_OFFLOADINGS,
    ForeignCluster,
    NamespaceMap,
    NamespaceOffloading,
)

POLL = 0.2
SETTLED = ("Ready", "NoClusterSelected", "SomeFailed", "AllFailed")


class PodStrategy(enum.StrEnum):
    """Where pods of the namespace may run."""

    LOCAL = "Local"
    REMOTE = "Remote"
    BOTH = "LocalAndRemote"


class MappingStrategy(enum.StrEnum):
    """How the namespace is called on the peers."""

    DEFAULT = "DefaultName"
    SAME = "EnforceSameName"
    SELECTED = "SelectedName"


PodStrategyOption = Annotated[
    PodStrategy | None,
    typer.Option(help="Where its pods may run.", show_default="as it is, else LocalAndRemote"),
]
MappingStrategyOption = Annotated[
    MappingStrategy | None,
    typer.Option(
        help="How it is called on the peers; for good.", show_default="as it is, else DefaultName"
    ),
]
SelectorOption = Annotated[
    list[str] | None,
    typer.Option(
        "--selector",
        "-l",
        help="Virtual nodes by label; several are alternatives, '' is all of them.",
        show_default="as it is, else all",
    ),
]

NamespaceArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAMESPACE",
        help="The namespace to spread.",
        autocompletion=completing.namespaces,
    ),
]


def offload(
    namespace: NamespaceArgument,
    pod_offloading_strategy: PodStrategyOption = None,
    namespace_mapping_strategy: MappingStrategyOption = None,
    remote_namespace_name: Annotated[
        str, typer.Option(help="Its name there, with SelectedName.")
    ] = "",
    selector: SelectorOption = None,
    liqo_namespace: common.LiqoNamespace = labels.LIQO_NAMESPACE,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 60.0,
    output: common.Output = "text",
) -> None:
    """Spread a namespace: its pods may go to peers, and its objects follow them.

    Done again, it changes what is named and leaves the rest as it is. With -o json or yaml the
    manifest is printed and nothing is applied.

    \b
    Examples:
      liqod offload namespace shop
      liqod offload namespace shop --pod-offloading-strategy Remote -l region=north
      liqod offload namespace shop -o yaml
    """
    common.check_output(output, "text", "json", "yaml")
    mapping = namespace_mapping_strategy
    if (mapping is MappingStrategy.SELECTED) != bool(remote_namespace_name):
        common.die("--remote-namespace-name goes with SelectedName, and only with it", 2)
    asked = _asked(pod_offloading_strategy, mapping, remote_namespace_name, selector)
    stays = namespace_stays(namespace, {}, liqo_namespace)
    if stays:
        common.die(stays, 2)
    if output != "text":
        common.emit(manifest(namespace, {**DEFAULTS, **asked}), output)
        return

    async def main(progress: common.Progress) -> dict[str, Any]:
        async with await common.connect(kubeconfig, context) as client:
            found = await client.find(NAMESPACES, namespace, decode=Partial)
            if found is None:
                raise ConfigError(f"there is no namespace {namespace}; create it first")
            stays = namespace_stays(namespace, found.metadata.labels, liqo_namespace)
            if stays:
                raise ConfigError(stays)
            async with presence.daemon(client, liqo_namespace, progress):
                progress(f"record that {namespace} is offloaded")
                generation = await spread(client, namespace, asked)
                progress(f"wait for the daemon to spread {namespace}")
                status = await _settled(client, namespace, generation)
            status["webhookProblem"] = await _webhook_problem(client)
            return status

    _tell(namespace, common.run(main, timeout=timeout))


def _asked(
    pods: PodStrategy | None,
    mapping: MappingStrategy | None,
    remote: str,
    selectors: list[str] | None,
) -> dict[str, Any]:
    """What is named on the command line, and no more."""
    asked: dict[str, Any] = {}
    if pods is not None:
        asked["podOffloadingStrategy"] = pods.value
    if mapping is not None:
        asked["namespaceMappingStrategy"] = mapping.value
    if remote:
        asked["remoteNamespaceName"] = remote
    if selectors:
        try:
            asked["clusterSelector"] = node_selector(selectors)
        except ConfigError as error:
            common.die(str(error), 2)
    return asked


async def _settled(client: Client, namespace: str, generation: int) -> dict[str, Any]:
    while True:
        found = await client.get(NAMESPACE_OFFLOADINGS, NAME, namespace)
        status: dict[str, Any] = found.get("status", {})
        seen = int(status.get("observedGeneration", 0))
        if seen >= generation and status.get("offloadingPhase") in SETTLED:
            return status
        await trio.sleep(POLL)


async def _webhook_problem(client: Client) -> str:
    """Why the API server cannot reach the pod webhook, or nothing."""
    try:
        hooks = await client.list(MUTATING_WEBHOOKS)
    except LiqodError:
        return ""
    for hook in hooks:
        notes = hook["metadata"].get("annotations", {})
        verdict: str = notes.get(labels.WEBHOOK_REACHABLE, "")
        if verdict and verdict != "true":
            return verdict
    return ""


def _tell(namespace: str, status: dict[str, Any]) -> None:
    phase = status["offloadingPhase"]
    clusters = status.get("remoteNamespacesConditions", {})
    for cluster, conditions in sorted(clusters.items()):
        for condition in conditions:
            if condition["type"] == "Ready":
                good = condition["status"] == "True"
                remote = status.get("remoteNamespaceName", "")
                text = remote if good else condition.get("message", "")
                terminal.say(f"{namespace} → {cluster}: {printable(text)}")
    if status["webhookProblem"]:
        terminal.note(
            f"warning: the API server cannot reach liqod's webhook "
            f"({status['webhookProblem']}); pods get their toleration later, by patch"
        )
    if phase == "NoClusterSelected":
        common.die(
            f"recorded, but no virtual node matches; {namespace} spreads when one does (labels "
            "that a provider declares count where believed_labels of [[peers]] names them)"
        )
    if phase != "Ready":
        common.die(f"{namespace} is {phase}: not every peer took it; see `liqod status`")


def unoffload(
    namespace: Annotated[
        str,
        typer.Argument(
            metavar="NAMESPACE",
            help="The namespace to bring back.",
            autocompletion=completing.offloaded,
        ),
    ],
    yes: common.Yes = False,
    liqo_namespace: common.LiqoNamespace = labels.LIQO_NAMESPACE,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 300.0,
) -> None:
    """Bring a namespace back: its twins on the peers are deleted with all that is in them.

    Pods of Deployments and the like are moved first, as a drain would: in steps, within their
    disruption budgets, and for no longer than the daemon's consumer.drain_timeout.

    \b
    Examples:
      liqod unoffload namespace shop
    """

    async def find(progress: common.Progress) -> dict[str, Any] | None:
        async with await common.connect(kubeconfig, context) as client:
            if await client.find(NAMESPACES, namespace, decode=Partial) is None:
                raise ConfigError(f"there is no namespace {namespace}")
            return await client.find(NAMESPACE_OFFLOADINGS, NAME, namespace)

    found = common.run(find, timeout=timeout)
    if found is None:
        terminal.note(f"{namespace} is not offloaded")
        return
    doomed = twins(found)
    remote = found.get("status", {}).get("remoteNamespaceName", namespace)
    common.confirm(f"deletes {doomed}, with every pod and object in it", yes=yes)

    async def main(progress: common.Progress) -> list[str]:
        async with (
            await common.connect(kubeconfig, context) as client,
            presence.daemon(client, liqo_namespace, progress),
        ):
            progress(f"wait for {namespace} to come back")
            uid = found["metadata"]["uid"]
            await client.delete(NAMESPACE_OFFLOADINGS, NAME, namespace, uid=uid)
            await _gone(client, namespace, uid, progress)
            progress(f"wait for the peers to remove {remote}")
            return await _removed_there(client, namespace)

    for peer in common.run(main, timeout=timeout):
        terminal.note(f"{peer} does not answer: it removes {remote} when it does")


async def _gone(client: Client, namespace: str, uid: str, progress: common.Progress) -> None:
    """Wait until the NamespaceOffloading of that UID is no more, and say what it waits for."""
    said: dict[str, str] = {}
    while True:
        left = await client.find(NAMESPACE_OFFLOADINGS, NAME, namespace, decode=NamespaceOffloading)
        if left is None or left.metadata.uid != uid:
            return
        waits = draining(left)
        for peer, text in waits.items():
            if said.get(peer) != text:
                progress(f"{peer}: {printable(text)}")
        said = waits
        await trio.sleep(POLL)


async def _removed_there(client: Client, namespace: str) -> list[str]:
    """Wait until every peer that answers has removed its twin; those that do not answer."""
    while True:
        maps = await client.list(
            NAMESPACE_MAPS, labels=f"{labels.REPLICATION}={labels.TRUE}", decode=NamespaceMap
        )
        holding = {
            item.metadata.labels.get(labels.REMOTE_CLUSTER_ID, item.name)
            for item in maps
            if namespace in item.status.current_mapping
        }
        down = {
            cluster.spec.cluster_id
            for cluster in await client.list(FOREIGN_CLUSTERS, decode=ForeignCluster)
            if any(
                c.type == "APIServerStatus" and c.status == "Error"
                for c in cluster.status.conditions
            )
        }
        if holding <= down:
            return sorted(holding)
        await trio.sleep(POLL)
