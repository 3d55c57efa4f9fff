"""The faults, and what is to be said of each: the table of :mod:`tests.stateful.test_truth`."""

from dataclasses import dataclass

from tests.stateful import mishaps
from tests.stateful.mishaps import Act
from tests.stateful.steps import Step, Wait
from tests.stateful.troubles import CutWatches, Down, Freeze, Garble, Join, Part, Restore, Up
from tests.stateful.upheavals import (
    DEFINED,
    Condition,
    CutWebhook,
    DropDefinition,
    DropTenant,
    Pair,
)

Node = tuple[str, str, bool]
"""Whether it is Ready, what it says of the peer's daemon, and whether new pods are kept away."""
WELL, GONE, SHUT = ("True", "True", False), ("False", "True", False), ("True", "False", True)
PEER_UP, PEER_DOWN = 'liqod_peer_up{peer="milan"} 1.0', 'liqod_peer_up{peer="milan"} 0.0'
PEER_LAYERS = ("daemon", "clock", "versions", "replication", "nodes", "namespaces", "reflection")


@dataclass(frozen=True)
class Case:
    """One fault, and what is to be said of it.

    Attributes:
        name: of the case.
        script: what happens.
        rows: the rows of the page that it is about.
        own: the first layer that fails of this cluster; empty for none.
        peer: the same of the peer milan (or rome, where milan is looked at).
        dark: layers of the peer, or of this cluster, that must not be called good.
        exits: how ``doctor`` and ``status`` end.
        says: what ``status`` names among its problems; empty for nothing in particular.
        node: what the virtual node milan shows; None where it is not looked at.
        metric: a line of the metrics; empty where no daemon can be asked.
        seconds: how long it lasts.
        at: whose commands are used.
        probe: the daemon looks anew.
    """

    name: str
    script: tuple[Step | Act, ...] = ()
    rows: tuple[str, ...] = ()
    own: str = ""
    peer: str = ""
    dark: tuple[str, ...] = ()
    exits: tuple[int, int] = (0, 0)
    says: str = ""
    node: Node | None = WELL
    metric: str = PEER_UP
    seconds: float = 60.0
    at: str = "rome"
    probe: bool = False


