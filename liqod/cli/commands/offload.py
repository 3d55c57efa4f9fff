"""``offload namespace``: a NamespaceOffloading, and what comes of it."""

import enum
from contextlib import suppress
from typing import Annotated, Any

import typer

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.cli import output, presence, terminal
from liqod.cli.frame import OUTPUTS, Frame, command
from liqod.cli.options import LiqoNamespace, NamespaceName
from liqod.errors import ConfigError, LiqodError, Misuse
from liqod.kube.client import Client
from liqod.model.crossing.exclusions import namespace_stays
from liqod.model.objects.requirements import node_selector
from liqod.model.text import printable
from liqod.procedures.offload import DEFAULTS, manifest, offloaded, present, spread


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


FailClosed = Annotated[
    bool | None,
    typer.Option(
        help="Refuse its pods while the API server does not reach liqod; with Remote, whose pods "
        "would run here.",
        show_default="as it is, else as configured",
    ),
]


@command(timeout=60.0, outputs=OUTPUTS)
async def namespace(
    frame: Frame,
    name: NamespaceName,
    pod_offloading_strategy: PodStrategyOption = None,
    namespace_mapping_strategy: MappingStrategyOption = None,
    remote_namespace_name: Annotated[
        str, typer.Option(help="Its name there, with SelectedName.")
    ] = "",
    selector: SelectorOption = None,
    fail_closed: FailClosed = None,
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Spread a namespace: its pods may go to peers, and its objects follow them.

    Done again, it changes what is named and leaves the rest as it is. With -o json or yaml the
    manifest is printed and nothing is applied.

    \b
    Examples:
      liqod offload namespace shop
      liqod offload namespace shop --pod-offloading-strategy Remote -l region=north
      liqod offload namespace shop --pod-offloading-strategy Remote --fail-closed
      liqod offload namespace shop -o yaml
    """
    mapping = namespace_mapping_strategy
    if (mapping is MappingStrategy.SELECTED) != bool(remote_namespace_name):
        raise Misuse("--remote-namespace-name goes with SelectedName, and only with it")
    asked = _asked(pod_offloading_strategy, mapping, remote_namespace_name, selector)
    stays = namespace_stays(name, {}, liqo_namespace)
    if stays:
        raise Misuse(stays)
    marks = {} if fail_closed is None else {labels.FAIL_CLOSED: str(fail_closed).lower()}
    if frame.output != "text":
        _check_closed(fail_closed, {**DEFAULTS, **asked})
        output.emit(manifest(name, {**DEFAULTS, **asked}, marks), frame.output)
        return
    async with frame.client() as client:
        found = await client.find(NAMESPACES, name, decode=Partial)
        if found is None:
            raise ConfigError(f"there is no namespace {name}; create it first")
        stays = namespace_stays(name, found.metadata.labels, liqo_namespace)
        if stays:
            raise ConfigError(stays)
        _check_closed(fail_closed, {**await present(client, name), **asked})
        async with presence.daemon(client, liqo_namespace, frame.progress, frame.timings):
            frame.progress(f"record that {name} is offloaded")
            generation = await spread(client, name, asked, marks)
            frame.progress(f"wait for the daemon to spread {name}")
            status = await offloaded(client, name, generation)
        webhook = await _webhook_problem(client)
    _report(frame, name, status, webhook)


def _asked(
    pods: PodStrategy | None,
    mapping: MappingStrategy | None,
    remote: str,
    selectors: list[str] | None,
) -> dict[str, Any]:
    """The fields that are named on the command line, and no more."""
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
            raise Misuse(str(error)) from error
    return asked


def _check_closed(fail_closed: bool | None, spec: dict[str, Any]) -> None:
    """Raises Misuse where pods would be refused that may run here all the same."""
    if fail_closed and spec["podOffloadingStrategy"] != PodStrategy.REMOTE:
        raise Misuse(
            "--fail-closed goes with --pod-offloading-strategy Remote, and only with it: elsewhere "
            "pods may run here"
        )


async def _webhook_problem(client: Client) -> str:
    """Why the API server cannot reach the pod webhook, or nothing."""
    with suppress(LiqodError):
        verdict = await presence.webhook_verdict(client)
        return "" if verdict == labels.TRUE else verdict
    return ""


def _report(frame: Frame, namespace: str, status: dict[str, Any], webhook: str) -> None:
    phase = status["offloadingPhase"]
    clusters = status.get("remoteNamespacesConditions", {})
    for cluster, conditions in sorted(clusters.items()):
        for condition in conditions:
            if condition["type"] == "Ready":
                good = condition["status"] == "True"
                remote = status.get("remoteNamespaceName", "")
                text = remote if good else condition.get("message", "")
                frame.print_text(f"{namespace} → {cluster}: {printable(text)}")
    remote = printable(status.get("remoteNamespaceName", ""))
    if clusters and remote not in ("", namespace):
        terminal.note(
            f"pods there find its Services by short names (web) and as web.{remote}.svc, not as "
            f"web.{namespace}.svc; --namespace-mapping-strategy EnforceSameName gives the "
            "namespace one name everywhere, where the peers have none of that name"
        )
    if webhook:
        terminal.note(
            f"warning: the API server cannot reach liqod's webhook "
            f"({printable(webhook)}); pods get their toleration later, by patch"
        )
    if phase == "NoClusterSelected":
        frame.die(
            f"recorded, but no virtual node matches; {namespace} spreads when one does (labels "
            "that a provider declares count where believed_labels of [[peers]] names them)"
        )
    if phase != "Ready":
        frame.die(f"{namespace} is {phase}: not every peer took it; see `liqod status`")
