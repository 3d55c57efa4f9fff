"""The whole set, one benchmark after another: what `make bench` runs, in some ten minutes.

Each prints its table as it ends; the last table holds all that is aimed at. `python -m
benchmarks.NAME --help` explains each: offload, peers, meeting, rest, reflection, restart.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks import meeting, offload, peers, reflection, rest, restart
from benchmarks.report import Report
from benchmarks.stage import parser, run

SET = (
    (offload, ()),
    (peers, ("--idle", "15")),
    (meeting, ()),
    (rest, ("--peers", "32")),
    (reflection, ()),
    (restart, ()),
)
EMBEDDED = {peers: ("--peers", "16", "--idle", "10")}
"""The arguments that differ on embedded clusters."""


def measure(chosen: argparse.Namespace) -> Report:
    """All of them; a report of the aims."""
    whole = Report("All that is aimed at")
    for module, words in SET:
        if chosen.embedded:
            words = (*EMBEDDED.get(module, words), "--embedded")
        report = module.measure(module.arguments().parse_args(words))
        print(report.text(), end="\n\n", flush=True)
        whole.aims += report.aims
        whole.figures[module.__name__.rpartition(".")[2]] = report.figures
    return whole


if __name__ == "__main__":
    sys.exit(run(measure, parser("", __doc__ or "")))
