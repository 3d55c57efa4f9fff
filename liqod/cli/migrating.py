"""``migrate``: from Liqo to liqod in a cluster whose pods run at peers, and back."""

from collections import Counter
from typing import Annotated, NoReturn

import typer

from liqod.cli import common, terminal
from liqod.errors import ConfigError
from liqod.install import migration
from liqod.install.migration import Found
from liqod.model import labels

MINUTES = 5
"""How long Kubernetes leaves pods on a node whose kubelet has ended, unless they ask for another
time (``tolerationSeconds`` of 300 that it gives to every pod)."""


def migrate(
    back: Annotated[
        bool, typer.Option("--back", help="From liqod to Liqo instead: take liqod out.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what goes and what stays; change nothing.")
    ] = False,
    without_network: Annotated[
        bool,
        typer.Option("--without-network", help="Go on though Liqo's network to a peer ends."),
    ] = False,
    yes: common.Yes = False,
    liqo_namespace: common.LiqoNamespace = labels.LIQO_NAMESPACE,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 300.0,
) -> None:
    """Take over from Liqo, under running pods.

    Liqo's programs go; its peerings are left to liqod. Pods at peers and those of peers run on.
    Whatever broke off is continued by doing it again. docs/migration.md has every step.

    \b
    Examples:
      liqod migrate --dry-run
      liqod migrate
      liqod migrate --back
    """
    if back:
        _back(dry_run, yes, liqo_namespace, kubeconfig, context, timeout)
        return

    async def look(progress: common.Progress) -> Found:
        async with await common.connect(kubeconfig, context) as client:
            progress("look at what Liqo has here")
            return await migration.look(client, liqo_namespace)

    found = common.run(look, timeout=timeout)
    for line in lines(found):
        terminal.say(line)
    if found.network and not without_network:
        _refuse(found)
    if dry_run or not found.doomed:
        return
    common.confirm(f"removes Liqo's programs from {found.cluster_id}", yes=yes)

    async def main(progress: common.Progress) -> None:
        async with await common.connect(kubeconfig, context) as client:
            again = await migration.look(client, liqo_namespace)
            await migration.take_out(client, again, progress)

    common.run(main, timeout=timeout)
    terminal.say(
        f"Liqo's programs are gone; within {MINUTES} minutes, before pods on virtual nodes are "
        "evicted:\nnext: liqod install --write-kubeconfig daemon.kubeconfig\n"
        "then: LIQOD_KUBECONFIG=daemon.kubeconfig liqod run",
        lines=True,
    )


def _refuse(found: Found) -> NoReturn:
    common.die(
        f"Liqo's network is set up here ({', '.join(found.network)}): pods reach those of a "
        "peer by it, and liqod does not carry it on; --without-network ends it"
    )


def lines(found: Found) -> list[str]:
    """What goes and what stays, for a person."""
    kinds = Counter(one.kind.name for one in found.doomed)
    made = [f"cluster {found.cluster_id}"]
    made += [f"goes: {one}" for one in found.doomed]
    if not kinds:
        made.append("goes: nothing; Liqo's programs are not here")
    else:
        made.append("goes in all: " + ", ".join(f"{n} {kind}" for kind, n in kinds.items()))
    nodes = ", ".join(found.nodes) or "none"
    made.append(f"stays: virtual nodes {nodes}, with {found.offloaded} pods on them")
    made.append(f"stays: {found.guests} pods of peers, all peerings, namespaces and credentials")
    return made


def _back(
    dry_run: bool,
    yes: bool,
    namespace: str,
    kubeconfig: common.Kubeconfig,
    context: str,
    timeout: float,
) -> None:
    what = "removes liqod's program, roles, policies and webhook, and hands over what Liqo has too"
    if dry_run:
        terminal.say(f"{what}; all peerings, namespaces, pods and credentials stay")
        return
    common.confirm(what, yes=yes)

    async def main(progress: common.Progress) -> str:
        async with await common.connect(kubeconfig, context) as client:
            try:
                return await migration.give_back(client, namespace, progress)
            except ConfigError as error:
                raise ConfigError(f"{error}; nothing of the peerings was changed") from error

    name = common.run(main, timeout=timeout)
    terminal.say(
        f"liqod's programs are gone; within {MINUTES} minutes, before pods on virtual nodes are "
        f"evicted:\nnext: liqoctl install --cluster-id {name}, with the values that Liqo had here",
        lines=True,
    )
