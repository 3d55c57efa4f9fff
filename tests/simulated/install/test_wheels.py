"""An installation from the wheels alone has what a checkout has: the program, its completions, its
man pages, the plugin of kubectl and the demo."""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement

from liqod import __version__
from liqod.cli import app
from tests.testbed.wheels import Installation

pytestmark = [pytest.mark.long, pytest.mark.release]

LIQOD, SIMULATOR = f"liqod-{__version__}", f"liqod_simulator-{__version__}"
WHEEL = "-py3-none-any.whl"
NAMES = (f"{LIQOD}{WHEEL}", f"{LIQOD}.tar.gz", f"{SIMULATOR}{WHEEL}", f"{SIMULATOR}.tar.gz")
VERBS = {words.split()[0] for words in app.COMMANDS}
PAGES = {"liqod.1", *(f"liqod-{verb}.1" for verb in VERBS)}


def run(made: Installation, folder: Path, *words: str, beside: str = "", quiet: bool = True) -> str:
    """The output of a program that finds those of the environment, and nothing of the checkout.

    Args:
        made: the environment.
        folder: where it runs.
        words: the program and its arguments.
        beside: a folder of other programs that it finds.
        quiet: it is to say nothing on stderr.
    """
    # kubectl complains of folders that are not there.
    others = [each for each in os.get_exec_path() if Path(each).is_dir()]
    path = os.pathsep.join([str(made.programs), *filter(None, [beside]), *others])
    done = subprocess.run(
        words,
        cwd=folder,
        env={"LANG": "C.UTF-8", "HOME": str(folder), "TMPDIR": str(folder), "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not quiet or done.stderr == ""
    return done.stdout


def metadata(made: Installation, distribution: str) -> Metadata:
    """The metadata of a distribution's wheel."""
    with zipfile.ZipFile(made.built / f"{distribution}{WHEEL}") as wheel:
        return Metadata.from_email(wheel.read(f"{distribution}.dist-info/METADATA"))


def packed(file: Path) -> set[str]:
    """The names of what a source distribution holds, without its own folder."""
    with tarfile.open(file) as archive:
        return {each.partition("/")[2] for each in archive.getnames()}


def test_a_copy_gives_the_same_bytes(installation: Installation):
    for folder in (installation.built, installation.again):
        assert sorted(each.name for each in folder.iterdir()) == sorted(NAMES)
    for name in NAMES:
        built, again = installation.built / name, installation.again / name
        assert built.read_bytes() == again.read_bytes(), name


def test_each_distribution_holds_what_is_its_own(installation: Installation):
    with zipfile.ZipFile(installation.built / NAMES[0]) as wheel:
        tops = {each.partition("/")[0] for each in wheel.namelist()}
        pages = {each.rpartition("/")[2] for each in wheel.namelist() if "/man1/" in each}
    assert tops == {"liqod", "tui", f"{LIQOD}.data", f"{LIQOD}.dist-info"}
    assert pages == PAGES
    with zipfile.ZipFile(installation.built / NAMES[2]) as wheel:
        names = wheel.namelist()
    assert {each.partition("/")[0] for each in names} == {
        "simulator",
        f"{SIMULATOR}.dist-info",
    }
    assert "simulator/setup.py" not in names
    source = packed(installation.built / NAMES[1])
    assert {"LICENSE", "README.md", "CHANGELOG.md", "man/liqod.1", "liqod/daemon.py"} <= source
    assert not {each for each in source if each.startswith(("simulator", "tests"))}
    assert "LICENSE" in packed(installation.built / NAMES[3])


def test_both_are_of_one_version_and_the_simulator_needs_just_that(installation: Installation):
    ours, theirs = metadata(installation, LIQOD), metadata(installation, SIMULATOR)
    assert str(ours.version) == str(theirs.version) == __version__
    needed = {each.name: each for each in theirs.requires_dist or []}
    assert set(needed) == {"liqod", "pytest", "pytest-trio"}
    assert needed["liqod"] == Requirement(f"liqod=={__version__}")


def test_liqod_alone_brings_nothing_of_pytest(installation: Installation):
    alone = installation.by_liqod_alone
    assert "liqod" in alone
    assert not {each for each in alone if "pytest" in each or "simulator" in each}
    (packages,) = installation.environment.glob("lib/python*/site-packages")
    importing = re.compile(r"^\s*(?:import|from) +_?pytest", re.MULTILINE)
    files = [each for name in ("liqod", "tui") for each in (packages / name).rglob("*.py")]
    assert files
    assert not [each for each in files if importing.search(each.read_text())]


def test_the_program_tells_its_version(installation: Installation, tmp_path: Path):
    for program in ("liqod", "kubectl-liqod"):
        assert run(installation, tmp_path, program, "--version") == f"liqod {__version__}\n"


def test_bash_completes(installation: Installation, tmp_path: Path):
    asked = """
        source <(liqod completion bash)
        COMP_WORDS=(liqod unp) COMP_CWORD=1
        defined=($(complete -p liqod))
        while [ "${defined[0]--F}" != -F ]; do defined=("${defined[@]:1}"); done
        ${defined[1]} liqod
        echo "${COMPREPLY[@]}"
    """
    assert run(installation, tmp_path, "bash", "-c", asked) == "unpeer\n"


@pytest.mark.usefixtures("readers")
def test_zsh_completes(installation: Installation, tmp_path: Path):
    asked = """
        autoload -Uz compinit; compinit -u -D
        source <(liqod completion zsh)
        words=(liqod unp) CURRENT=2
        _arguments() { print -r -- "$@" }
        ${_comps[liqod]}
    """
    said = run(installation, tmp_path, "zsh", "-f", "-c", asked)
    assert said == '*: :(("unpeer":"End a peering, from either side."))\n'


@pytest.mark.usefixtures("readers")
def test_fish_completes(installation: Installation, tmp_path: Path):
    asked = "liqod completion fish | source; complete -C 'liqod unp'"
    said = run(installation, tmp_path, "fish", "--no-config", "-c", asked)
    assert said == "unpeer\tEnd a peering, from either side.\n"


@pytest.mark.usefixtures("readers")
def test_man_shows_each_page_and_complains_of_none(installation: Installation, tmp_path: Path):
    folder = installation.environment / "share" / "man"
    pages = sorted((folder / "man1").glob("liqod*"))
    assert {each.name for each in pages} == PAGES
    shown = run(installation, tmp_path, "man", "--warnings", "-l", *map(str, pages))
    assert shown.count("SYNOPSIS") == len(PAGES)
    one = run(installation, tmp_path, "man", "-M", str(folder), "liqod-peer")
    assert "liqod peer [OPTIONS] [WHOM]" in one
    assert f"liqod {__version__}" in one


def test_kubectl_runs_and_completes_it(installation: Installation, tmp_path: Path, kubectl: str):
    def asked(*words: str) -> list[str]:
        beside = str(Path(kubectl).parent)
        # Asked for completions, kubectl says on stderr whom it asks.
        quiet = words[0] != "__complete"
        said = run(installation, tmp_path, kubectl, *words, beside=beside, quiet=quiet)
        return said.splitlines()

    assert asked("liqod", "--help")[0].startswith("Usage: kubectl liqod ")
    assert str(installation.programs / "kubectl-liqod") in asked("plugin", "list")
    found = asked("__complete", "liqod", "")
    assert {each.partition("\t")[0] for each in found if "\t" in each} >= VERBS
    assert "unpeer\tEnd a peering, from either side." in asked("__complete", "liqod", "unp")
    assert ":4" in found
    assert ":0" in asked("__complete", "liqod", "status", "--kubeconfig", "")


def test_the_demo_runs(installation: Installation, tmp_path: Path):
    said = run(installation, tmp_path, "liqod", "demo", "--once")
    assert "All 6 replicas are Running and Ready" in said
    assert list(tmp_path.iterdir()) == []
