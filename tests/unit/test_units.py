"""The systemd units: good by systemd's own judgement, and agreeing with the daemon."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from liqod.daemon import GRACE

UNITS = sorted((Path(__file__).parents[2] / "systemd").glob("*.service"))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_finds_nothing_wrong(unit: Path, tmp_path: Path):
    # The program is not where a package puts it, so the copy that is verified names another.
    text = unit.read_text().replace("ExecStart=/usr/bin/liqod", "ExecStart=/bin/true")
    name = unit.name.replace("@", "@rome")
    (tmp_path / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / name)],
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = [line for line in done.stderr.splitlines() if name in line]
    assert (done.returncode, complaints) == (0, [])


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_waits_longer_than_the_daemon_needs(unit: Path):
    stop = re.search(r"^TimeoutStopSec=(\d+)$", unit.read_text(), re.M)
    assert stop is not None
    assert int(stop[1]) > 10 > GRACE


def test_both_units_are_hardened_alike():
    one, many = ({line for line in unit.read_text().splitlines() if "=" in line} for unit in UNITS)
    keys = {line.split("=")[0] for line in one ^ many}
    assert keys <= {"Description", "ExecStart", "LoadCredential", "RuntimeDirectory"}
