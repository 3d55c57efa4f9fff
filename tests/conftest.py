"""The fixtures that every test shares: the real clusters, and the handling of missing ones."""

from __future__ import annotations

import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from tests import tiers
from tests.testbed import (
    ending,
    evidence,
    fixtures,
    garbage,
    order,
    secondtry,
    share,
    sharedclusters,
    surroundings,
    virtualtime,
)
from tests.testbed.fixtures import (  # noqa: F401 - pytest finds fixtures by these names
    a_debian,
    conncheck,
    control_plane,
    control_planes,
    coredns,
    helms,
    installation,
    kubeconform_program,
    kubectl,
    liqo_endpoints,
    namespace,
    networks,
    new_control_plane,
    newest_helm,
    own_images,
    packagers,
    readers,
    real_node_cluster,
    version_before,
    viewers,
    wireguard,
)

# What takes how long says nothing on a machine that has other work, and these tests judge values.
values = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Ordinarily a test sees the same values in each run, so that a change is judged by what it changed.
# `make fast ARGS=--hypothesis-profile=random` looks for others.
settings.register_profile("random", values)
settings.register_profile("values", values, derandomize=True)
settings.load_profile("values")


def pytest_addoption(parser: pytest.Parser) -> None:
    """See `share.WITHOUT_FAST_FILES`."""
    about = "leave out files with fast tests alone"
    parser.addoption(share.WITHOUT_FAST_FILES, action="store_true", help=about)


def pytest_configure(config: pytest.Config) -> None:
    """See `surroundings.forget_terminal`, `order.give_way` and `evidence.pytest_fixture_setup`.

    Ctrl-C reaches what tests start, also where a shell has put this run into the background.
    """
    for tier in tiers.ALL:
        about = "run where what it depends on has changed (tests/tiers.py)"
        config.addinivalue_line("markers", f"{tier.name}: {about}")
    surroundings.forget_terminal()
    order.give_way()
    config.pluginmanager.register(evidence)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart(session: pytest.Session) -> None:
    """See `secondtry.ask_at_once`."""
    secondtry.ask_at_once(session.config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> order.ByClusters | None:
    """See `order.ByClusters`, in place of xdist's own by files."""
    return order.ByClusters(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """See `share.is_left_out`; of others pytest decides."""
    return share.is_left_out(collection_path, config) or None


def pytest_collection(session: pytest.Session) -> None:
    """See `garbage.hold` and `share.import_own`."""
    garbage.hold()
    share.import_own(session)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """See `order.arrange`, `virtualtime.mark` and `secondtry.leave_to_real_tier`."""
    order.arrange(items)
    virtualtime.mark(items)
    if config.pluginmanager.hasplugin("rerunfailures"):
        secondtry.leave_to_real_tier(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds what the selected tests need before the clock of the first one runs; see
    `garbage.spare`."""
    if not session.config.option.collectonly:
        fixtures.prepare(session.items)
        garbage.spare()


# Before pytest-rerunfailures, which keeps for the second try what it finds still standing.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """See `secondtry.start_from_nothing` and `sharedclusters.end_unneeded`."""
    if item.stash.get(fixtures.FAILED, False):
        secondtry.start_from_nothing(item)
    yield
    sharedclusters.end_unneeded(item, nextitem)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """See `fixtures.judge`."""
    report = yield
    fixtures.judge(item, report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """See `ending.say`."""
    ending.say(terminalreporter)
