"""The order of the long tests names files that there are."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.testbed import share
from tests.testbed.order import (
    APART,
    LONGEST,
    NICE,
    TOGETHER,
    ByClusters,
    chosen,
    is_embedded,
    needed,
)

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("name", LONGEST)
def test_a_long_file_is_there(name: str):
    assert (TESTS / name).is_file()


def test_each_is_named_once():
    assert len({*LONGEST}) == len(LONGEST)


def test_files_that_share_clusters_go_to_one_worker_in_the_order_of_the_list():
    split = ByClusters._split_scope
    for folder in TOGETHER:
        files = sorted((TESTS.parent / folder).glob("test_*.py"))
        assert {split(None, f"{folder}{each.name}::test_it") for each in files} == {folder}  # type: ignore[arg-type]
        places = [LONGEST.index(str(each.relative_to(TESTS))) for each in files]
        assert max(places) - min(places) == len(files) - 1
    other = "tests/node/test_pods.py"
    assert split(None, f"{other}::test_it") == other  # type: ignore[arg-type]


def test_files_with_fast_tests_alone_are_left_out_where_others_run():
    left_out = {str(each.relative_to(TESTS)) for each in share.fast_files()}
    assert {"unit/test_budget.py", "unit/test_units.py"} <= left_out
    assert not left_out & {"unit/test_healthz.py", *LONGEST}


@pytest.mark.parametrize("folder", share.MOSTLY_FAST)
def test_only_a_file_with_tests_makes_them_others_than_fast(folder: str):
    helpers = (each for each in (TESTS / folder).rglob("*.py") if each.name[:5] != "test_")
    assert not [each for each in helpers if "pytest.mark." in each.read_text()]


KEPT, PLANE, OTHER = "cluster/test_peering.py", "contract/test_pods.py", "cluster/test_chart.py"
MORE = "cluster/test_limits.py"
EMBEDDED = "simulated/peering/test_peering.py"


def test_a_worker_goes_on_with_the_clusters_it_has_and_starts_no_other_twice():
    nothing = frozenset[str]()
    kept, plane = needed(KEPT), needed(PLANE)
    assert [*kept, *plane, *needed(OTHER)] == ["kept_clusters", "control_planes"]
    assert chosen([KEPT, OTHER], nothing, nothing) == KEPT
    # Another has them: first what needs none, or what nobody has begun.
    assert chosen([MORE, OTHER], nothing, kept) == OTHER
    assert chosen([MORE, PLANE, OTHER], nothing, kept) == PLANE
    # Who has them has done with them before it goes on.
    assert chosen([OTHER, PLANE, MORE, KEPT], kept, kept) == MORE
    assert chosen([PLANE, MORE], kept, kept | plane) == MORE
    # At the end nobody is idle for that.
    assert chosen([MORE], nothing, kept) == MORE
    assert chosen([EMBEDDED, MORE], nothing, kept) == MORE


@pytest.mark.parametrize(
    ("file", "shared"),
    [
        (KEPT, {"kept_clusters"}),
        ("cluster/test_missing_parts.py", {"kept_clusters"}),
        (PLANE, {"control_planes"}),
        ("cluster/test_control_plane.py", {"control_planes"}),
        ("cluster/test_crd_upgrade.py", {"control_planes"}),
        ("node/test_images.py", {"real_node_cluster"}),
        ("node/test_pods.py", set()),
        ("node/peered/", set()),
        ("cluster/test_start_pages.py", set()),
        (EMBEDDED, set()),
    ],
)
def test_the_clusters_that_a_file_shares_are_known(file: str, shared: set[str]):
    assert {*needed(file)} == shared


class Worker:
    """A worker of xdist; remembers the tests it was given."""

    shutting_down = False

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.given: list[int] = []

    def send_runtest_some(self, numbers: list[int]) -> None:
        self.given += numbers

    def shutdown(self) -> None:
        self.shutting_down = True


def given(files: tuple[str, ...], count: int) -> list[set[str]]:
    """The files that each worker is given; of all that have something the last is done first."""
    tests = [f"tests/{file}::test_{n}" for file in files for n in range(3)]
    config = SimpleNamespace(
        option=SimpleNamespace(loadscopereorder=False),
        getvalue=lambda name: ["popen"] * count if name == "tx" else None,
    )
    order = ByClusters(config)
    workers = [Worker(f"gw{number}") for number in range(count)]
    for each in workers:
        order.add_node(each)
        order.add_node_collection(each, tests)
    order.schedule()
    for _ in files:
        for each in reversed(workers):
            for number in [*each.given]:
                if not order.assigned_work[each][tests[number].split("::")[0]][tests[number]]:
                    order.mark_test_complete(each, number)
    assert order.tests_finished
    return [
        {tests[number].split("::")[0].removeprefix("tests/") for number in each.given}
        for each in workers
    ]


def test_workers_are_given_files_by_the_clusters_they_have():
    files = (KEPT, OTHER, MORE, "cluster/test_rights.py", "cluster/test_versions.py", PLANE)
    had = given(files, 2)
    kept = [{file for file in each if "kept_clusters" in needed(file)} for each in had]
    assert sorted(map(len, kept)) == [0, 3]
    assert had[0] | had[1] == {*files}


def test_the_worker_apart_has_embedded_clusters_alone(monkeypatch: pytest.MonkeyPatch):
    alike = ("stateful/test_truth.py", EMBEDDED, "simulated/clusterset/test_bounds.py")
    timed = "simulated/provider/test_isolation.py"
    files = (*alike, timed, KEPT, OTHER)
    monkeypatch.setenv(APART, "gw2")
    *others, apart = given(files, 3)
    assert apart
    assert apart <= {*alike}
    assert apart.union(*others) == {*files}
    # In a run without any it has nothing, and ends; the others have it all.
    *others, apart = given((timed, KEPT, OTHER), 3)
    assert not apart
    assert set().union(*others) == {timed, KEPT, OTHER}


def test_the_worker_apart_comes_after_the_others(monkeypatch: pytest.MonkeyPatch):
    script = "import os; from tests.testbed import order; order.give_way(); print(os.nice(0))"
    found = []
    for worker in ("gw2", "gw3", ""):
        environment = {**os.environ, APART: "gw3", "PYTEST_XDIST_WORKER": worker}
        found.append(int(subprocess.check_output([sys.executable, "-c", script], env=environment)))
    assert found[0] == found[2]
    assert found[1] == found[0] + NICE


@pytest.mark.parametrize(
    ("file", "apart"),
    [
        (EMBEDDED, True),
        ("stateful/test_truth.py", True),
        ("simulated/daemon/test_daemon.py", False),
        ("simulated/install/test_deb.py", False),
        ("simulated/simulator/test_benchmarks.py", False),
        (KEPT, False),
    ],
)
def test_what_starts_programs_is_not_for_the_worker_apart(file: str, apart: bool):
    assert is_embedded(file) == apart
