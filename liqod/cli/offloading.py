"""``offload namespace`` and ``unoffload namespace``: a NamespaceOffloading and what comes of it."""

import enum
import sys
from typing import Annotated, Any

import trio
import typer

from liqod.cli import common, presence
from liqod.consumer.spreading import NAME, manifest, spread, twins
from liqod.errors import ConfigError, LiqodError
from liqod.kube.client import Client
from liqod.kube.kinds import MUTATING_WEBHOOKS, NAMESPACES
from liqod.kube.meta import Partial
from liqod.model import labels
from liqod.model.requirements import node_selector
from liqod.model.text import printable
from liqod.resources import (
    FOREIGN_CLUSTERS,
    NAMESPACE_MAPS,
    NAMESPACE_OFFLOADINGS,
    ForeignCluster,
    NamespaceMap,
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


def offload(
    namespace: Annotated[str, typer.Argument(help="The namespace to spread.")],
    pod_offloading_strategy: Annotated[
        PodStrategy, typer.Option(help="Where its pods may run.")
    ] = PodStrategy.BOTH,
    namespace_mapping_strategy: Annotated[
        MappingStrategy, typer.Option(help="How it is called on the peers.")
    ] = MappingStrategy.DEFAULT,
    remote_namespace_name: Annotated[
        str, typer.Option(help="Its name there, with SelectedName.")
    ] = "",
    selector: Annotated[
        list[str] | None,
        typer.Option("--selector", "-l", help="Virtual nodes by label; several are alternatives."),
    ] = None,
    liqo_namespace: common.LiqoNamespace = labels.LIQO_NAMESPACE,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 60.0,
    output: common.Output = "text",
) -> None:
    """Spread a namespace: its pods may go to peers, and its objects follow them.

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
    spec = _spec(pod_offloading_strategy, mapping, remote_namespace_name, selector)
    if output != "text":
        common.emit(manifest(namespace, spec), output)
        return

    async def main(progress: common.Progress) -> dict[str, Any]:
        async with await common.connect(kubeconfig, context) as client:
            if await client.find(NAMESPACES, namespace) is None:
                raise ConfigError(f"there is no namespace {namespace}; create it first")
            async with presence.daemon(client, liqo_namespace, progress):
                progress(f"record that {namespace} is offloaded")
                generation = await spread(client, namespace, spec)
                progress(f"wait for the daemon to spread {namespace}")
                status = await _settled(client, namespace, generation)
            status["webhookProblem"] = await _webhook_problem(client)
            return status

    _tell(namespace, common.run(main, timeout=timeout))


def _spec(
    pods: PodStrategy, mapping: MappingStrategy, remote: str, selectors: list[str] | None
) -> dict[str, Any]:
    try:
        chosen = node_selector(selectors or [])
    except ConfigError as error:
        common.die(str(error), 2)
    return {
        "podOffloadingStrategy": pods.value,
        "namespaceMappingStrategy": mapping.value,
        "clusterSelector": chosen,
        **({"remoteNamespaceName": remote} if remote else {}),
    }


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
                sys.stdout.write(f"{namespace} → {cluster}: {printable(text)}\n")
    if status["webhookProblem"]:
        sys.stderr.write(
            f"warning: the API server cannot reach liqod's webhook "
            f"({status['webhookProblem']}); pods get their toleration later, by patch\n"
        )
    if phase == "NoClusterSelected":
        common.die(f"recorded, but no virtual node matches; {namespace} spreads when one does")
    if phase != "Ready":
        common.die(f"{namespace} is {phase}: not every peer took it; see `liqod status`")


def unoffload(
    namespace: Annotated[str, typer.Argument(help="The namespace to bring back.")],
    yes: common.Yes = False,
    liqo_namespace: common.LiqoNamespace = labels.LIQO_NAMESPACE,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 120.0,
) -> None:
    """Bring a namespace back: its twins on the peers are deleted with all that is in them.

    \b
    Examples:
      liqod unoffload namespace shop
    """

    async def find(progress: common.Progress) -> dict[str, Any] | None:
        async with await common.connect(kubeconfig, context) as client:
            return await client.find(NAMESPACE_OFFLOADINGS, NAME, namespace)

    found = common.run(find, timeout=timeout)
    if found is None:
        sys.stderr.write(f"{namespace} is not offloaded\n")
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
            await _gone(client, namespace, uid)
            progress(f"wait for the peers to remove {remote}")
            return await _removed_there(client, namespace)

    for peer in common.run(main, timeout=timeout):
        sys.stderr.write(f"{peer} does not answer: it removes {remote} when it does\n")


async def _gone(client: Client, namespace: str, uid: str) -> None:
    """Wait until the NamespaceOffloading of that UID is no more."""
    while True:
        left = await client.find(NAMESPACE_OFFLOADINGS, NAME, namespace, decode=Partial)
        if left is None or left.metadata.uid != uid:
            return
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
