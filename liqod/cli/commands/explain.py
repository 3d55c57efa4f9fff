"""``explain``: show the nodes that would have a pod, the origin of a virtual node's numbers, or the
endpoints of a Service at peers or of the set."""

from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec
import typer

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import PODS
from liqod.cli import manifests
from liqod.cli.frame import OUTPUTS, Frame, command
from liqod.cli.options import LiqoNamespace
from liqod.cli.statustext import quantities
from liqod.cluster.ownid import cluster_id
from liqod.errors import Misuse
from liqod.kube.client import Client
from liqod.model.text import printable
from liqod.model.view.figures import counted
from liqod.model.view.podanswer import PodAnswer, goes, pod_lines
from liqod.model.view.serviceanswer import ServiceAnswer
from liqod.model.view.serviceways import ways_text
from liqod.procedures import explaining, serviceexplaining, sharedservices
from liqod.procedures.nodeexplaining import VirtualNodeAnswer, explain_node

NOWHERE: Final = 3
"""Exit status where a pod would go to no node."""
SERVICES: Final = (
    *("serviceexport", "serviceexports", "svcex", "svcexport"),
    *("serviceimport", "serviceimports", "svcim", "svcimport"),
)
"""The words for a Service of the set."""
PLAIN: Final = ("service", "services", "svc")
"""The words for a Service."""


