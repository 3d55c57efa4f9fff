"""``migrate``: from Liqo to liqod in a cluster whose pods run at peers, and back."""

from collections import Counter
from typing import Annotated

import typer

from liqod.apimachinery import labels
from liqod.cli import terminal
from liqod.cli.frame import Frame, command
from liqod.cli.options import LiqoNamespace, Yes
from liqod.errors import ConfigError
from liqod.install import migration
from liqod.install.migration import LiqoSurvey

MINUTES = 5
"""How long Kubernetes leaves pods on a node whose kubelet has ended, unless they ask for another
time (``tolerationSeconds`` of 300 that it gives to every pod)."""

STANDSTILL = "which carries nothing from the end of Liqo's gateway to the start of liqod's daemon"


@command(timeout=300.0)
async def migrate(
    frame: Frame,
    back: Annotated[
        bool, typer.Option("--back", help="From liqod to Liqo instead: take liqod out.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what goes and what stays; change nothing.")
    ] = False,
    without_network: Annotated[
        bool,
        typer.Option("--without-network", help="Go on though a network to a peer cannot go on."),
    ] = False,
    yes: Yes = False,
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Take over from Liqo, under running pods.

    Liqo's programs go; its peerings and joined networks are left to liqod. Pods at peers and those
    of peers run on.
    A migration that was broken off is continued by doing it again. docs/how-to/migration.md has all
    steps.

    \b
    Examples:
      liqod migrate --dry-run
      liqod migrate
      liqod migrate --back
    """
    if back:
        await _back(frame, dry_run, yes, liqo_namespace)
        return
    async with frame.client() as client:
        frame.progress("look at what Liqo has here")
        found = await migration.survey(client, liqo_namespace)
    for line in lines(found):
        frame.print_text(line)
    if found.ends and not without_network:
        name, why = found.ends[0]
        raise ConfigError(
            f"the network of {name} cannot go on with liqod: {why}; --without-network ends it "
            "(and that of the others that are named above)"
        )
    if dry_run or not found.doomed:
        return
    frame.confirm(f"removes Liqo's programs from {found.cluster_id}", yes=yes)
    async with frame.client() as client:
        await migration.take_out(client, liqo_namespace, frame.progress)
    frame.print_text(
        f"Liqo's programs are gone; within {MINUTES} minutes, before pods on virtual nodes are "
        "evicted:\nnext: liqod install --write-kubeconfig daemon.kubeconfig\n"
        "then: LIQOD_KUBECONFIG=daemon.kubeconfig liqod run",
        lines=True,
    )


def lines(found: LiqoSurvey) -> list[str]:
    """Lines that say what goes and what stays, for a person."""
    kinds = Counter(one.kind.name for one in found.doomed)
    made = [f"cluster {found.cluster_id}"]
    made += [f"goes: {one}" for one in found.doomed]
    if not kinds:
        made.append("goes: nothing; Liqo's programs are not here")
    else:
        made.append("goes in all: " + ", ".join(f"{n} {kind}" for kind, n in kinds.items()))
    nodes = ", ".join(found.nodes) or "none"
    made += [f"goes on with liqod: the network of {one}, {STANDSTILL}" for one in found.joined]
    made += [f"ends: the network of {one}: {why}" for one, why in found.ends]
    made.append(f"stays: virtual nodes {nodes}, with {found.offloaded} pods on them")
    made.append(f"stays: {found.guests} pods of peers, all peerings, namespaces and credentials")
    return made


async def _back(frame: Frame, dry_run: bool, yes: bool, namespace: str) -> None:
    what = "removes liqod's program, roles, policies and webhook, and hands over what Liqo has too"
    if dry_run:
        terminal.print_text(f"{what}; all peerings, namespaces, pods and credentials stay")
        return
    frame.confirm(what, yes=yes)
    async with frame.client() as client:
        try:
            name = await migration.give_back(client, namespace, frame.progress)
        except ConfigError as error:
            raise ConfigError(f"{error}; nothing of the peerings was changed") from error
    frame.print_text(
        f"liqod's programs are gone; within {MINUTES} minutes, before pods on virtual nodes are "
        f"evicted:\nnext: liqoctl install --cluster-id {name}, with the values that Liqo had here",
        lines=True,
    )
