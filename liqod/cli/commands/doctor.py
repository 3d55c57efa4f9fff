"""``liqod doctor``: which layer fails, since when, by what evidence, and what to do about it.

``--bundle`` packs what a bug report needs (:mod:`liqod.cli.bundle`).
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from liqod.apimachinery import labels
from liqod.cli import output
from liqod.cli.frame import OUTPUTS, Frame, command
from liqod.cli.options import LiqoNamespace, OnePeer
from liqod.inspect.protocol import Examine
from liqod.model.text import printable
from liqod.model.view import problems
from liqod.model.view.figures import span
from liqod.model.view.headline import first_failing
from liqod.model.view.rows import GLYPHS, CheckRow, Ladder

if TYPE_CHECKING:
    from liqod.cli.clusterdiagnosis import Diagnosis

UNHEALTHY = 1


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
    first, and then that cluster's daemon, where it runs on this machine. Where Services are shared,
    its DNS server is asked for a name of the set, which takes a node or a pod of it.

    \b
    Examples:
      liqod doctor
      liqod doctor milan --probe
      liqod doctor --bundle report.tar.gz
    """
    if bundle is not None:
        from liqod.cli.bundle import pack  # brings what looks at distributions

        await pack(frame, bundle, liqo_namespace)
        return
    from liqod.cli.clusterdiagnosis import examine  # brings certificates

    found = await examine(frame, liqo_namespace, Examine(id=1, peer=peer, probe=probe))
    if not frame.show(found):
        frame.print_text(render(found, time.time()), lines=True)
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
