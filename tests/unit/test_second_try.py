"""A second try is counted and explained, and a test that fails twice has failed; a fast one
has none. What files share is ended before one that does not need it.

It runs a suite of its own, as the real part of the suite runs: by files on several workers, with
async tests and fixtures that are shared.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testbed.suite import AGAIN

pytest_plugins = ["pytester"]

OURS = Path(__file__).parents[2]
CONFTEST = """
import pytest
from tests.testbed import ending, fixtures, order, secondtry, sharedclusters

order.needed = lambda file: frozenset({"kept_clusters"} if file.endswith("test_some.py") else ())

def pytest_collection_modifyitems(items):
    secondtry.leave_to_real_tier(items)

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item, nextitem):
    if item.stash.get(fixtures.FAILED, False):
        secondtry.start_from_nothing(item)
    yield
    sharedclusters.end_unneeded(item, nextitem)

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    fixtures.judge(item, report)
    return report

def pytest_terminal_summary(terminalreporter):
    ending.say(terminalreporter)
"""
SUITE = """
import pathlib
import pytest
import trio
from tests.testbed.fixtures import FAILED

pytestmark = pytest.mark.cluster
tries = []
ended = []

@pytest.fixture(scope="session")
def kept_clusters():
    tries.append("kept")
    yield
    ended.append("kept")

@pytest.fixture(scope="module")
def shared(kept_clusters):
    tries.append("shared")
    if tries.count("shared") == 1:
        raise RuntimeError("the cluster does not start")
    yield "a cluster"
    ended.append("shared")

@pytest.fixture
def cleaned(request):
    yield
    tries.append(("failed", request.node.stash[FAILED]))

def test_set_up_anew(shared):
    assert shared == "a cluster"
    assert tries.count("shared") == 2
    assert tries.count("kept") == 2

async def test_passes_the_second_time(shared, cleaned):
    await trio.lowlevel.checkpoint()
    tries.append("async")
    assert tries.count("async") == 2, "the first time"

def test_what_the_file_shares_was_made_anew_and_what_the_run_shares_too(shared):
    assert tries.count("shared") == 3
    assert tries.count("kept") == 3
    assert ended == ["kept", "shared", "kept"]
    assert [each for each in tries if each[0] == "failed"] == [("failed", True), ("failed", False)]
"""
TWICE = """
import pytest
import test_some

def test_what_the_file_before_shared_is_ended():
    assert test_some.ended == ["kept", "shared", "kept", "shared", "kept"]

@pytest.mark.cluster
async def test_fails_twice():
    assert False, "each time"

async def test_fails_at_once():
    assert False, "a fast one"
"""


@pytest.mark.long
def test_a_second_try_is_told_and_is_the_last(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTHONPATH", str(OURS))
    monkeypatch.delenv("TESTBED_REQUIRE", raising=False)
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]\ntrio_mode = true\nmarkers =\n    cluster: real\n")
    pytester.makepyfile(test_some=SUITE, test_twice=TWICE)
    # Loading every plugin that there is takes seconds.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    plugins = ("xdist.plugin", "xdist.looponfail", "pytest_trio.plugin", "pytest_rerunfailures")
    loaded = [word for each in plugins for word in ("-p", each)]
    workers = ("-n", "1", "--dist", "loadfile", "--no-loadscope-reorder")
    found = pytester.runpytest_subprocess(*loaded, *AGAIN, *workers)
    assert found.ret == 1
    again = "= run again, and why ="
    for cause in (
        ("test_some.py::test_set_up_anew (setup):", "*RuntimeError: the cluster does not start"),
        ("test_some.py::test_passes_the_second_time:", "*AssertionError*the first time*"),
        ("test_twice.py::test_fails_twice:", "*AssertionError*each time*"),
    ):
        found.stdout.fnmatch_lines([f"*{again}*", *cause])
    found.stdout.fnmatch_lines(
        [
            "*= why =*",
            "test_twice.py::test_fails_twice:",
            "*AssertionError*each time*",
            "test_twice.py::test_fails_at_once:",
            "*AssertionError*a fast one*",
            "*= 2 failed, 4 passed, 3 rerun in *",
        ]
    )
