"""``inbox``: who asks to borrow from this cluster; accept them, or deny them."""

from typing import Annotated, Any

import msgspec
import typer

from liqod.apimachinery import labels
from liqod.cli import typed
from liqod.cli.commands.peer import Others
from liqod.cli.frame import OUTPUTS, Frame, command, warn
from liqod.cli.options import LiqoNamespace
from liqod.cli.output import table
from liqod.procedures import answering, overcommit
from liqod.resources import IncomingPeering
from liqod.resources.peering import DENY

Asker = Annotated[
    str, typer.Argument(metavar="WHO", help="Cluster id of who asks, or the entry's name.")
]
Always = Annotated[
    bool, typer.Option("--always", help="Also for what this cluster asks later, with this key.")
]


@command(timeout=30.0, outputs=OUTPUTS)
async def inbox(frame: Frame, liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE) -> None:
    """Show who asks to borrow from this cluster.

    Compare the words with those that the other side shows, by telephone say: they are the same on
    both sides unless somebody stands between.

    \b
    Examples:
      liqod inbox
      liqod inbox accept rome --cpu 2
      liqod inbox deny rome --always
    """
    async with frame.client() as client:
        found = await answering.entries(client, liqo_namespace)
    if frame.show([_row(each) for each in found]):
        return
    if not found:
        frame.print_text("nobody asks")
        return
    header = ["WHO", "ASKS FOR", "WORDS", "STATE", "FROM", "NOTE"]
    rows = [_cells(each, found) for each in found]
    frame.print_text(table(rows, header), lines=True)


@command(timeout=30.0, outputs=OUTPUTS)
async def accept(
    frame: Frame,
    who: Asker,
    cpu: Annotated[str, typer.Option(help="CPUs to grant, where less than was asked.")] = "",
    memory: Annotated[str, typer.Option(help="Likewise memory.")] = "",
    pods: Annotated[str, typer.Option(help="Likewise pods.")] = "",
    resource: Others = None,
    always: Always = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="It was known by another key: this is it now.")
    ] = False,
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Let a cluster borrow what it asks for, or less.

    The grant bounds all that it is ever given here, later slices included, until something else is
    agreed. A request that was denied, or is over, is not let in any more: its
    cluster asks again. For one that was let in already, --always says that it is for later, too.

    \b
    Examples:
      liqod inbox accept rome
      liqod inbox accept rome --cpu 2 --memory 4Gi
      liqod inbox accept rome-5a3c9e01 --always
    """
    less = typed.quantities(cpu, memory, pods, resource or [])
    async with frame.client() as client:
        entry = await answering.entry(client, liqo_namespace, who)
        decision = answering.acceptance(entry, less, always=always, replace=replace)
        frame.progress("write the decision")
        await answering.decide(client, liqo_namespace, entry, decision)
        frame.progress(f"let {entry.spec.cluster_id} in")
        done = await answering.taken_up(client, liqo_namespace, entry.name)
        more = await overcommit.beyond(client, done.status.granted, entry.spec.cluster_id)
    if more:
        warn(more)
    said = answering.outcome(done)
    if not frame.show(_row(done)):
        frame.print_text(said)


@command(timeout=30.0, outputs=OUTPUTS)
async def deny(
    frame: Frame,
    who: Asker,
    always: Always = False,
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Do not let a cluster in.

    With --always it is not let in later either; done again without, what it asks later waits for an
    answer. One that was let in already is not denied but revoked (`liqod revoke`).

    \b
    Examples:
      liqod inbox deny rome
      liqod inbox deny rome --always
    """
    async with frame.client() as client:
        entry = await answering.entry(client, liqo_namespace, who)
        frame.progress("write the decision")
        await answering.decide(client, liqo_namespace, entry, answering.denial(always=always))
    decided = {"decision": DENY, "always": always}
    if not frame.show({**_row(entry), **decided}):
        frame.print_text(answering.denied(entry, always=always))


def _row(entry: IncomingPeering) -> dict[str, Any]:
    spec, status = entry.spec, entry.status
    return {
        "name": entry.name,
        "clusterID": spec.cluster_id,
        "words": status.words,
        "phase": status.phase,
        "decision": spec.decision,
        "always": spec.always,
        "resources": msgspec.to_builtins(spec.resources),
        "granted": msgspec.to_builtins(status.granted),
        "source": spec.source,
        "labels": spec.labels,
        "reason": status.reason,
        "expires": status.expires,
    }


def _cells(entry: IncomingPeering, among: list[IncomingPeering]) -> list[str]:
    spec, status = entry.spec, entry.status
    alone = sum(each.spec.cluster_id == spec.cluster_id for each in among) == 1
    asked = ", ".join(f"{name} {n}" for name, n in spec.resources.items()) or "the defaults"
    state = status.phase or "new"
    return [
        spec.cluster_id if alone else entry.name,
        asked,
        status.words,
        f"{state}, always" if spec.always else state,
        spec.source,
        status.reason,
    ]
