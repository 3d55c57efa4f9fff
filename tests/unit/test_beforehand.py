"""Requirements of real tests are got all at once, and those that cannot be had are named."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import tiers
from tests.testbed import beforehand, debian, fixtures, programs
from tests.testbed.api import wait_until
from tests.testbed.errors import Unavailable


def test_nothing_waits_for_another() -> None:
    together = threading.Barrier(3, timeout=60)
    assert beforehand.get([together.wait] * 3) == []


def test_every_program_is_built_before_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    finders = {name for name in vars(programs) if name.startswith("find")}
    several = {"find_liqos", "find_helms", "find_newest_helm"}
    built = set()
    for name in finders - several:
        monkeypatch.setattr(programs, name, lambda *_, name=name: built.add(name))
    of_releases = (programs.find_helms, programs.find_kubeconform)
    for step in (*programs.beside(["1.35"]), *of_releases):
        step()
    assert built == finders - several


@pytest.mark.parametrize("due", [True, False])
def test_what_only_the_release_tier_needs_is_built_where_that_is_due(
    monkeypatch: pytest.MonkeyPatch, due: bool
) -> None:
    monkeypatch.setattr(tiers.Tier, "is_due", lambda tier: due)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    steps = beforehand.steps(["1.35"])
    assert (programs.find_helms in steps, debian.find in steps) == (due, due)
    # One of the pages of start is typed in every run. Both are built one after the other.
    assert (programs.find_newest_helm in steps) is not due


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The programs built by a process that has built nothing; all can be built but CoreDNS."""
    tried: list[str] = []

    def build(recipe: programs.Recipe, target: Path) -> None:
        tried.append(recipe.binary)
        if recipe.binary == "coredns":
            raise Unavailable("CoreDNS could not be built: there is no compiler")
        target.mkdir()

    monkeypatch.setenv("TESTBED_CACHE", str(tmp_path))
    monkeypatch.delenv("TESTBED_BUILD", raising=False)
    monkeypatch.setattr(programs, "builds", programs.Builds(build))
    return tried


def item(mark: str, *used: str) -> Any:
    """A test with a mark that uses fixtures."""
    marked = {mark: True}
    return SimpleNamespace(get_closest_marker=marked.get, fixturenames=used)


def test_what_the_selected_tests_need_is_built_and_nothing_once_they_have_begun(
    builds: list[str],
) -> None:
    fixtures.prepare([])
    fixtures.prepare([item("netns", "networks", "coredns"), item("netns", "conncheck")])
    assert sorted(builds) == ["conncheck", "coredns"]
    assert programs.find_conncheck().name == "conncheck"
    with pytest.raises(Unavailable, match="there is no compiler"):
        programs.find_coredns()
    with pytest.raises(Unavailable, match="liqoctl was not built before the tests began"):
        programs.find_liqoctl()
    assert len(builds) == 2


def test_each_program_that_a_test_is_handed_is_one_that_a_fixture_builds() -> None:
    for name in fixtures.BUILT:
        assert hasattr(fixtures, name)
    tests = Path(__file__).parents[1]
    for path in tests.rglob("*.py"):
        # Those there are started by clusters, for whose marks all that they need is built.
        if path.parent.name != "testbed" and path != Path(__file__):
            assert "programs.find" not in path.read_text(), path


def test_what_cannot_be_had_is_named_and_stops_nothing() -> None:
    done = threading.Event()

    def refused() -> None:
        raise Unavailable("there is no compiler")

    assert beforehand.get([refused, done.set]) == ["there is no compiler"]
    assert done.is_set()


def test_what_runs_beside_ends_with_what_it_runs_beside(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    endless = ["sh", "-c", f"sleep 600 & echo $! > {mark}; wait"]

    def interrupted() -> None:
        with beforehand.running(endless):
            while not mark.exists() or not mark.read_text().strip():
                time.sleep(0.01)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    child = Path("/proc", mark.read_text().strip(), "status")

    def ended() -> bool:
        # It may be a zombie where nobody collects orphans.
        try:
            return "State:\tZ" in child.read_text()
        except (FileNotFoundError, ProcessLookupError):
            return True

    wait_until("the child to end, which was told to", ended, 60)
