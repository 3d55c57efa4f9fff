"""Tests of a tier run where what they depend on has changed since they passed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import grimp
import pytest

from tests import tiers
from tests.testbed import beforehand, fixtures, programs, suite
from tests.testbed.errors import Unavailable
from tests.tiers import ROOT, Tier

TESTS = ROOT / "tests"
EACH = pytest.mark.parametrize("tier", tiers.ALL, ids=lambda tier: tier.name)
ROOMS = {
    tiers.NETWORK: ("liqod.network", "liqod.plugins.network", "liqod.tunnel", "liqod.node"),
    tiers.KUBERNETES: ("liqod.kube", "liqod.resources", "tests.contract"),
    tiers.CLUSTERSET: ("liqod.clusterset", "liqod.model.clusterset"),
    tiers.HANDSHAKE: (
        *("liqod.handshake.protocol", "liqod.handshake.transport", "liqod.identity"),
        "liqod.plugins.discovery",
    ),
    tiers.PODS: ("liqod.consumer.nodes", "liqod.plugins.reflectors", "liqod.provider.workloads"),
    tiers.PLACEMENT: (
        *("liqod.consumer.namespaces", "liqod.consumer.nodes", "liqod.consumer.slices"),
        *("liqod.consumer.webhook", "liqod.provider.slices", "liqod.model.peering"),
        *("liqod.procedures.explaining", "liqod.procedures.nodeexplaining"),
    ),
    tiers.STATEFUL: ("liqod.model.view", "liqod.plugins.checks", "liqod.plugins.diagnosis"),
    tiers.TOP: ("tui",),
    tiers.PLUGINS: ("liqod.plugins",),
    tiers.INSTALL: ("liqod.install",),
    tiers.LOAD: ("liqod.consumer", "liqod.provider", "liqod.reflection", "liqod.kube"),
}
"""Packages of what a tier tries. Those of joined networks are the machine's side, the daemon's, and
the module that starts both, which can start everything else."""
ROOM = pytest.mark.parametrize("tier", ROOMS, ids=lambda tier: tier.name)
REAL = f"({suite.REAL_MARKS})"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Tier]:
    """Tiers that have not passed yet, each with a file that it depends on, in another checkout."""
    found = {each.name: Tier(each.name, (f"of-{each.name}",), tmp_path) for each in tiers.ALL}
    (tmp_path / "tests").mkdir()
    for each in found.values():
        (tmp_path / each.depends_on[0]).write_text("1")
    monkeypatch.setattr(tiers, "ALL", tuple(found.values()))
    monkeypatch.setenv(fixtures.REQUIRE, "")
    monkeypatch.delenv(fixtures.REQUIRE)  # A run of one tier sets it, which is taken back.
    return found


def test_the_hash_is_of_names_and_contents(tmp_path: Path) -> None:
    tier = Tier("made", ("one", "folder"), tmp_path)
    (tmp_path / "folder" / "__pycache__").mkdir(parents=True)
    (tmp_path / "folder" / "made.egg-info").mkdir()
    (tmp_path / "one").write_text("1")
    (tmp_path / "folder" / "two").write_text("2")
    seen = {tier.digest()}
    (tmp_path / "folder" / "__pycache__" / "two.pyc").write_text("x")
    (tmp_path / "folder" / "made.egg-info" / "SOURCES.txt").write_text("x")
    assert tier.digest() in seen
    (tmp_path / "folder" / "two").write_text("3")
    seen.add(tier.digest())
    (tmp_path / "folder" / "two").rename(tmp_path / "folder" / "three")
    seen.add(tier.digest())
    assert len(seen) == 3


def own_tests(tier: Tier) -> set[Path]:
    """The files that have tests of a tier, or give them its mark."""
    marked = {each for each in TESTS.rglob("*.py") if f"mark.{tier.name}" in each.read_text()}
    return marked - {Path(__file__)}


@EACH
def test_all_that_it_depends_on_is_there_and_its_own_tests_are_among_it(tier: Tier) -> None:
    for name in tier.depends_on:
        assert (ROOT / name).exists(), name
    assert own_tests(tier) <= set(tier.files())
    assert len(own_tests(tier)) > 1


@cache
def graph() -> grimp.ImportGraph:
    """Who imports whom, also for types and within functions."""
    return grimp.build_graph("liqod", "tui", "tests", "simulator", "benchmarks", cache_dir=None)


def modules(files: Iterable[Path]) -> set[str]:
    """The names of files."""
    return {".".join(each.relative_to(ROOT).with_suffix("").parts) for each in files}


def place(module: str) -> Path:
    """Its file."""
    found = ROOT.joinpath(*module.split("."))
    return found / "__init__.py" if found.is_dir() else found.with_suffix(".py")


def imported(modules: Iterable[str]) -> set[Path]:
    """Files of modules, of all that these import, and of the packages that this executes."""
    found = set(modules)
    for each in tuple(found):
        found |= graph().find_upstream_modules(each)
    for each in tuple(found):
        found |= {each.rsplit(".", depth)[0] for depth in range(1, each.count(".") + 1)}
    return {place(each) for each in found}


@ROOM
def test_it_is_due_with_all_that_its_rooms_import(tier: Tier) -> None:
    packages = tuple(f"{each}." for each in ROOMS[tier])
    rooms = {each for each in graph().modules if f"{each}.".startswith(packages)}
    assert len(rooms) > len(packages)
    found = imported(rooms)
    if tier is tiers.NETWORK:
        assert {"liqod.network.machineprogram", "liqod.tunnel.__main__"} <= rooms
        found.add(ROOT / "liqod" / "__main__.py")
    assert not sorted(str(each) for each in found - set(tier.files()))


@ROOM
def test_it_is_due_with_all_that_its_tests_stand_on(tier: Tier) -> None:
    """All of `tests`; of the rest what they name, and for networks the rooms alone."""
    files = own_tests(tier)
    own = modules(files)
    fixtures_of = {above / "conftest.py" for each in files for above in each.parents}
    below = {each for each in fixtures_of if each.is_relative_to(TESTS) and each.exists()}
    found = {each for each in imported(own | modules(below)) if each.is_relative_to(TESTS)}
    if tier is not tiers.NETWORK:
        named = {name for each in own for name in graph().find_modules_directly_imported_by(each)}
        found |= {place(each) for each in named}
    # The lists of all tiers, of which the hash tells.
    found -= {*TESTS.glob("*dependences.py"), TESTS / "tiers.py"}
    assert not sorted(str(each) for each in found - set(tier.files()))


@pytest.mark.parametrize(
    "room", ["borrowing.py", "cli", "clusterset", "consumer", "inspect", "provider", "reflection"]
)
def test_the_networks_are_not_due_with_each_change_of_the_daemon(room: str) -> None:
    """So that there is a tier at all: what these do to networks, tests of every run observe."""
    place = ROOT / "liqod" / room
    assert place.exists()
    assert not [each for each in tiers.NETWORK.files() if each.is_relative_to(place)]


class Runs:
    """What the suite would have run.

    Attributes:
        marks: the marks of each run of pytest on real clusters.
        status: how these end.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.marks: list[str] = []
        self.status = 0
        monkeypatch.setattr(suite, "fast", lambda arguments: 0)
        monkeypatch.setattr(suite, "run", self._run)
        monkeypatch.setattr(beforehand, "running", lambda command: self)
        monkeypatch.setattr(programs, "find", self._nothing)

    def _run(self, minor: str, arguments: list[str]) -> int:
        self.marks.append(arguments[arguments.index("-m") + 1])
        return self.status

    def _nothing(self, minor: str) -> None:
        raise Unavailable("nothing is built here")

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def test_the_suite_has_those_that_are_due_and_says_which_are_not(
    made: dict[str, Tier], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    runs = Runs(monkeypatch)
    release, network = made["release"], made["network"]
    # Fails; passes where tests may have been skipped; passes.
    for required, status in (("1", 1), ("0", 0), ("1", 0)):
        assert release.is_due()
        assert network.is_due()
        monkeypatch.setenv(fixtures.REQUIRE, required)
        runs.status = status
        assert suite.main([]) == status
    assert not release.is_due()
    assert not network.is_due()
    capfd.readouterr()
    assert suite.main([]) == 0
    said = "".join(capfd.readouterr())
    for name in made:
        assert f"the {name} tier is left out" in said
        assert f"make test-{name} runs it" in said
    (network.root / network.depends_on[0]).write_text("2")
    assert not release.is_due()
    assert suite.main([]) == 0
    said = "".join(capfd.readouterr())
    assert "the network tier is left out" not in said
    assert "the network tier passed: commit tests/network-tier.sha256" in said
    assert not network.is_due()
    others = "".join(f" and not {name}" for name in made if name not in ("release", "network"))
    assert runs.marks == [
        *(suite.REAL_MARKS,) * 3,
        f"{REAL} and not release and not network{others}",
        f"{REAL} and not release{others}",
    ]


def test_one_that_is_asked_for_runs_alone_with_no_test_skipped(
    made: dict[str, Tier], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Runs(monkeypatch)
    for name, tier in made.items():
        monkeypatch.delenv(fixtures.REQUIRE, raising=False)
        assert suite.main(["--tier", name]) == 0
        assert fixtures.required()
        assert not tier.is_due()
    assert runs.marks == [*made]


def test_a_change_while_it_runs_is_not_what_has_passed(
    made: dict[str, Tier], monkeypatch: pytest.MonkeyPatch
) -> None:
    network = made["network"]
    Runs(monkeypatch)

    def changed(minor: str, arguments: list[str]) -> int:
        (network.root / network.depends_on[0]).write_text("2")
        return 0

    monkeypatch.setattr(suite, "run", changed)
    assert suite.main(["--tier", "network"]) == 0
    assert network.is_due()
