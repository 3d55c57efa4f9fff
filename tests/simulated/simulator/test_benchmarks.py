"""Each benchmark, at the smallest sizes, on embedded clusters: that it runs, and what it says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.report import Aim, Report

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
LIMIT = 570.0
"""Seconds, of the 600 that a test may take: a benchmark that hangs is ended with its test."""
TINY = {
    "offload": ["--pods", "2"],
    "peers": ["--peers", "2", "--idle", "0.5"],
    "meeting": ["--rounds", "1"],
    "rest": ["--peers", "1", "--seconds", "1", "--settle", "1", "--ways", "killed"],
    "reflection": ["--rounds", "2", "--many", "3"],
    "restart": ["--pods", "2"],
    "streams": ["--streams", "3", "--mebibytes", "1"],
    "placement": ["--pods", "2", "--rounds", "1", "--seconds", "1", "--modes"],
    "services": ["--rounds", "2", "--exports", "3", "--seconds", "1", "--settle", "1"],
    "channel": ["--pods", "1", "--channels", "3", "--seconds", "0.2"],
}
EVERY_RUN = "streams"
"""The benchmark that is tried in every run, not only where those have changed."""
HOLDS = {
    "offload": lambda found: found["runs"][0]["offloaded"]["until_ready"]["peer_bytes_in"] > 1000,
    "peers": lambda found: found["peers"][1]["resident"] > 10 << 20,
    "meeting": lambda found: (
        {each["way"] for each in found["peerings"]} == {"by a line", "by name"}
    ),
    "rest": lambda found: found["noticed_seconds"]["killed"] > 0,
    "reflection": lambda found: len(found["milliseconds"]["Service"]) == 2,
    "streams": lambda found: found["cost"]["carried"] > 1000,
    "channel": lambda found: found["pods"]["channel"]["bytes"] > 1000,
    "placement": lambda found: found["memory"]["written"] > 1000 and found["writes"]["rest"] == 0,
    "services": lambda found: (
        found["written"] == {} and min(found["milliseconds"]["peer changed"]) > 0
    ),
    "restart": lambda found: 0 < found["starts"]["milan"]["taken"] < 30,
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == EVERY_RUN else pytest.mark.kubernetes)
        for name in TINY
    ],
)
def test_a_benchmark_measures(name, tmp_path):
    path = tmp_path / "figures.json"
    words = [*TINY[name], "--embedded", "--json", str(path)]
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(path.read_text())
    assert HOLDS[name](found)
    assert "cores" in found["machine"]
    assert done.stdout.startswith(found["title"])


def test_a_report_says_what_is_above_its_aim():
    report = Report("Title", rows=[("", "here"), ("s", "2.0")])
    report.aims = [(Aim("time, s", "3-4", 1.0), 1.25), (Aim("memory, MiB", "66", 1.5), 0.8)]
    text = report.text()
    assert "time, s       3-4    ≤ 1  1.25  above\n" in text
    assert "memory, MiB    66  ≤ 1.5  0.80\n" in text
    assert "token request" in text
