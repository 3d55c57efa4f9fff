"""Tests of a tier run where what they depend on has changed since they passed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType

import grimp
import pytest

from tests import tiers
from tests.netns import test_joined_clusters, test_parts
from tests.node import test_pods
from tests.node.peered import test_network
from tests.testbed import beforehand, fixtures, programs, suite
from tests.testbed.errors import Unavailable
from tests.tiers import ROOT, Tier

TESTS = ROOT / "tests"
EACH = pytest.mark.parametrize("tier", tiers.ALL, ids=lambda tier: tier.name)
ROOMS = ("liqod.network", "liqod.plugins.network", "liqod.tunnel")
"""Packages of joined networks: the machine's side and the daemon's."""
REAL = f"({suite.REAL_MARKS})"
FAULTS = "test_each_part_fails_and_packets_go_on"
EVERY_RUN = (
    (test_joined_clusters, "test_pods_of_two_clusters_reach_each_other_until_they_part"),
    (test_joined_clusters, "test_where_no_udp_passes_it_is_said_and_a_websocket_does"),
    (test_parts, FAULTS),
    (test_pods, "test_everything_reaches_everything"),
    (test_network, "test_networks_are_joined_by_peering"),
)
"""A join by WireGuard, one in a websocket, a fault of each part, one in pods, and one on kubelets;
ranges overlap in each."""


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
    """The files with tests of a tier."""
    marked = {each for each in TESTS.rglob("test_*.py") if f"mark.{tier.name}" in each.read_text()}
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
    return grimp.build_graph("liqod", "tests", cache_dir=None)


def imported(modules: Iterable[str]) -> set[Path]:
    """Files of modules, of all that these import, and of the packages that this executes."""
    found = set(modules)
    for each in tuple(found):
        found |= graph().find_upstream_modules(each)
    places = {ROOT.joinpath(*each.split(".")) for each in found}
    places |= {above for each in places for above in each.parents if ROOT in above.parents}
    return {each / "__init__.py" if each.is_dir() else each.with_suffix(".py") for each in places}


def test_the_networks_are_due_with_all_that_their_programs_and_their_daemon_import() -> None:
    rooms = {each for each in graph().modules if each.startswith(ROOMS)}
    assert {"liqod.network.machineprogram", "liqod.tunnel.__main__"} <= rooms
    # Of the module that starts both, which can start everything else.
    found = imported({"liqod.node", *rooms}) | {ROOT / "liqod" / "__main__.py"}
    assert not sorted(str(each) for each in found - set(tiers.NETWORK.files()))


def test_the_networks_are_due_with_all_of_tests_that_their_own_stand_on() -> None:
    files = own_tests(tiers.NETWORK)
    fixtures_of = {above / "conftest.py" for each in files for above in each.parents}
    files |= {each for each in fixtures_of if each.is_relative_to(TESTS) and each.exists()}
    own = {".".join(each.relative_to(ROOT).with_suffix("").parts) for each in files}
    found = {each for each in imported(own) if each.is_relative_to(TESTS)}
    # The lists of all tiers, of which the hash tells.
    found.remove(TESTS / "tiers.py")
    assert not sorted(str(each) for each in found - set(tiers.NETWORK.files()))


@pytest.mark.parametrize(
    "room", ["borrowing.py", "cli", "clusterset", "consumer", "inspect", "provider", "reflection"]
)
def test_the_networks_are_not_due_with_each_change_of_the_daemon(room: str) -> None:
    """So that there is a tier at all: what these do to networks, tests of every run observe."""
    place = ROOT / "liqod" / room
    assert place.exists()
    assert not [each for each in tiers.NETWORK.files() if each.is_relative_to(place)]


def test_of_each_kind_of_network_some_tests_are_in_every_run() -> None:
    for module, test in EVERY_RUN:
        marks = marks_of(module, test)
        assert not {each.name for each in marks} & {each.name for each in tiers.ALL}
        assert str(module.__name__).replace("tests.", "").replace(".", "/") in str(tiers.__doc__)
    [cases] = [each.args[1] for each in marks_of(test_parts, FAULTS) if each.name == "parametrize"]
    assert [each.id for each in cases if not each.marks] == ["each part once"]


def marks_of(module: ModuleType, test: str) -> list[pytest.Mark]:
    """Marks of a test, and those of its file."""
    of_file = module.pytestmark if isinstance(module.pytestmark, list) else [module.pytestmark]
    return [*(each.mark for each in of_file), *getattr(getattr(module, test), "pytestmark", ())]


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
    assert runs.marks == [
        *(suite.REAL_MARKS,) * 3,
        f"{REAL} and not release and not network",
        f"{REAL} and not release",
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
