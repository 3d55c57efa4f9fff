"""``plan``: show what applying manifests would begin, move, end or be refused, at which cluster."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SECRETS
from liqod.cli import manifests, plannedsettings
from liqod.cli.frame import OUTPUTS, Frame, command
from liqod.cli.options import LiqoNamespace
from liqod.cli.plannedsettings import Where
from liqod.cluster.ownid import cluster_id
from liqod.config import Config, load
from liqod.model.text import printable
from liqod.model.view.figures import counted
from liqod.procedures.dryrun import PlannedObject, differences, shown
from liqod.procedures.planning import PlannedChange, Planning

CHANGES: Final = 2
"""Exit status where applying them would change something."""
FIELDS: Final = 20
"""Fields of one object that are shown."""
LONG: Final = 60
"""Characters of a value that are shown."""


@command(timeout=60.0, outputs=OUTPUTS)
async def plan(
    frame: Frame,
    filename: Annotated[
        list[str],
        typer.Option(
            "--filename", "-f", help="A folder, with those in it, a file, or - for standard input."
        ),
    ],
    prune: Annotated[
        str,
        typer.Option(
            metavar="LABELS",
            help="Objects of liqod with these labels that no manifest has would be deleted.",
        ),
    ] = "",
    config: Annotated[
        Path | None,
        typer.Option(
            help="The daemon's settings on a host as they are: a liqod.toml is compared with them.",
            show_default="LIQOD_CONFIG",
        ),
    ] = None,
    field_manager: Annotated[
        str, typer.Option(help="As which the objects are applied on the server.")
    ] = "kubectl",
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Show what applying manifests would do, and at which cluster.

    It names what would begin, move, change, end or be refused. Nothing is changed. The API server
    says what becomes of each object (a dry run), and liqod what comes of that, by the code that
    decides it. The order of the manifests counts for nothing. A file liqod.toml has the settings of
    a daemon on a host, and the Secret liqod those of one in the cluster.

    The exit status is 0 where nothing would change, 2 where something would, and 1 where something
    is refused, or nothing could be found out.

    \b
    Examples:
      liqod plan -f manifests
      liqod plan -f manifests --prune app.kubernetes.io/part-of=peerings
      kustomize build overlay | liqod plan -f -
    """
    found, files = manifests.read(filename), manifests.settings(filename)
    before = _present(config) if files else None
    async with frame.client() as client:
        frame.progress("ask the API server what would change")
        here = await cluster_id(client, liqo_namespace)
        planning = Planning(client, here, liqo_namespace, field_manager)
        changes = await planning.plan(found, prune, by_nodes=bool(files))
        where = Where(here, liqo_namespace, planning.objects)
        with_settings = [plannedsettings.of_file(*each, before, where) for each in files]
        for place, each in enumerate(changes):
            if plannedsettings.has_settings(each.object, liqo_namespace):
                changes[place] = await planning.with_pods(_with_settings(each, where))
        changes += [await planning.with_pods(each) for each in with_settings]
    if not frame.show(_report(here, changes)):
        frame.print_text("\n".join(_text(changes)), lines=True)
    if any(each.refused for each in changes):
        raise SystemExit(1)
    if any(_counts(each) for each in changes):
        raise SystemExit(CHANGES)


def _present(path: Path | None) -> Config | None:
    """The settings of this host's daemon as they are; None where no file is named.

    Raises:
        ConfigError: the file cannot be read, or makes no sense.
    """
    if path is None and not os.environ.get("LIQOD_CONFIG"):
        return None
    return load(str(path or os.environ["LIQOD_CONFIG"]), {})


def _with_settings(change: PlannedChange, where: Where) -> PlannedChange:
    """A change of an object with settings, with what comes of them."""
    found = plannedsettings.consequences(change.object, where)
    return msgspec.structs.replace(change, consequences=tuple(found))


def _counts(change: PlannedChange) -> bool:
    return change.object.change != "same" or bool(change.consequences)


def _report(here: str, changes: Iterable[PlannedChange]) -> dict[str, Any]:
    return {
        "cluster": here,
        "objects": [
            {
                "apiVersion": each.object.kind.api_version,
                "kind": each.object.kind.name,
                "namespace": each.object.namespace,
                "name": each.object.name,
                "source": each.object.source,
                "change": each.object.change,
                "problem": each.refused,
                "fields": [path for path, *_ in _fields(each.object)],
                "consequences": [
                    {"action": one.action, "cluster": one.cluster, "message": one.message}
                    for one in each.consequences
                ],
            }
            for each in changes
        ],
    }


def _text(changes: list[PlannedChange]) -> Iterable[str]:
    shown_ones = [each for each in changes if _counts(each)]
    for each in shown_ones:
        yield from _of_one(each)
    same = len(changes) - len(shown_ones)
    if not shown_ones:
        yield f"nothing would change: {counted(same, 'object')} as written"
    elif same:
        yield f"{counted(same, 'object')} would stay as they are"


def _of_one(change: PlannedChange) -> Iterable[str]:
    planned = change.object
    source = f"  ({printable(planned.source)})" if planned.source else ""
    yield f"{printable(planned.title)}: {planned.change}{source}"
    if planned.problem:
        yield f"  refused: {printable(planned.problem)}"
    if planned.change == "changed":
        for path, before, after in _fields(planned)[:FIELDS]:
            secret = planned.kind == SECRETS
            values = "" if secret else f": {_short(before)} → {_short(after)}"
            yield f"  {printable(path)}{values}"
    for each in change.consequences:
        yield f"  {each.action} at {printable(each.cluster)}: {printable(each.message)}"


def _fields(planned: PlannedObject) -> list[tuple[str, Any, Any]]:
    if planned.before is None or planned.after is None:
        return []
    return differences(shown(planned.before), shown(planned.after))


def _short(value: Any) -> str:
    text = "none" if value is None else printable(str(value))
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"
