"""The packages of `examples/plugins`: built, installed, loaded, and tried by their own tests."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from liqod.cli import plugintemplate
from tests.testbed import pages, shownblocks

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "plugins"
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
NETWORK = "rope"


def ran(folder: Path, *words: str) -> str:
    """The output of a Python module that is run beside the installed package."""
    # The suites are not installed in an environment that is made for liqod's own tests.
    places = f"{folder / 'site'}:{ROOT}"
    answer = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": places, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def installed(name: str, folder: Path) -> None:
    """Build the package of an example, and install it into ``site`` below a folder."""
    shutil.copytree(EXAMPLES / name, folder / "source", ignore=LEFT_OUT)
    pip = ("pip", "--disable-pip-version-check", "--quiet")
    alone = ("--no-deps", "--no-build-isolation", "--no-index")
    ran(folder, *pip, "wheel", *alone, "--wheel-dir", "built", "./source")
    (wheel,) = (folder / "built").iterdir()
    ran(folder, *pip, "install", "--no-deps", "--no-index", "--target", "site", str(wheel))


def is_active(name: str, folder: Path) -> bool:
    """True if a daemon would load the installed plugin."""
    listed = ran(folder, "liqod", "plugins", "--config", os.devnull)
    (row,) = [each.split() for each in listed.splitlines() if f"liqod-{name}" in each]
    return row[0] == name and "active" in row


def passes_its_tests(folder: Path) -> bool:
    """True if the package's own tests pass, without any settings of liqod's."""
    said = ran(folder, "pytest", "-q", "-c", os.devnull, "--rootdir", ".", "source/tests")
    return "passed" in said and "skipped" not in said


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "lamps",
        *(
            pytest.param(name, marks=pytest.mark.plugins)
            for name in ("hosts", "kubernetes-version")
        ),
    ],
)
def test_an_example_is_built_loaded_and_keeps_its_contract(name: str, tmp_path: Path) -> None:
    installed(name, tmp_path)
    assert is_active(name, tmp_path)
    assert passes_its_tests(tmp_path)


@pytest.mark.plugins
@pytest.mark.netns
@pytest.mark.usefixtures("networks")
def test_the_tunnel_is_built_loaded_and_keeps_its_contract(tmp_path: Path) -> None:
    installed(NETWORK, tmp_path)
    assert is_active(NETWORK, tmp_path)
    assert passes_its_tests(tmp_path)


def test_no_example_is_left_out() -> None:
    assert {each.name for each in EXAMPLES.iterdir()} == {
        "lamps",
        "hosts",
        "kubernetes-version",
        NETWORK,
    }


@pytest.mark.plugins
@pytest.mark.long
def test_the_page_on_writing_one_works_as_it_stands(tmp_path: Path) -> None:
    # The suites are not installed in an environment that is made for liqod's own tests.
    (tmp_path / "simulator").symlink_to(ROOT / "simulator")
    terminal = pages.Terminal(tmp_path, tmp_path)
    done = terminal.follow(shownblocks.whole("how-to/write-a-plugin"), {})
    for kind in plugintemplate.ABOUT:
        assert any(line.startswith(f"liqod plugins new {kind} ") for line, _ in done)