DAEMON, PEERS_API, PEERS_DAEMON = "The daemon", "A peer's API server", "A peer's daemon"
POLICIES = "A provider's admission policies"
DEFINITIONS, WEBHOOK = "Definitions of custom resources", "The webhook"
UNREACHABLE = "its API server does not answer: "
CASES = (
    Case(
        "all is well",
        rows=(f"{DAEMON}: it is replaced by another version",),
        script=(mishaps.replace_rome,),
    ),
    Case("all is well at the lender", at="milan", node=None, metric="liqod_leader 1.0"),
    # The daemon
    Case(
        "our daemon is killed",
        (mishaps.kill_rome,),
        (f"{DAEMON}: it is killed",),
        own="leader",
        peer="nodes",
        dark=("webhook", "api", "daemon", "nodes"),
        exits=(1, 1),
        says="the daemon is not running",
        metric="",
        seconds=100.0,
        node=("Unknown", "Unknown", False),
    ),
    Case(
        "a standby takes over",
        (Pair("milan"), Wait(30), mishaps.kill_one),
        rows=(f"{DAEMON}: two run beside one cluster",),
    ),
    Case(
        "a definition is missing at our start",
        (DropDefinition("rome", "quotas"), mishaps.replace_rome),
        rows=(f"{DAEMON}: the custom resources are older than it needs, or missing at its start",),
        own="installation",
        exits=(1, 1),
        says="quotas.offloading.liqo.io is missing",
        metric="",
        node=None,
        seconds=30.0,
    ),
    Case(
        "our id is changed",
        (mishaps.rename,),
        rows=(f"{DAEMON}: the cluster's id is changed in its ConfigMap",),
        own="installation",
        exits=(1, 1),
        says="cannot become roma",
    ),
    # A peer's API server
    *(
        Case(
            f"the peer's API server {name}",
            script,
            rows,
            peer="api",
            dark=PEER_LAYERS,
            exits=(1, 1),
            says=says,
            node=GONE,
            metric=PEER_DOWN,
        )
        for name, script, rows, says in (
            ("is gone", (Down("milan"),), (f"{PEERS_API}: it is gone",), UNREACHABLE),
            (
                "is frozen",
                (Freeze("milan"),),
                (
                    f"{PEERS_API}: it is frozen: accepts, and answers nothing",
                    f"{PEERS_API}: either",
                ),
                "accepts connections but answers nothing",
            ),
            ("is cut off", (Part("milan"),), (), UNREACHABLE),
            ("answers 500", (mishaps.answers(500),), (), "answers 500"),
            ("answers 429", (mishaps.answers(429),), (), "answers 429"),
            ("has another authority", (mishaps.anew,), (), "who answers is not known"),
        )
    ),
    Case(
        "the peer's API server refuses our certificate",
        (mishaps.days,),
        peer="api",
        dark=("credentials", *PEER_LAYERS),
        exits=(1, 1),
        seconds=150.0,
        says="has expired",
        node=GONE,
        metric=PEER_DOWN,
    ),
    Case(
        "the peer's API server talks nonsense",
        (Garble("milan", "get", 9999), Garble("milan", "watch", 999), CutWatches("milan")),
        peer="replication",
        dark=("nodes", "daemon", "replication"),
        exits=(1, 1),
        says="there cannot be followed",
        node=None,
    ),
    Case(
        "the peer's API server takes no pods",
        (mishaps.refuse_pods,),
        (
            f"{PEERS_API}: it answers, and takes no pods: a webhook of Liqo's there is down, or it "
            "refuses writes as too many",
        ),
        peer="reflection",
        dark=("reflection",),
        exits=(1, 1),
        says="pods cannot be written",
        node=("True", "True", True),
    ),
    Case(
        "the peer is gone for ever",
        (Down("milan"), Wait(30), mishaps.leave),
        rows=(f"{PEERS_API}: it is gone for ever",),
        says="it is being left",
        node=None,
        metric="liqod_leader 1.0",
        peer="api",
        exits=(1, 1),
    ),
    Case("the peer is back", (Down("milan"), Wait(60), Up("milan")), seconds=120.0),
    Case(
        "the way to the peer was lost for a while",
        (Part("milan"), Wait(60), Join("milan")),
        (
            f"{PEERS_API}: something in between loses the way (a load balancer, a proxy, a "
            "translator of addresses) and keeps this side's connections alive",
        ),
        seconds=120.0,
    ),
    Case(
        "the peer is what it was in a backup",
        (Restore("milan"),),
        rows=(f"{PEERS_API}: it comes back from an old backup",),
        seconds=180.0,
    ),
    # A peer's daemon
    Case(
        "the peer's daemon is killed",
        (mishaps.kill_milan,),
        rows=(f"{PEERS_DAEMON}: it is stopped or killed while its API server answers",),
        peer="daemon",
        dark=("daemon",),
        exits=(1, 1),
        node=SHUT,
        says="its daemon does not run: ",
        metric='liqod_peer_daemon_up{peer="milan"} 0.0',
    ),
    Case(
        "the peer does not show its daemon",
        (mishaps.unshown,),
        rows=(
            f"{PEERS_DAEMON}: the peer does not show it (Liqo, an older liqod)",
            "Versions that differ",
        ),
        dark=("daemon",),
        node=("True", "", False),
    ),
    # This cluster's API server
    *(
        Case(
            f"our API server {name}",
            script,
            ("This cluster's API server",),
            own="server",
            dark=("watches", "webhook"),
            exits=(1, 1),
            node=None,
            metric="liqod_leader 0.0",
        )
        for name, script in (("is gone", (Down("rome"),)), ("is frozen", (Freeze("rome"),)))
    ),
    # Definitions
    *(
        Case(
            f"{plural} are not defined here",
            (DropDefinition("rome", plural),),
            own="installation",
            dark=("installation",),
            exits=(1, 1),
            node=None,
            says=f"the custom resource {plural}.",
            seconds=1.0,
            metric="",
            rows=(f"{DEFINITIONS}: `virtualnodes`",) if plural == "virtualnodes" else (),
        )
        for plural in DEFINED
    ),
    *(
        Case(
            f"{plural} are not defined at the peer",
            (DropDefinition("milan", plural),),
            rows=rows,
            peer=layer,
            dark=(layer,),
            exits=(1, 0),
            probe=True,
            seconds=60.0,
            node=None,
        )
        for plural, layer, rows in (
            ("resourceslices", "versions", (f"{DEFINITIONS}: `resourceslices` at the provider",)),
            ("namespacemaps", "versions", (f"{DEFINITIONS}: `namespacemaps`, on either side",)),
            ("renews", "replication", ()),
            ("shadowpods", "versions", (f"{DEFINITIONS}: `shadowpods` at the provider",)),
            ("shadowendpointslices", "versions", ()),
        )
    ),
    *(
        Case(
            f"{plural} are not defined at the lender",
            (DropDefinition("milan", plural),),
            own="installation",
            exits=(1, 1),
            says=f"{plural}.",
            at="milan",
            node=None,
            metric="",
            seconds=5.0,
            rows=(
                f"{DEFINITIONS}: `resourceslices`, `tenants`, `identities`, `namespaceoffloadings` "
                "where the user made them",
            )
            if plural == "tenants"
            else (),
        )
        for plural in ("tenants", "quotas", "shadowpods")
    ),
    # The webhook
    Case(
        "the webhook cannot be reached",
        (CutWebhook(on=True),),
        (WEBHOOK,),
        own="webhook",
        dark=("webhook",),
        exits=(1, 1),
        probe=True,
        seconds=5.0,
        says="the API server cannot reach the webhook",
    ),
    # What a provider allows
    Case(
        "the tenant is cordoned, at the lender",
        (Condition("milan", "Cordoned"),),
        at="milan",
        dark=("tenant",),
        node=None,
        metric="liqod_leader 1.0",
    ),
    Case(
        "the tenant is drained, at the lender",
        (Condition("milan", "Drained"),),
        at="milan",
        dark=("tenant",),
        node=None,
        metric="liqod_leader 1.0",
    ),
    *(
        Case(
            f"the tenant is {name}",
            script,
            peer="granted",
            dark=("granted",),
            exits=(1, 1),
            node=None,
            says="withdrawn its permission",
            seconds=120.0,
        )
        for name, script in (
            ("drained", (Condition("milan", "Drained"),)),
            ("withdrawn", (DropTenant("milan"),)),
        )
    ),
    *(
        Case(name, script, (), "", "granted", ("granted",), (1, 1), says, seconds=30.0)
        for name, script, says in (
            ("a slice is denied", (mishaps.deny,), "slice extra denied"),
            ("no policy holds whom it is lent to", (mishaps.weaken, mishaps.more), "nothing new"),
        )
    ),
    Case("a slice has no answer", (mishaps.ask_in_vain,), dark=("granted",)),
    Case("what was granted is used up", (mishaps.fill,), says="the pod asks for 7"),
    Case(
        "a namespace's name is taken",
        (mishaps.take_name,),
        peer="namespaces",
        dark=("namespaces",),
        exits=(1, 1),
        says="[milan] namespace shop2: ",
    ),
    *(
        Case(
            name,
            (act,),
            (f"{POLICIES}: one is deleted, or denies nothing any more",),
            own="installation",
            dark=dark,
            exits=(1, 1),
            says="the admission policy liqod-",
            at="milan",
            node=None,
            metric="liqod_leader 1.0",
        )
        for name, act, dark in (
            ("a policy is missing", mishaps.drop_policy, ()),
            ("a policy denies nothing", mishaps.weaken, ("policies",)),
        )
    ),
)

