"""``liqod doctor``: which layer fails, since when, by what evidence, and what to do about it.

``--bundle`` packs what a bug report needs: the daemon's state, events, log, tasks and findings,
and Liqo's objects. Everything goes through :mod:`liqod.model.view.redact` on its way into the file.
"""

import io
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from liqod import __version__
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES, PODS, Kind
from liqod.cli import files, output
from liqod.cli.frame import OUTPUTS, Frame, command
from liqod.cli.options import LiqoNamespace, OnePeer
from liqod.errors import LiqodError
from liqod.inspect.protocol import Examine, Findings, GetHistory, GetTasks, Metrics, Series, Tasks
from liqod.kube.selection import EVERY, Selection
from liqod.model.text import printable
from liqod.model.view import problems
from liqod.model.view.figures import counted, span
from liqod.model.view.headline import first_failing
from liqod.model.view.redact import redact, redact_value
from liqod.model.view.rows import GLYPHS, CheckRow, Ladder
from liqod.resources import DEFINITIONS
from liqod.runtime.progress import Step

if TYPE_CHECKING:
    from liqod.cli.diagnosis import Diagnosis
    from liqod.cli.inspector import InspectorClient

UNHEALTHY = 1
BUNDLED = ("rtt", "loss", "lag", "backlog", "cpu", "rss")
"""Metrics of which a bundle has the last ten minutes."""
POD_LIMIT = 500
BUNDLING = 120.0
"""Seconds that a bundle may take."""


