"""Tests of a tier run where what they depend on has changed since they passed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import grimp
import pytest

from tests import tiers
from tests.cluster import (
    test_control_plane,
    test_explained,
    test_lost_peers,
    test_meeting,
    test_planned_lists,
    test_rights,
    test_shared_services,
    test_waiting_pods,
)
from tests.cluster import test_install as test_cluster_install
from tests.netns import test_joined_clusters, test_parts
from tests.node import test_offload, test_pods, test_podstreams
from tests.node.peered import test_near, test_network
from tests.simulated.clusterset import test_sharing
from tests.simulated.consumer import test_hostile_provider, test_nodes, test_webhook
from tests.simulated.daemon import test_floods
from tests.simulated.handshake import test_invitations, test_written_beforehand
from tests.simulated.identity import test_revoking, test_rotation, test_secrets, test_signing
from tests.simulated.inspect import test_inspector
from tests.simulated.install import test_departure, test_install, test_migration, test_refusals
from tests.simulated.network import test_networking
from tests.simulated.plugins import (
    test_example_plugins,
    test_plugin_walls,
    test_plugins_in_daemons,
    test_thirdparty,
)
from tests.simulated.provider import test_hostile_bounds, test_hostile_consumer
from tests.simulated.reflection import test_pod_tokens
from tests.simulated.simulator import test_benchmarks
from tests.stateful import test_bad_answers, test_found, test_stateful, test_truth
from tests.stateful.cases import CASES
from tests.testbed import beforehand, fixtures, programs, suite
from tests.testbed.errors import Unavailable
from tests.tiers import ROOT, Tier
from tests.viewer import test_terminal

TESTS = ROOT / "tests"
EACH = pytest.mark.parametrize("tier", tiers.ALL, ids=lambda tier: tier.name)
ROOMS = {
    tiers.NETWORK: ("liqod.network", "liqod.plugins.network", "liqod.tunnel", "liqod.node"),
    tiers.KUBERNETES: ("liqod.kube", "liqod.resources", "tests.contract"),
    tiers.CLUSTERSET: ("liqod.clusterset", "liqod.model.clusterset"),
    tiers.HANDSHAKE: ("liqod.handshake.protocol", "liqod.handshake.transport", "liqod.identity"),
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
FAULTS = "test_each_part_fails_and_packets_go_on"
EVERY_RUN = (
    (test_joined_clusters, "test_pods_of_two_clusters_reach_each_other_until_they_part"),
    (test_joined_clusters, "test_where_no_udp_passes_it_is_said_and_a_websocket_does"),
    (test_parts, FAULTS),
    (test_pods, "test_everything_reaches_everything"),
    (test_network, "test_networks_are_joined_by_peering"),
    (test_networking, "test_peering_joins_the_networks"),
    (test_networking, "test_unpeering_takes_the_network_away_on_both_sides"),
    (test_control_plane, "test_is_of_the_wanted_version_and_kubectl_works"),
    (test_control_plane, "test_serves_no_field_that_nobody_has_decided_about"),
    (test_planned_lists, ""),
    (
        test_sharing,
        "test_both_clusters_import_what_either_exports_and_nothing_is_left_when_it_ends",
    ),
    (test_sharing, "test_nobody_sees_an_export_unless_both_clusters_share_its_namespace"),
    (test_sharing, "test_unpeering_withdraws_what_the_peer_exports_and_nothing_else"),
    (test_sharing, "test_endpoints_of_a_silent_provider_are_not_ready_until_it_is_back"),
    (test_sharing, "test_a_consumer_speaks_for_itself_alone_and_a_lie_takes_nothing_away"),
    (test_shared_services, ""),
    (test_near, "test_pods_of_both_clusters_call_each_other_by_the_names_of_the_set"),
    (test_meeting, ""),
    (test_invitations, "test_an_invitation_is_all_that_is_needed_and_unpeering_leaves_nothing"),
    (test_written_beforehand, "test_after_a_revocation_what_git_says_counts"),
    (test_secrets, "test_nothing_of_a_damaged_kubeconfig_is_repeated"),
    (test_signing, "test_what_a_killed_daemon_left_goes_with_the_next"),
    (test_rotation, "test_providers_follow_a_key_and_no_pod_ends_by_it"),
    (test_revoking, "test_a_revoked_consumer_has_nothing_at_once_and_gets_nothing_back"),
    (test_stateful, "test_no_script_breaks_an_invariant"),
    (test_found, ""),
    (test_lost_peers, ""),
    (test_bad_answers, ""),
    (test_pods, "test_nothing_is_left"),
    (test_podstreams, "test_logs_have_all_their_options"),
    (test_podstreams, "test_exec_has_exit_codes_input_and_a_terminal"),
    (test_offload, "test_a_stock_deployment_is_ready_on_a_real_kubelet"),
    (test_offload, "test_a_volume_keeps_its_pod_at_the_peer_and_its_data"),
    (test_nodes, ""),
    (test_webhook, ""),
    (test_waiting_pods, ""),
    (test_explained, "test_a_stock_scheduler_does_what_was_explained"),
    (test_terminal, "test_the_view_follows_peers_that_come_die_and_come_back"),
    (test_inspector, ""),
    (test_plugins_in_daemons, "test_a_task_that_no_wall_holds_is_not_let_in"),
    (test_plugin_walls, ""),
    (test_thirdparty, ""),
    (test_cluster_install, "test_all_of_it_can_be_taken_out_again"),
    (test_rights, ""),
    (test_install, "test_nothing_remains_after_purging"),
    (test_install, "test_a_second_installation_writes_nothing"),
    (test_refusals, "test_a_second_installation_in_another_namespace_is_refused"),
    (test_departure, "test_every_peer_is_left_and_namespaces_come_back"),
    (test_migration, "test_liqos_programs_go_and_what_they_made_stays"),
    (test_hostile_consumer, ""),
    (test_hostile_bounds, ""),
    (test_hostile_provider, ""),
    (test_floods, ""),
    (
        test_pod_tokens,
        "test_they_are_renewed_in_time_and_not_by_a_daemon_that_only_begins_again",
    ),
)
"""Of networks a join by WireGuard, one in a websocket, a fault of each part, one in pods, and one
on kubelets; ranges overlap in each. Where no test is named, all of a file."""


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
    found -= {TESTS / "tiers.py", TESTS / "dependences.py", TESTS / "networkdependences.py"}
    assert not sorted(str(each) for each in found - set(tier.files()))


@pytest.mark.parametrize(
    "room", ["borrowing.py", "cli", "clusterset", "consumer", "inspect", "provider", "reflection"]
)
def test_the_networks_are_not_due_with_each_change_of_the_daemon(room: str) -> None:
    """So that there is a tier at all: what these do to networks, tests of every run observe."""
    place = ROOT / "liqod" / room
    assert place.exists()
    assert not [each for each in tiers.NETWORK.files() if each.is_relative_to(place)]


@pytest.mark.parametrize(("module", "test"), EVERY_RUN)
def test_of_each_room_some_tests_are_in_every_run(module: ModuleType, test: str) -> None:
    found = {each.name for each in marks_of(module, test)}
    assert found
    assert not found & {each.name for each in tiers.ALL}
    assert str(module.__name__).replace("tests.", "").replace(".", "/") in str(tiers.__doc__)


def test_of_cases_one_of_each_kind_is_in_every_run() -> None:
    assert [each.id for each in cases(test_parts, FAULTS) if not each.marks] == ["each part once"]
    measures = cases(test_benchmarks, "test_a_benchmark_measures")
    assert [each.values for each in measures if not each.marks] == [(test_benchmarks.EVERY_RUN,)]
    examples = cases(test_example_plugins, "test_an_example_is_built_loaded_and_keeps_its_contract")
    assert [each for each in examples if isinstance(each, str)] == ["lamps"]
    ended = cases(test_sharing, "test_what_ended_while_the_daemons_were_away_is_withdrawn")
    assert [each.id for each in ended if not each.marks] == ["the-export"]
    scripts = cases(test_stateful, "test_no_script_breaks_an_invariant")
    assert [each for each in scripts if isinstance(each, int)] == [test_stateful.EVERY_RUN]
    every = {(case.at, case.own, case.peer) for case in CASES}
    all_ = cases(test_truth, "test_what_is_said_is_true")
    kept = [each.values[0] for each in all_ if not each.marks]
    assert sorted((case.at, case.own, case.peer) for case in kept) == sorted(every)
    assert len(kept) < len(all_) / 2


def cases(module: ModuleType, test: str) -> list[Any]:
    """What a test is tried with."""
    [found] = [each.args[1] for each in marks_of(module, test) if each.name == "parametrize"]
    return list(found)


def marks_of(module: ModuleType, test: str) -> list[pytest.Mark]:
    """Marks of a test, or of all of a file where none is named, and those of the file."""
    found = getattr(module, "pytestmark", [])
    of_file = found if isinstance(found, list) else [found]
    tests = [test] if test else [name for name in vars(module) if name.startswith("test_")]
    own = chain.from_iterable(getattr(getattr(module, each), "pytestmark", ()) for each in tests)
    return [*(each.mark for each in of_file), *own]


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
