"""Of the rooms whose slow tests run by tiers, some tests are in every run."""

from __future__ import annotations

from itertools import chain
from types import ModuleType
from typing import Any

import pytest

from tests import tiers
from tests.cluster import (
    test_control_plane,
    test_explained,
    test_killed_daemons,
    test_lost_peers,
    test_meeting,
    test_planned_lists,
    test_rights,
    test_shared_services,
    test_waiting_pods,
)
from tests.cluster import test_hostile_consumer as test_cluster_hostile_consumer
from tests.cluster import test_install as test_cluster_install
from tests.netns import test_joined_clusters, test_parts
from tests.node import test_offload, test_pods, test_podstreams
from tests.node.peered import test_near, test_network
from tests.simulated.clusterset import test_sharing
from tests.simulated.consumer import (
    test_claims,
    test_dead_nodes,
    test_hostile_provider,
    test_make_before_break,
    test_node_parts,
    test_nodes,
    test_peer_daemon,
    test_returns,
    test_scarce_room,
    test_webhook,
)
from tests.simulated.consumer import test_podstreams as test_simulated_podstreams
from tests.simulated.consumer import test_waiting_pods as test_simulated_waiting_pods
from tests.simulated.daemon import test_floods
from tests.simulated.discovery import test_policyrequests
from tests.simulated.handshake import test_invitations, test_written_beforehand
from tests.simulated.identity import test_revoking, test_rotation, test_secrets, test_signing
from tests.simulated.inspect import test_inspector
from tests.simulated.install import (
    test_departure,
    test_install,
    test_migration,
    test_refusals,
    test_skew,
)
from tests.simulated.network import test_networking
from tests.simulated.peering import test_lost_peers as test_simulated_lost_peers
from tests.simulated.plugins import (
    test_example_plugins,
    test_plugin_walls,
    test_plugins_in_daemons,
    test_thirdparty,
)
from tests.simulated.provider import test_hostile_bounds, test_hostile_consumer
from tests.simulated.reflection import test_pod_tokens
from tests.simulated.simulator import test_benchmarks, test_demo
from tests.stateful import test_bad_answers, test_found, test_stateful, test_truth
from tests.stateful.cases import CASES
from tests.viewer import test_terminal

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
    (test_demo, "test_once_ends_well_and_leaves_nothing"),
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
    (test_policyrequests, ""),
    (test_invitations, "test_an_invitation_is_all_that_is_needed_and_unpeering_leaves_nothing"),
    (test_written_beforehand, "test_after_a_revocation_what_git_says_counts"),
    (test_secrets, "test_nothing_of_a_damaged_kubeconfig_is_repeated"),
    (test_signing, "test_what_a_killed_daemon_left_goes_with_the_next"),
    (test_rotation, "test_providers_follow_a_key_and_no_pod_ends_by_it"),
    (test_revoking, "test_a_revoked_consumer_has_nothing_at_once_and_gets_nothing_back"),
    (test_stateful, "test_no_script_breaks_an_invariant"),
    (test_found, ""),
    (test_lost_peers, ""),
    (test_simulated_lost_peers, ""),
    (test_bad_answers, ""),
    (test_pods, "test_nothing_is_left"),
    (test_podstreams, "test_logs_have_all_their_options"),
    (test_podstreams, "test_exec_has_exit_codes_input_and_a_terminal"),
    (test_simulated_podstreams, "test_only_who_may_reach_nodes_is_answered"),
    (test_offload, "test_a_stock_deployment_is_ready_on_a_real_kubelet"),
    (test_offload, "test_a_volume_keeps_its_pod_at_the_peer_and_its_data"),
    (test_nodes, ""),
    (test_webhook, ""),
    (test_scarce_room, "test_pods_leave_fragments_for_a_peer_with_a_whole_node"),
    (test_node_parts, "test_each_group_has_a_virtual_node_and_all_share_the_grant"),
    (test_make_before_break, "test_a_namespace_comes_home_under_a_budget"),
    (test_returns, "test_who_finds_no_node_there_is_placed_elsewhere"),
    (test_claims, "test_the_volume_is_where_the_first_pod_lands_and_goes_with_its_claim"),
    (test_dead_nodes, "test_nodes_that_die_at_the_provider_are_shown_here_until_they_are_back"),
    (
        test_simulated_waiting_pods,
        "test_a_pod_without_a_place_at_the_peer_holds_nothing_that_a_smaller_one_asks_for",
    ),
    (test_peer_daemon, "test_new_pods_are_kept_from_it_until_it_is_back"),
    (test_waiting_pods, ""),
    (test_explained, "test_a_stock_scheduler_does_what_was_explained"),
    (test_terminal, "test_the_view_follows_peers_that_come_die_and_come_back"),
    (test_inspector, ""),
    (test_plugins_in_daemons, "test_a_task_that_no_wall_holds_is_not_let_in"),
    (test_plugin_walls, ""),
    (test_thirdparty, ""),
    (test_cluster_install, "test_all_of_it_can_be_taken_out_again"),
    (test_rights, ""),
    (test_cluster_hostile_consumer, ""),
    (test_install, "test_nothing_remains_after_purging"),
    (test_install, "test_a_second_installation_writes_nothing"),
    (test_refusals, "test_a_second_installation_in_another_namespace_is_refused"),
    (test_departure, "test_every_peer_is_left_and_namespaces_come_back"),
    (test_migration, "test_liqos_programs_go_and_what_they_made_stays"),
    (test_hostile_consumer, ""),
    (test_hostile_bounds, ""),
    (test_hostile_provider, ""),
    (test_killed_daemons, "test_a_standby_says_so_and_takes_over"),
    (test_floods, ""),
    (
        test_pod_tokens,
        "test_they_are_renewed_in_time_and_not_by_a_daemon_that_only_begins_again",
    ),
)
"""Of networks a join by WireGuard, one in a websocket, a fault of each part, one in pods, and one
on kubelets; ranges overlap in each. Where no test is named, all of a file."""


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
    sides = cases(
        test_skew, "test_pods_run_on_beside_the_version_before_through_an_upgrade_and_back"
    )
    assert [each for each in sides if isinstance(each, str)] == ["consumer"]
    faults = cases(test_truth, "test_what_is_said_is_true")
    kept = [each.values[0].kind for each in faults if not each.marks]
    assert sorted(kept) == sorted({case.kind for case in CASES})
    assert len(kept) < len(faults) / 4


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
