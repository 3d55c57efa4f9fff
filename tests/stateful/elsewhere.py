"""Rows of ``docs/background/failures.md`` that tests beside :mod:`.test_truth` show."""

from tests.stateful.cases import PEERS_API

PLUGIN = "A plugin"
OUT_OF_REACH = "What runs at a peer that is out of reach"
GATEWAY = "The gateway of joined networks"
POD = "A pod at a peer"
TOKENS = "Tokens of pods at peers"
CHANGES = "Changes of a pod that runs"
TOLD = "What a peer tells of a pod"
SHARES = "Shares of a consumer's bounds"
ELSEWHERE = {
    f"{OUT_OF_REACH}: a list that this cluster's API server gives is empty, and says that it is"
    " all": (
        "simulated/clusterset/test_failures.py",
        "test_a_list_that_comes_empty_and_complete_withdraws_nothing",
    ),
    f"{OUT_OF_REACH}: a cluster that exports, or imports, is restored from a backup": (
        "simulated/clusterset/test_failures.py",
        "test_an_exporter_that_is_restored_from_a_backup_exports_what_it_had_then",
    ),
    f"{OUT_OF_REACH}: the definition of ServiceImports, or of ServiceExchanges, is deleted": (
        "simulated/clusterset/test_failures.py",
        "test_what_is_gone_with_its_definition_is_back_after_it",
    ),
    f"{OUT_OF_REACH}: one of these definitions is missing as the daemon starts": (
        "simulated/clusterset/test_failures.py",
        "test_a_definition_that_is_missing_as_the_daemon_starts_ends_no_export_at_a_peer",
    ),
    f"{OUT_OF_REACH}: a Service that is exported is deleted, and made again": (
        "simulated/clusterset/test_failures.py",
        "test_a_service_that_is_deleted_and_made_again_is_exported_again",
    ),
    f"{OUT_OF_REACH}: a peer is away while Services are exported, or exports end": (
        "simulated/clusterset/test_failures.py",
        "test_while_a_peer_is_away_this_clusters_own_exports_come_and_go",
    ),
    f"{OUT_OF_REACH}: a peering ends while Services are exported": (
        "simulated/clusterset/test_sharing.py",
        "test_unpeering_withdraws_what_the_peer_exports_and_nothing_else",
    ),
    f"{OUT_OF_REACH}: nothing gets through to a cluster that shares Services on": (
        "simulated/clusterset/test_shared_on.py",
        "test_of_two_ways_one_is_used_and_the_other_after_it",
    ),
    f"{OUT_OF_REACH}: the daemon of a cluster that shares Services on is replaced": (
        "simulated/clusterset/test_shared_on.py",
        "test_what_is_shared_on_outlasts_the_hubs_daemon_and_ends_with_its_peering",
    ),
    f"{OUT_OF_REACH}: the key of a cluster is replaced that shares by way of another": (
        "simulated/clusterset/test_shared_on.py",
        "test_a_key_that_is_replaced_ends_it_until_the_other_side_names_the_new_one",
    ),
    f"{OUT_OF_REACH}: nothing of a cluster that shares by way of another comes for over a week": (
        "simulated/clusterset/test_shared_on.py",
        "test_what_the_hub_goes_on_telling_ends_with_its_signature",
    ),
    "Changes of a pod that runs: of several ephemeral containers one is refused": (
        "simulated/reflection/test_pod_changes.py",
        "test_a_debugger_that_is_refused_keeps_no_other_away",
    ),
    f"{PEERS_API}: somebody asks what pods there use (`kubectl top`, an autoscaler)": (
        "simulated/consumer/test_nodepages.py",
        "test_figures_are_the_peers_and_never_zeros",
    ),
    f"{POD}: it is evicted (a node there is drained), preempted, or taken from a lost node": (
        "node/test_ends.py",
        "test_pods_of_a_node_that_is_drained_there_are_placed_anew",
    ),
    f"{POD}: it is to be evicted there, and its budget here allows no disruption": (
        "cluster/test_disruption_budgets.py",
        "test_a_drain_at_the_peer_waits_for_the_budget_here",
    ),
    f"{POD}: somebody deletes it": (
        "cluster/test_offloading.py",
        "test_scale_delete_and_recreate",
    ),
    f"{POD}: its node there runs out of memory or disk, or is shut down": (
        "unit/plugins/test_ending_pods.py",
        "test_what_a_kubelet_ends_stays_as_on_a_node_here",
    ),
    f"{POD}: it asks for a volume that its peer does not make": (
        "simulated/consumer/test_claims.py",
        "test_what_the_peer_refuses_is_said_before_the_pod_is_bound",
    ),
    f"{POD}: the claim behind its volume is deleted there": (
        "simulated/consumer/test_claims.py",
        "test_it_grows_and_a_claim_that_is_lost_is_not_made_again",
    ),
    f"{POD}: its namespace is brought back while volumes lie there": (
        "simulated/consumer/test_claims_placed.py",
        "test_volumes_keep_their_namespace_at_a_peer_until_they_are_deleted",
    ),
    f"{POD}: no node there has room for it": (
        "node/test_ends.py",
        "test_who_is_preempted_there_waits_with_the_peers_words",
    ),
    f"{POD}: it cannot start there: for ten minutes no node has a place for it, for five its image"
    " cannot be pulled, or for two the peer refuses it": (
        "stateful/test_returns.py",
        "test_whatever_happens_meanwhile_nothing_runs_twice",
    ),
    f"{TOKENS}: the peer is away when a token is due": (
        "simulated/reflection/test_pod_tokens.py",
        "test_a_renewal_that_is_late_as_the_peer_is_away_is_said_on_the_pod",
    ),
    f"{TOKENS}: this cluster gives none: its ServiceAccount is gone, a policy or a missing right"
    " refuses": (
        "simulated/reflection/test_pod_tokens.py",
        "test_a_pods_status_comes_home_though_no_token_is_given",
    ),
    f"{TOKENS}: the daemon is away": (
        "simulated/reflection/test_pod_tokens.py",
        "test_they_are_renewed_in_time_and_not_by_a_daemon_that_only_begins_again",
    ),
    f"{TOKENS}: the connection to the consumer's API server is down": (
        "simulated/reflection/test_pod_tokens.py",
        "test_they_are_renewed_in_time_and_not_by_a_daemon_that_only_begins_again",
    ),
    f"{CHANGES}: a resize is more than the slice has left": (
        "simulated/reflection/test_pod_changes.py",
        "test_growing_beyond_the_quota_is_refused_and_said_until_it_fits",
    ),
    f"{CHANGES}: the provider's Pod Security, a webhook or a missing right refuses a change": (
        "cluster/test_hostile_consumer.py",
        "test_changes_that_ask_for_more_than_guests_have",
    ),
    f"{CHANGES}: the provider's API server cannot accept it (a resize that changes the QoS"
    " class)": (
        "simulated/reflection/test_pod_changes.py",
        "test_what_no_api_server_takes_is_not_tried_again_until_it_is_another_change",
    ),
    f"{CHANGES}: the provider's settings do not allow it (`[guests]`)": (
        "simulated/reflection/test_pod_changes.py",
        "test_an_added_toleration_follows_where_guests_may_have_it",
    ),
    f"{CHANGES}: its API server is older than 1.33": (
        "simulated/reflection/test_pod_changes.py",
        "test_an_api_server_that_knows_no_resizing_says_so_and_the_pod_runs_on",
    ),
    f"{CHANGES}: its node has no room now (`Deferred`), or never will (`Infeasible`)": (
        "unit/model/test_podstatus_changes.py",
        "test_how_a_resize_fares_comes_back",
    ),
    f"{CHANGES}: the peer runs Liqo, or a liqod before this": (
        "simulated/reflection/test_pod_changes.py",
        "test_it_is_said_where_the_peer_takes_over_no_change",
    ),
    f"{PEERS_API}: a provider [that dials](handshake.md#when-the-lender-dials) is cut off, or"
    " either daemon is replaced": (
        "simulated/reachability/test_lending.py",
        "test_after_a_restart_of_either_side_the_lender_dials_again",
    ),
    f"{PEERS_API}: somebody is in a pod there (`kubectl exec`, `attach`, `port-forward`,"
    " `logs -f`)": (
        "simulated/consumer/test_podstreams.py",
        "test_streams_end_with_the_way_and_are_bounded",
    ),
    f"{OUT_OF_REACH}: nothing gets through to any cluster that an import has endpoints of": (
        "simulated/clusterset/test_dead_peers.py",
        "test_a_service_that_asks_for_it_keeps_the_last_ones_and_no_others",
    ),
    f"{OUT_OF_REACH}: nothing has come through the tunnel for 15 s": (
        "netns/test_cut.py",
        "test_gateways_cut_a_peer_that_stays_away_and_not_one_that_is_soon_back",
    ),
    f"{GATEWAY}: `liqod node` begins anew, and finds what its machine can do only at a later"
    " look": (
        "simulated/network/test_unanswered_looks.py",
        "test_a_new_program_that_cannot_look_at_first_is_asked_again",
    ),
    f"{GATEWAY}: its node is lost, cordoned or drained, where others stand by, while pods of one"
    " peer call those of another [by way of this cluster]"
    "(network.md#when-two-peers-are-not-joined-with-each-other)": (
        "netns/test_transit_failover.py",
        "test_calls_by_way_of_a_hub_go_on_by_its_next_gateway",
    ),
    f"{GATEWAY}: `liqod tunnel` ends while its program is of a later release than the `liqod node`"
    " that runs": (
        "unit/plugins/network/test_machineprocess_releases.py",
        "test_one_of_a_later_release_goes_on_where_it_does_these_requests",
    ),
    f"{GATEWAY}: `liqod node` is begun anew in a later release": (
        "netns/test_releases.py",
        "test_each_part_is_upgraded_alone_and_all_go_back_to_the_version_before",
    ),
    f"{GATEWAY}: the daemon is begun anew in another release, or `liqod node` in an older one, "
    "on a host": (
        "netns/test_releases.py",
        "test_each_part_is_upgraded_alone_and_all_go_back_to_the_version_before",
    ),
    f"{GATEWAY}: a gateway on a host [goes back](../how-to/upgrades.md#back) to the version before,"
    " which has no `liqod tunnel`": (
        "netns/test_releases.py",
        "test_each_part_is_upgraded_alone_and_all_go_back_to_the_version_before",
    ),
    f"{GATEWAY}: a backend of tunnels does not answer what this machine lacks for it": (
        "simulated/network/test_unanswered_looks.py",
        "test_a_new_daemon_waits_for_a_backend_that_a_new_program_cannot_ask",
    ),
    f"{GATEWAY}: its process of the tunnels, `liqod tunnel`, hangs": (
        "netns/test_machine_apart.py",
        "test_a_process_of_the_tunnels_that_is_frozen_is_replaced_within_seconds",
    ),
    "The daemon: its event loop is blocked for good": (
        "node/test_pods.py",
        "test_a_daemon_that_hangs_is_begun_anew_and_loses_no_packet",
    ),
    "The daemon: its node is lost, in a cluster": (
        "unit/install/test_manifests.py",
        "test_a_lost_node_keeps_its_daemon_for_half_a_minute",
    ),
    "The daemon: one that stands by does not reach this cluster's API server": (
        "simulated/daemon/test_health.py",
        "test_a_standby_without_its_api_server_is_not_ready",
    ),
    "The daemon: its webhook has no certificate, as before the first leader has made one": (
        "simulated/daemon/test_health.py",
        "test_a_replica_without_the_webhooks_certificate_is_not_ready",
    ),
    "The daemon: it may have few files open (`LimitNOFILE`, the container's limit)": (
        "simulated/daemon/test_floods.py",
        "test_whatever_face_a_crowd_stands_at_the_others_and_itself_go_on",
    ),
    f"{OUT_OF_REACH}: the tunnel, whatever the API server does; or, without one, the API server": (
        "simulated/reflection/test_withdrawals.py",
        "test_pods_follow_the_tunnel_whatever_the_api_server_does",
    ),
    f"{OUT_OF_REACH}: only its API server or its daemon is silent, and the tunnel answers": (
        "simulated/reflection/test_withdrawals.py",
        "test_pods_follow_the_tunnel_whatever_the_api_server_does",
    ),
    f"{OUT_OF_REACH}: this daemon is replaced meanwhile": (
        "simulated/reflection/test_withdrawals.py",
        "test_what_a_daemon_before_withdrew_is_given_back",
    ),
    f"{POD}: its node there has stopped reporting": (
        "simulated/consumer/test_dead_nodes.py",
        "test_nodes_that_die_at_the_provider_are_shown_here_until_they_are_back",
    ),
    f"{POD}: the provider has cordoned all its nodes that are Ready, and adds none"
    " (`provider.autoscales`)": (
        "simulated/consumer/test_dead_nodes.py",
        "test_a_peer_that_has_cordoned_all_its_ready_nodes_takes_nothing_new",
    ),
    f"{POD}: a Service's EndpointSlice takes more than 1 MiB, which a thousand endpoints do not, or"
    " the peer holds too much of this cluster already (`guests.max_bytes`)": (
        "simulated/provider/test_shadowendpointslices.py",
        "test_what_was_made_of_a_slice_that_became_too_large_stays",
    ),
    f"{POD}: the peer holds so much of this cluster already (`guests.max_bytes`) that its ShadowPod"
    " is not even read there": (
        "simulated/provider/test_hostile_bounds.py",
        "test_what_was_not_even_read_gets_its_pod_once_there_is_room",
    ),
    f"{POD}: the peer makes no pod of its ShadowPod for 60 s, and gives no reason": (
        "simulated/inspect/test_lentpods.py",
        "test_a_shadow_pod_with_neither_a_pod_nor_a_reason_is_named_after_a_while",
    ),
    f"{PLUGIN}: the peer has not its kind, or gives no right to it": (
        "simulated/reflection/test_lacking_kinds.py",
        "test_the_peers_node_stays_as_it_is",
    ),
    f"{PLUGIN}: its tunnel breaks, or does not come back in time": (
        "unit/plugins/test_walls.py",
        "test_a_function_of_a_tunnel",
    ),
    f"{PLUGIN}: it does not mind that it is cancelled": (
        "unit/plugins/test_walls.py",
        "test_a_run_of_a_discovery",
    ),
    f"{PLUGIN}: it holds up the end of the daemon": (
        "simulated/plugins/test_plugins_in_daemons.py",
        "test_those_that_do_not_end_are_named_and_hold_neither_the_lease_nor_the_end",
    ),
    f"{PLUGIN}: it raises, also `SystemExit`, or returns something of another type": (
        "simulated/plugins/test_plugin_walls.py",
        "test_one_that_exits_ends_nothing_and_is_shown",
    ),
    f"{PLUGIN}: it blocks": (
        "simulated/plugins/test_plugin_walls.py",
        "test_one_that_blocks_is_named_while_it_does_and_parked",
    ),
    f"{PLUGIN}: its description or its settings do not fit": (
        "unit/plugins/test_loader.py",
        "test_a_broken_plugin_is_left_out_and_stops_nobody",
    ),
    f"{PLUGIN}: two peers, or somebody else, write one status": (
        "simulated/reflection/test_several_peers.py",
        "test_a_status_that_somebody_else_undoes_is_let_be",
    ),
    f"{PLUGIN}: the last peer that has an object is left, or its namespace comes back": (
        "simulated/reflection/test_several_peers.py",
        "test_what_is_made_here_is_the_first_ones_and_goes_with_the_last",
    ),
    f"{GATEWAY}: the daemon alone": (
        "netns/test_failover.py",
        "test_a_daemon_that_is_killed_alone_loses_nothing_and_is_not_followed",
    ),
    f"{GATEWAY}: its node, where [others stand by](network.md#when-the-gateway-is-gone)": (
        "netns/test_failover.py",
        "test_a_gateway_that_is_unplugged_is_followed_by_its_silence",
    ),
    f"{GATEWAY}: its node is cordoned or drained, where [others stand by]"
    "(network.md#when-the-gateway-is-gone) on nodes that are not": (
        "netns/test_failover.py",
        "test_a_gateway_whose_node_is_cordoned_gives_way",
    ),
    f"{GATEWAY}: its node is drained, where nobody stands by": (
        "netns/test_liqod_node.py",
        "test_another_node_becomes_the_gateway",
    ),
    f"{GATEWAY}: its node, where nobody stands by": (
        "netns/test_liqod_node.py",
        "test_another_node_becomes_the_gateway",
    ),
    f"{GATEWAY}: it is cut off from the others, and believes that it leads": (
        "netns/test_failover.py",
        "test_a_second_gateway_that_believes_it_leads_is_fenced",
    ),
    f"{GATEWAY}: `liqod node` in a pod, or its pod is replaced": (
        "node/test_pods.py",
        "test_tunnels_stand_again_soon_where_liqod_node_is_replaced_or_killed",
    ),
    f"{GATEWAY}: `liqod node` on a host": (
        "netns/test_parts.py",
        "test_each_part_fails_and_packets_go_on",
    ),
    f"{GATEWAY}: `liqod tunnel` ends, alone or with the daemon": (
        "netns/test_parts.py",
        "test_each_part_fails_and_packets_go_on",
    ),
    f"{GATEWAY}: `liqod tunnel` and `liqod node` end at once, on a host": (
        "netns/test_parts.py",
        "test_each_part_fails_and_packets_go_on",
    ),
    f"{GATEWAY}: all three programs end at once, on a host": (
        "netns/test_parts.py",
        "test_each_part_fails_and_packets_go_on",
    ),
    f"{GATEWAY}: the daemon and `liqod node` end at once, or all three programs, in pods": (
        "node/test_pods.py",
        "test_all_parts_of_a_gateway_fail_in_each_order",
    ),
    f"{GATEWAY}: the daemon or `liqod node` is frozen for some seconds, or all three programs": (
        "netns/test_parts.py",
        "test_each_part_fails_and_packets_go_on",
    ),
    f"{GATEWAY}: `liqod tunnel` is frozen for less than six seconds": (
        "netns/test_parts.py",
        "test_each_part_fails_and_packets_go_on",
    ),
    f"{GATEWAY}: `liqod node`, or its process of the tunnels, where the daemon is called "
    "[at port 443](security.md#port-443)": (
        "netns/test_called_daemon.py",
        "test_each_program_is_killed_and_calls_come_again_while_those_that_came_go_on",
    ),
    f"{GATEWAY}: somebody flushes rules, deletes routes or interfaces, kills a tunnel": (
        "netns/test_heal.py",
        "test_what_is_harmed_under_traffic_is_put_back",
    ),
    f"{TOLD}: there are more Events than a kubelet may write"
    " (50 a second, 25 at once of one pod)": (
        "unit/reflection/test_eventwriter.py",
        "test_a_flood_is_left_out_counted_and_said_once",
    ),
    f"{TOLD}: an Event is repeated every few seconds, as by a probe": (
        "unit/reflection/test_eventwriter.py",
        "test_one_that_is_told_again_and_again_is_written_now_and_then",
    ),
    f"{TOLD}: the peer gives no right to read Events": (
        "simulated/reflection/test_remote_events.py",
        "test_a_peer_that_gives_no_right_to_read_events_is_gone_on_without",
    ),
    f"{TOLD}: the peer does not answer, lets go of Events that were not read yet, or "
    "the daemon is replaced": (
        "simulated/reflection/test_remote_events.py",
        "test_a_daemon_that_starts_anew_tells_what_came_meanwhile_and_nothing_twice",
    ),
    f"{TOLD}: a virtual node is not Ready, its network or its peer's daemon fails, it is cordoned"
    " or drained": (
        "simulated/consumer/test_node_events.py",
        "test_the_nodes_own_events_say_why_it_is_not_ready",
    ),
    f"{SHARES}: the provider's quota controller (kube-controller-manager) is away, or late": (
        "simulated/provider/test_hostile_quotas.py",
        "test_many_namespaces_at_once_have_no_more_than_one",
    ),
    f"{SHARES}: the daemon is killed between lowering one share and raising another": (
        "simulated/provider/test_hostile_quotas.py",
        "test_the_next_daemon_gives_what_a_killed_one_had_only_taken",
    ),
    f"{SHARES}: somebody edits a share": (
        "simulated/provider/test_hostile_quotas.py",
        "test_a_share_that_somebody_else_writes_is_put_right",
    ),
}
"""Rows that another test shows, which needs plugins or components of its own: its file and name."""