PLUGIN = "A plugin"
DIRECT = "Pods without a ShadowPod"
GATEWAY = "The gateway of joined networks"
POD = "A pod at a peer"
TOKENS = "Tokens of pods at peers"
CHANGES = "Changes of a pod that runs"
TOLD = "What a peer tells of a pod"
ELSEWHERE = {
    "Changes of a pod that runs: of several ephemeral containers one is refused": (
        "simulated/test_pod_changes.py",
        "test_a_debugger_that_is_refused_keeps_no_other_away",
    ),
    f"{PEERS_API}: somebody asks what pods there use (`kubectl top`, an autoscaler)": (
        "simulated/test_nodepages.py",
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
        "unit/plugins/test_pods_reflector.py",
        "test_what_a_kubelet_ends_stays_as_on_a_node_here",
    ),
    f"{POD}: it asks for a volume that its peer does not make": (
        "simulated/test_claims.py",
        "test_what_the_peer_refuses_is_said_before_the_pod_is_bound",
    ),
    f"{POD}: the claim behind its volume is deleted there": (
        "simulated/test_claims.py",
        "test_it_grows_and_a_claim_that_is_lost_is_not_made_again",
    ),
    f"{POD}: its namespace is brought home while volumes lie there": (
        "simulated/test_claims_placed.py",
        "test_volumes_keep_their_namespace_at_a_peer_until_they_are_deleted",
    ),
    f"{POD}: there is no room for it": (
        "node/test_ends.py",
        "test_who_is_preempted_there_waits_with_the_peers_words",
    ),
    f"{TOKENS}: the peer is away when a token is due": (
        "simulated/test_pod_tokens.py",
        "test_a_renewal_that_is_late_as_the_peer_is_away_is_said_on_the_pod",
    ),
    f"{TOKENS}: this cluster gives none: its ServiceAccount is gone, a policy or a missing right"
    " refuses": (
        "simulated/test_pod_tokens.py",
        "test_a_pods_status_comes_home_though_no_token_is_given",
    ),
    f"{TOKENS}: the daemon is away": (
        "simulated/test_pod_tokens.py",
        "test_they_are_renewed_in_time_and_not_by_a_daemon_that_only_begins_again",
    ),
    f"{TOKENS}: the way home is down": (
        "simulated/test_pod_tokens.py",
        "test_they_are_renewed_in_time_and_not_by_a_daemon_that_only_begins_again",
    ),
    f"{CHANGES}: a resize is more than the slice has left": (
        "simulated/test_pod_changes.py",
        "test_growing_beyond_the_quota_is_refused_and_said_until_it_fits",
    ),
    f"{CHANGES}: the provider's Pod Security, a webhook or a missing right refuses a change": (
        "cluster/test_hostile_consumer.py",
        "test_changes_that_ask_for_more_than_guests_have",
    ),
    f"{CHANGES}: the provider's API server cannot accept it (a resize that changes the QoS"
    " class)": (
        "simulated/test_pod_changes.py",
        "test_what_no_api_server_takes_is_not_tried_again_until_it_is_another_change",
    ),
    f"{CHANGES}: the provider's settings do not allow it (`[guests]`)": (
        "simulated/test_pod_changes.py",
        "test_an_added_toleration_follows_where_guests_may_have_it",
    ),
    f"{CHANGES}: its API server is older than 1.33": (
        "simulated/test_pod_changes.py",
        "test_an_api_server_that_knows_no_resizing_says_so_and_the_pod_runs_on",
    ),
    f"{CHANGES}: its node has no room (`Deferred`), or never will (`Infeasible`)": (
        "unit/model/test_podstatus_changes.py",
        "test_how_a_resize_fares_comes_back",
    ),
    f"{CHANGES}: the peer runs Liqo, or a liqod before this": (
        "simulated/test_pod_changes.py",
        "test_it_is_said_where_the_peer_takes_over_no_change",
    ),
    f"{PEERS_API}: a provider [that dials](handshake.md#when-the-lender-dials) is cut off, or"
    " either daemon is replaced": (
        "simulated/test_lending.py",
        "test_after_a_restart_of_either_side_the_lender_dials_again",
    ),
    f"{PEERS_API}: somebody is in a pod there (`kubectl exec`, `attach`, `port-forward`,"
    " `logs -f`)": (
        "simulated/test_podstreams.py",
        "test_streams_end_with_the_way_and_are_bounded",
    ),
    f"{PLUGIN}: it raises, also `SystemExit`": (
        "simulated/test_plugin_walls.py",
        "test_one_that_exits_ends_nothing_and_is_shown",
    ),
    f"{PLUGIN}: it blocks": (
        "simulated/test_plugin_walls.py",
        "test_one_that_blocks_is_named_while_it_does_and_parked",
    ),
    f"{PLUGIN}: its description or its settings do not fit": (
        "unit/plugins/test_loader.py",
        "test_a_broken_plugin_is_left_out_and_stops_nobody",
    ),
    f"{PLUGIN}: two peers, or somebody else, write one status": (
        "simulated/test_several_peers.py",
        "test_a_status_that_somebody_else_undoes_is_let_be",
    ),
    f"{PLUGIN}: the last peer that has an object is left, or its namespace comes home": (
        "simulated/test_several_peers.py",
        "test_what_is_made_here_is_the_first_ones_and_goes_with_the_last",
    ),
    f"{DIRECT}: somebody drains, evicts or deletes such a pod at the provider": (
        "simulated/test_direct_pods_ending.py",
        "test_one_that_is_evicted_there_is_made_again_though_its_consumer_is_away",
    ),
    f"{DIRECT}: the same while the provider's daemon is away, or both are": (
        "simulated/test_direct_pods_ending.py",
        "test_what_ends_while_nobody_leads_on_either_side_is_made_again",
    ),
    f"{DIRECT}: its consumer ends it while the provider's daemon is away": (
        "simulated/test_direct_pods_ending.py",
        "test_one_that_is_ended_on_both_sides_waits_for_no_daemon_there",
    ),
    f"{DIRECT}: the provider's daemon is gone for good": (
        "simulated/test_direct_pods_ending.py",
        "test_revoking_lets_go_though_no_daemon_runs",
    ),
    f"{DIRECT}: the provider's webhook does not answer, or one that stands by answers": (
        "simulated/test_direct_pods.py",
        "test_a_standby_admits_nothing_and_who_leads_no_more_neither",
    ),
    f"{DIRECT}: another daemon takes over at the provider": (
        "simulated/test_direct_pods.py",
        "test_what_who_led_before_admitted_stays_and_is_counted",
    ),
    f"{DIRECT}: the provider takes none any more, or an older consumer is put in place": (
        "simulated/test_direct_pods_ending.py",
        "test_a_provider_that_takes_them_no_more_keeps_them_running",
    ),
    f"{GATEWAY}: the daemon alone": (
        "netns/test_failover.py",
        "test_a_daemon_that_is_killed_alone_loses_nothing_and_is_not_followed",
    ),
    f"{GATEWAY}: its node, where [others stand by](network.md#when-the-gateway-is-gone)": (
        "netns/test_failover.py",
        "test_a_gateway_that_is_unplugged_is_followed_by_its_silence",
    ),
    f"{GATEWAY}: its node, where nobody stands by": (
        "netns/test_liqod_node.py",
        "test_another_node_becomes_the_gateway",
    ),
    f"{GATEWAY}: it is cut off from the others, and believes that it leads": (
        "netns/test_failover.py",
        "test_a_second_gateway_that_believes_it_leads_is_fenced",
    ),
    f"{GATEWAY}: somebody flushes rules, deletes routes or interfaces, kills a tunnel": (
        "netns/test_heal.py",
        "test_what_is_harmed_under_traffic_is_put_back",
    ),
    f"{TOLD}: more is told than a kubelet may write (50 a second, 25 at once of one pod)": (
        "unit/reflection/test_eventwriter.py",
        "test_a_flood_is_left_out_counted_and_said_once",
    ),
    f"{TOLD}: an Event is told again every few seconds, as by a probe": (
        "unit/reflection/test_eventwriter.py",
        "test_one_that_is_told_again_and_again_is_written_now_and_then",
    ),
    f"{TOLD}: the peer gives no right to read Events": (
        "simulated/test_remote_events.py",
        "test_a_peer_that_gives_no_right_to_read_events_is_gone_on_without",
    ),
    f"{TOLD}: the peer does not answer, lets go of Events that were not read yet, or "
    "the daemon is replaced": (
        "simulated/test_remote_events.py",
        "test_a_daemon_that_starts_anew_tells_what_came_meanwhile_and_nothing_twice",
    ),
    f"{TOLD}: a virtual node is not Ready, its network or its peer's daemon fails, it is cordoned"
    " or drained": (
        "simulated/test_node_events.py",
        "test_the_nodes_own_events_say_why_it_is_not_ready",
    ),
}
"""Rows of which another test tells, which needs plugins or rooms of its own: its file and name."""