@command(within=60.0, daemon=True, outputs=OUTPUTS, get=True)
async def doctor(
    frame: Frame,
    peer: OnePeer = "",
    probe: Annotated[
        bool, typer.Option("--probe", help="Look anew, and try a write that changes nothing.")
    ] = False,
    bundle: Annotated[
        Path | None, typer.Option(help="Pack state, log and objects into this .tar.gz.")
    ] = None,
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Find the first layer that fails, with evidence.

    Exit status 1 where one does, or where `liqod status` names a problem that no layer has:
    both go by one list. It is of the cluster that the kubeconfig leads to: the API server is asked
    first, and then that cluster's daemon, where it runs on this machine.

    \b
    Examples:
      liqod doctor
      liqod doctor milan --probe
      liqod doctor --bundle report.tar.gz
    """
    if bundle is not None:
        await _bundle(frame, bundle)
        return
    from liqod.cli.diagnosis import examine  # brings certificates

    found = await examine(frame, liqo_namespace, Examine(id=1, peer=peer, probe=probe))
    if not frame.show(found):
        frame.say(render(found, time.time()), lines=True)
    if unhealthy(found):
        raise SystemExit(UNHEALTHY)


def unhealthy(found: "Diagnosis") -> bool:
    """True if something is wrong, by the rule of ``liqod status``."""
    return not problems.well(found.problems)


def render(found: "Diagnosis", now: float) -> str:
    """The ladders as text: of each the verdict in one sentence, then the layers."""
    asked = "its daemon" if found.source == "daemon" else "its API server alone"
    why = f": {found.silent}" if found.silent else ""
    parts = [printable(f"cluster {found.cluster_id}, by {asked}{why}")]
    for ladder in found.ladders:
        whose = ladder.peer or "this cluster"
        head = printable(f"{whose}: {_sentence(ladder, now)}")
        rows = [
            [f"  {GLYPHS[check.verdict]}", check.title, _lasting(check, now), check.evidence or "-"]
            for check in ladder.checks
        ]
        table = output.table(rows, ["", "LAYER", "FOR", "EVIDENCE"], width=output.width())
        parts.append(f"{head}\n{table}")
    more = problems.uncovered(found.problems, found.ladders)
    if more:
        lines = (
            printable(f"  ! {f'[{each.peer}] ' if each.peer else ''}{each.what} → {each.remedy}")
            for each in more
        )
        parts.append("\n".join(("also wrong, as `liqod status` has it:", *lines)))
    return printable("\n\n".join(parts), lines=True)


def _sentence(ladder: Ladder, now: float) -> str:
    failing = first_failing(ladder)
    if failing is None:
        verdicts = [check.verdict for check in ladder.checks]
        unknown, skipped = verdicts.count("unknown"), verdicts.count("skipped")
        dark = [f"{unknown} not known"] if unknown else []
        dark += [f"{skipped} switched off"] if skipped else []
        return f"no layer fails, {', '.join(dark)}" if dark else "every layer works"
    remedy = f" → {failing.remedy}" if failing.remedy else ""
    lasting = f" for {_lasting(failing, now)}" if failing.since else ""
    return f"{failing.title} fails{lasting}: {failing.evidence}{remedy}"


def _lasting(check: CheckRow, now: float) -> str:
    return span(now - check.since) if check.since else "-"


async def _bundle(frame: Frame, path: Path) -> None:
    files.check_place(path)
    frame.allow(BUNDLING)
    packed: dict[str, Any] = {"about.json": {"version": __version__, "packed": time.time()}}
    frame.progress("ask the daemon")
    try:
        async with frame.daemon() as viewer:
            packed.update(await _daemon_files(viewer))
    except LiqodError as error:
        _lacks(packed, "daemon-error.json", error, frame)
    frame.progress("read the objects")
    try:
        async with frame.client() as client:
            packed.update(await _object_files(client))
    except LiqodError as error:
        _lacks(packed, "objects-error.json", error, frame)
    write(path, packed)
    frame.say(
        f"{path}: {counted(len(packed), 'file')}, without keys, tokens and contents of Secrets"
    )


def _lacks(packed: dict[str, Any], name: str, error: LiqodError, frame: Frame) -> None:
    """Put into the bundle, and say, why something is not in it."""
    packed[name] = str(error)
    frame.progress(Step(frame.progress.name, str(error)))
    frame.progress.failed()


async def _daemon_files(viewer: "InspectorClient") -> dict[str, Any]:
    first, state = await viewer.snapshot(events=1000, lines=500)
    found: dict[str, Any] = {
        "hello.json": viewer.hello,
        "state.json": state,
        "events.json": first.events,
        "log.json": first.lines,
        "tasks.json": await viewer.ask(GetTasks(id=viewer.number()), Tasks),
        "doctor.json": await viewer.ask(Examine(id=viewer.number()), Findings),
    }
    known = await viewer.ask(GetHistory(id=viewer.number()), Metrics)
    series = []
    for whose in ("", *sorted(state.peers)):
        for name in known.peer if whose else known.daemon:
            if name in BUNDLED:
                ask = GetHistory(id=viewer.number(), metric=name, peer=whose, span=600.0)
                series.append(await viewer.ask(ask, Series))
    return {**found, "history.json": series}


async def _object_files(client: Any) -> dict[str, Any]:
    kinds: list[Kind] = [each.resource.KIND for each in DEFINITIONS]
    files: dict[str, Any] = {}
    for kind in kinds:
        files[f"objects/{kind.plural}.json"] = await _objects(client, kind)
    virtual = f"{labels.TYPE}={labels.VIRTUAL_NODE_TYPE}"
    files["objects/nodes.json"] = await _objects(client, NODES, Selection(labels=virtual))
    for node in files["objects/nodes.json"]:
        name = node.get("metadata", {}).get("name", "")
        found = await _objects(client, PODS, Selection(fields=f"spec.nodeName={name}"))
        files[f"objects/pods-{name}.json"] = found[:POD_LIMIT]
    return files


async def _objects(client: Any, kind: Kind, selection: Selection = EVERY) -> list[dict[str, Any]]:
    try:
        found = await client.list(kind, selection)
    except LiqodError as error:
        return [{"error": str(error)}]
    return [redact({"kind": kind.name, **each}) for each in found]


def write(path: Path, packed: dict[str, Any]) -> None:
    """A bundle with these files, each redacted once more whatever it is, readable by its owner.

    Raises:
        ConfigError: it cannot be written.
    """
    data_of = io.BytesIO()
    with tarfile.open(fileobj=data_of, mode="w:gz") as archive:
        for name, value in packed.items():
            plain = redact_value(msgspec.to_builtins(value))
            data = msgspec.json.format(msgspec.json.encode(plain), indent=1)
            entry = tarfile.TarInfo(f"liqod/{name}")
            entry.size, entry.mtime, entry.mode = len(data), int(time.time()), 0o600
            archive.addfile(entry, io.BytesIO(data))
    files.write_private(path, data_of.getvalue())
