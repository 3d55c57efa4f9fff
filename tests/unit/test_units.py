"""The systemd units: good by systemd's own judgement, and agreeing with the daemon."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from liqod.daemon import GRACE

UNITS = sorted((Path(__file__).parents[2] / "systemd").glob("*.service"))
STEPS = Path(__file__).parents[2] / "docs" / "systemd.md"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_finds_nothing_wrong(unit: Path, tmp_path: Path):
    # The program is not where a package puts it, so the copy that is verified names another.
    text = unit.read_text().replace("ExecStart=/opt/liqod/bin/liqod", "ExecStart=/bin/true")
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


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_each_path_that_a_unit_names_is_made_by_a_step_of_the_documentation(unit: Path):
    text = unit.read_text()
    named = re.findall(r"^ExecStart=(\S+) run --config (\S+)$", text, re.M)[0]
    credential = re.findall(r"^LoadCredential=kubeconfig:(\S+)$", text, re.M)[0]
    wanted = {path.replace("%i", "rome") for path in (*named, credential)}
    steps = [shlex.split(line.strip()) for line in STEPS.read_text().splitlines() if "sudo" in line]
    made = {words[-1] for words in steps if words[:2] in (["sudo", "install"], ["sudo", "ln"])}
    (environment,) = (words[-1] for words in steps if words[1:4] == ["python3", "-m", "venv"])
    made |= {f"{environment}/bin/liqod", f"{environment}/bin/pip"}
    assert wanted <= made
    assert f"/etc/systemd/system/{unit.name}" in made
    sources = {words[-2] for words in steps if words[:2] == ["sudo", "install"]}
    assert f"systemd/{unit.name}" in sources
    name = unit.name.removesuffix(".service").replace("@", "@rome")
    assert ["sudo", "systemctl", "enable", "--now", name] in steps


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_a_unit_leaves_little_open():
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--threshold=15", "--no-pager", UNITS[0]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_no_crash_leaves_its_memory_on_a_disk():
    for unit in UNITS:
        assert "LimitCORE=0" in unit.read_text().splitlines()
