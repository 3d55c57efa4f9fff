"""The effect of one bad peer of three on the others' pods: `python -m benchmarks.isolation`.

A consumer's daemon, and three providers in processes of their own, on embedded clusters. A relay
before one provider breaks its traffic in one way after another, while pods come and go there;
the start of pods on the other two is timed with and without the fault, in turns, from their create
to their Ready at the consumer. Where this may (as root), the programs that are measured run before
others.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import trio

from benchmarks.report import Aim, Report
from benchmarks.stage import parser, run
from tests.simulated.provider.isolation import FAULTS, borrowing
from tests.testbed.latency import HEAD, MEDIAN_RATIO, TAIL_SECONDS, Comparison, preferred, total

RATIO = Aim("median start with a bad peer elsewhere, × that without", "", MEDIAN_RATIO)
TAIL = Aim("p99 start with a bad peer elsewhere, ms later", "", TAIL_SECONDS * 1e3)


async def compare(chosen: argparse.Namespace, folder: Path) -> list[Comparison]:
    """One comparison for each fault that was chosen."""
    found = []
    async with borrowing(folder) as field:
        with preferred(field.children()):
            for name in chosen.faults or FAULTS:
                made = await field.compare(
                    name, rounds=chosen.rounds, count=chosen.pods, pace=chosen.pace
                )
                print("  ".join(made.row()), file=sys.stderr, flush=True)
                found.append(made)
    return found


def measure(chosen: argparse.Namespace) -> Report:
    """The table; times in ms, * with the fault."""
    with tempfile.TemporaryDirectory(prefix="liqod-isolation-") as folder:
        found = trio.run(compare, chosen, Path(folder))
    whole = total(found)
    report = Report("One bad peer of three", rows=[HEAD, *(one.row() for one in (*found, whole))])
    report.aims += [(RATIO, whole.ratio), (TAIL, whole.tail * 1e3)]
    report.figures["seconds"] = {
        one.fault: {"healthy": one.healthy, "faulty": one.faulty, "recovery": one.recovery}
        for one in found
    }
    return report


def arguments() -> argparse.ArgumentParser:
    """Its command line."""
    made = parser("isolation", __doc__ or "")
    made.set_defaults(embedded=True)
    made.add_argument("--rounds", type=int, default=2, help="times that each fault comes and goes")
    made.add_argument("--pods", type=int, default=40, help="pods timed in each window")
    made.add_argument("--pace", type=float, default=0.12, help="seconds between two of them")
    made.add_argument("faults", nargs="*", help=f"some of: {', '.join(FAULTS)}")
    return made


if __name__ == "__main__":
    sys.exit(run(measure, arguments()))