@command(timeout=60.0, outputs=OUTPUTS, get=True)
async def explain(
    frame: Frame,
    kind: Annotated[
        str,
        typer.Argument(
            help="pod, deployment, statefulset, job, replicaset, node, service, or serviceimport."
        ),
    ] = "",
    name: Annotated[str, typer.Argument(help="Its name.")] = "",
    filename: Annotated[
        list[str],
        typer.Option(
            "--filename", "-f", help="Manifests that need not be applied; - for standard input."
        ),
    ] = (),  # type: ignore[assignment]
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Its namespace.")] = "default",
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Show the nodes for a pod, and the rules against others.

    For this cluster's nodes and each peer's it shows the rules against the pod, their evidence, and
    the change that it takes. Changes by OverridePolicies on the way to a peer are shown, too. Of a
    workload the template of its pods is explained, and where its replicas are.

    Affinity to other pods, topology spread and volumes are judged by the pods that are there now.

    `liqod explain node` shows the origin of a virtual node's numbers.

    `liqod explain service` shows the endpoints that clients at each peer have, and the way to those
    at other peers.

    `liqod explain serviceimport`, and `serviceexport` with the same answer, shows each cluster's
    endpoints of a Service of the set, and why there are none.

    The exit status is 0 where it would go somewhere, and 3 where it would go nowhere; of a Service
    3 where no endpoint is ready.

    \b
    Examples:
      liqod explain pod web-0 -n shop
      liqod explain deployment web -n shop
      liqod explain -f web.yaml -n shop
      liqod explain node milan
      liqod explain service web -n shop
      liqod explain serviceimport web -n shop
    """
    if bool(filename) == bool(kind or name) or bool(kind) != bool(name):
        raise Misuse("say KIND and NAME, such as pod web, or manifests with -f")
    async with frame.client() as client:
        if kind.lower() in ("node", "nodes"):
            told = await explain_node(client, name)
            if not frame.show(msgspec.to_builtins(told)):
                frame.print_text("\n".join(virtual_node_lines(told)), lines=True)
            return
        if kind.lower() in PLAIN:
            ways = await serviceexplaining.explain(client, name, namespace, liqo_namespace)
            if not frame.show(msgspec.to_builtins(ways)):
                frame.print_text("\n".join(map(printable, ways_text(ways))), lines=True)
            if not ways.ready:
                raise SystemExit(NOWHERE)
            return
        if kind.lower() in SERVICES:
            own = await cluster_id(client, liqo_namespace)
            answer = await sharedservices.explain(client, own, (namespace, name))
            if not frame.show(msgspec.to_builtins(answer)):
                frame.print_text("\n".join(service_text(answer)), lines=True)
            if not answer.ready:
                raise SystemExit(NOWHERE)
            return
        bodies = await _bodies(client, kind, name, filename, namespace)
        answers = [
            await explaining.explain(client, body, place, liqo_namespace) for body, place in bodies
        ]
    if not frame.show([_report(each) for each in answers]):
        lines = [line for each in answers for line in pod_lines(each)]
        frame.print_text("\n".join(lines), lines=True)
    if not all(map(goes, answers)):
        raise SystemExit(NOWHERE)


async def _bodies(
    client: Client, kind: str, name: str, filename: list[str], namespace: str
) -> list[tuple[dict[str, Any], str]]:
    """The objects that are meant, each with its namespace."""
    if not filename:
        meant = explaining.kind_of(kind)
        return [(await explaining.read(client, meant, name, namespace), namespace)]
    found = manifests.read(filename)
    kinds = {each.name for each in (PODS, *explaining.WORKLOADS)}
    made = [(each.body, each.namespace or namespace) for each in found if each.kind in kinds]
    if not made:
        raise Misuse(f"no manifest has pods: {', '.join(sorted(each.kind for each in found))}")
    return made


def _report(answer: PodAnswer) -> dict[str, Any]:
    return {
        "kind": answer.kind,
        "namespace": answer.namespace,
        "name": answer.name,
        "waits": answer.waits,
        "goes": goes(answer),
        "replicas": msgspec.to_builtins(answer.replicas),
        "nodes": [
            {
                "node": each.node,
                "peer": each.peer,
                "namespace": each.namespace,
                "runs": each.runs,
                "goes": not each.refusals,
                "refusals": [msgspec.to_builtins(one) for one in each.refusals],
                "policies": list(each.policies),
                "differences": [
                    {"path": path, "here": before, "there": after}
                    for path, before, after in each.differences
                ],
            }
            for each in answer.nodes
        ],
    }


def virtual_node_lines(told: VirtualNodeAnswer) -> Iterable[str]:
    """The lines that show where the numbers of a virtual node come from."""
    yield printable(f"{told.node}, of {told.peer}")
    titles = ("asked", "granted", "quota", "allocatable", "used")
    yield f"  {'':<24}{''.join(f'{each:>12}' for each in titles)}"
    for name in told.resources:
        columns = (told.asked, told.granted, told.quota, told.allocatable, told.used)
        shown = "".join(f"{printable(each.get(name, '-')):>12}" for each in columns)
        yield f"  {printable(name):<24}{shown}"
    for each in told.said:
        text = f": {printable(each.message)}" if each.message else ""
        when = f" since {printable(each.since)}" if each.since else ""
        yield f"  {told.peer} says {printable(each.type)} {printable(each.status)}{when}{text}"
    for machine in told.machines:
        sizes = ", ".join(f"{name} {value}" for name, value in sorted(machine.items()))
        yield f"  largest machine: {printable(sizes)}"
    if not told.machines:
        yield "  largest machine: the provider does not tell"
    yield from map(printable, _free(told))
    for warning in filter(None, (told.warning, told.hurt)):
        yield f"  {printable(warning)}"


def _free(told: VirtualNodeAnswer) -> Iterable[str]:
    """The provider's word on free resources, in all and for each group of its nodes."""
    if told.told is None:
        yield "  free: the provider does not tell"
        return
    yield f"  free, by its last word: {quantities(told.told.free)}"
    for size in told.told.largest:
        yield f"  largest pod by that: {quantities(size)}"
    for each in told.told.groups:
        marks = ", ".join(filter(None, (each.labels, each.taints)))
        machines = f"{counted(each.nodes, 'machine')}{marks and f' with {marks}'}"
        yield f"    {machines}: {quantities(each.free)}"
    if told.told.more:
        yield f"    and {counted(told.told.more, 'group')} more"


def service_text(told: ServiceAnswer) -> Iterable[str]:
    """The answer about a Service of the set as text, line by line."""
    what = f"{told.type or 'not imported'} {', '.join(told.ips)}".rstrip()
    yield printable(f"{told.namespace}/{told.name}: {what}, as {told.dns}")
    for each in told.said:
        yield f"  {printable(each)}"
    for one in told.clusters:
        ready = f"{one.ready} of {counted(one.total, 'endpoint')} ready" if one.ready else ""
        text = "; ".join(filter(None, (ready, one.why)))
        remedy = f" → {one.remedy}" if one.remedy else ""
        yield printable(f"  {one.cluster}: {text}{remedy}")
    if told.rewrite:
        yield f"  where CoreDNS has no option `multicluster`: {printable(told.rewrite)}"
