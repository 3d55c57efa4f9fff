"""The overview that ``status`` makes of the objects of a cluster."""

import re
from pathlib import Path

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.cli.report import overview
from liqod.model.crossing.guests import GuestRow
from liqod.model.ids import IdProblem
from liqod.model.objects.quantities import NANO
from liqod.model.peering.foreigncluster import REFUSES, UNTRUSTED
from liqod.model.view.snapshot import GuestSummary, PodSummary, Snapshot
from liqod.plugins.checks import objects
from liqod.resources import (
    ForeignCluster,
    NamespaceOffloading,
    ResourceSlice,
    Tenant,
    VirtualNode,
)
from liqod.resources.authentication import SliceCondition, SliceSpec, SliceStatus, TenantSpec
from liqod.resources.core import ForeignClusterSpec, ForeignClusterStatus, PeerCondition
from liqod.resources.nodes import (
    HardQuota,
    VirtualNodeCondition,
    VirtualNodeSpec,
    VirtualNodeStatus,
)
from liqod.resources.offloading import (
    NamespaceCondition,
    NamespaceOffloadingSpec,
    NamespaceOffloadingStatus,
)

DAY = 86400.0


def peer(
    name: str,
    *,
    up: bool = True,
    notes: dict[str, str] | None = None,
    message: str = "refused",
    reason: str = "",
) -> ForeignCluster:
    condition = PeerCondition("APIServerStatus", "Established" if up else "Error", reason, message)
    return ForeignCluster(
        metadata=ObjectMeta(name=name, annotations=notes or {}),
        spec=ForeignClusterSpec(cluster_id=name),
        status=ForeignClusterStatus(role="Provider", conditions=(condition,)),
    )


def node(name: str, of: str, **notes: str) -> VirtualNode:
    return VirtualNode(
        metadata=ObjectMeta(name=name, annotations=notes),
        spec=VirtualNodeSpec(cluster_id=of, resource_quota=HardQuota(hard={"cpu": "4"})),
    )


def healthy(**changes: object) -> Snapshot:
    values: dict[str, object] = {
        "cluster_id": "rome",
        "leader": "host-1",
        "leader_age": 1.0,
        "webhook": "true",
        "foreign_clusters": (peer("milan", notes={labels.POD_NETWORK: "routed"}),),
        "virtual_nodes": (node("milan", "milan"),),
        "nodes": {"milan": ""},
        "allocatable": {"milan": {"cpu": "4"}},
        "pods": (PodSummary("shop", "web-1", "milan", "Running", True),),
        "expiries": {("milan", "controlplane-milan"): 300 * DAY},
        **changes,
    }
    return Snapshot(**values)  # type: ignore[arg-type]


def problems(snapshot: Snapshot) -> list[str]:
    return [problem.what for problem in overview(snapshot).problems]


def test_all_is_well():
    view = overview(healthy())
    assert view.problems == ()
    assert view.daemon == "running as host-1"
    assert view.webhook == "reachable"
    (row,) = view.peers
    assert (row.api, row.pod_network, row.pods_out, row.certificate_days) == (
        "up",
        "routed",
        1,
        300.0,
    )
    (shown,) = view.nodes
    assert (shown.ready, shown.resources, shown.pods_ready) == (True, {"cpu": "4"}, 1)


def test_a_node_has_what_the_scheduler_counts_and_not_its_grant():
    (less,) = overview(healthy(allocatable={"milan": {"cpu": "1500m", "pods": 3}})).nodes
    assert (less.resources, less.granted) == ({"cpu": "1500m", "pods": "3"}, {"cpu": "4"})
    (unknown,) = overview(healthy(allocatable={}, nodes={})).nodes
    assert (unknown.resources, unknown.granted) == ({}, {"cpu": "4"})


def test_a_daemon_that_is_down_is_the_worst_problem():
    snapshot = healthy(leader_age=600.0, foreign_clusters=(peer("milan", up=False),))
    assert problems(snapshot)[0] == "the daemon is not running: last heard of 10 min ago"


def test_what_is_wrong_with_a_peer_is_named():
    found = problems(
        healthy(
            foreign_clusters=(peer("milan", up=False),),
            nodes={"milan": "the peer is gone"},
            expiries={("milan", "controlplane-milan"): -5.0},
            webhook="connection refused",
        )
    )
    assert found == [
        "its API server does not answer: refused",
        "the certificate controlplane-milan has expired",
        "virtual node milan: the peer is gone",
        "the API server cannot reach the webhook: connection refused",
    ]


def test_a_node_that_is_missing_is_a_problem():
    assert problems(healthy(nodes={})) == ["virtual node milan: there is no such Node"]


def test_why_a_node_cannot_be_as_it_should_is_said():
    told = VirtualNodeCondition(type="Node", status="None", reason="NameTaken", message="taken")
    other = msgspec.structs.replace(
        node("milan", "milan"), status=VirtualNodeStatus(conditions=(told,))
    )
    view = overview(healthy(virtual_nodes=(other,), nodes={}))
    assert [each.what for each in view.problems] == ["virtual node milan: taken"]
    assert not view.nodes[0].ready


def test_a_server_that_shows_another_certificate_is_not_said_to_be_silent():
    said = "the server's certificate is not trusted: self-signed certificate"
    stranger = peer("milan", up=False, message=said, reason=UNTRUSTED)
    (problem,) = overview(healthy(foreign_clusters=(stranger,))).problems
    assert problem.what == f"who answers is not known: {said}"
    assert "is that still milan?" in problem.remedy


def test_a_certificate_that_is_refused_or_not_renewed_says_what_to_do():
    refused = peer(
        "milan", up=False, message="1.2.3.4:6443 refuses our certificate", reason=REFUSES
    )
    view = overview(
        healthy(
            foreign_clusters=(refused,),
            expiries={("milan", "controlplane-milan"): -5.0, ("milan", "slice"): 7200.0},
        )
    )
    again = (
        "`liqod peer milan` with the same options again, or `liqod peer --remote-kubeconfig FILE`"
        " with a new kubeconfig of it; what runs at milan stays"
    )
    assert [(each.what, each.remedy) for each in view.problems] == [
        (
            "its API server refuses this cluster: 1.2.3.4:6443 refuses our certificate",
            again,
        ),
        ("the certificate controlplane-milan has expired", again),
        (
            "the certificate slice ends in 2 h and was not renewed",
            "does the daemon of milan run?",
        ),
    ]


def test_a_peer_that_is_left_and_does_not_answer_can_be_given_up():
    leaving = peer("milan", notes={labels.TOMBSTONE: "{}"})
    (problem,) = overview(healthy(foreign_clusters=(leaving,))).problems
    assert problem.what == "it is being left; what is to be removed there waits for its answer"
    assert problem.remedy == "`liqod unpeer milan --forget` gives that up"


def test_a_waiting_pod_says_why_and_daemon_sets_are_counted_once():
    pods = (
        PodSummary("shop", "web-1", "milan", "Pending", False, "over quota"),
        PodSummary("shop", "agent-1", "milan", "Pending", False, "x", "agent"),
        PodSummary("shop", "agent-2", "milan", "Pending", False, "x", "agent"),
    )
    assert problems(healthy(pods=pods)) == [
        "pod shop/web-1: over quota",
        "DaemonSet shop/agent tolerates everything: 2 of its pods wait on virtual nodes",
    ]


def test_pods_that_wait_for_the_same_are_one_problem():
    pods = tuple(
        PodSummary(namespace, f"web-{number}", "milan", "Pending", False, why)
        for namespace in ("shop", "yard")
        for number, why in enumerate(("over quota", "over quota", "over quota", "no image"), 1)
    )
    assert sorted(problems(healthy(pods=pods))) == [
        "pod shop/web-1 and 2 others: over quota",
        "pod shop/web-4: no image",
        "pod yard/web-1 and 2 others: over quota",
        "pod yard/web-4: no image",
    ]


def test_a_denied_slice_is_a_problem():
    denied = SliceCondition(type="Resources", status="Denied", message="too much")
    item = ResourceSlice(
        metadata=ObjectMeta(name="milan"),
        spec=SliceSpec(provider_cluster_id="milan"),
        status=SliceStatus(conditions=(denied,)),
    )
    assert problems(healthy(slices=(item,))) == ["slice milan denied: too much"]


def test_a_denied_slice_is_a_problem_of_who_asks_for_it():
    denied = SliceCondition(
        type="Resources",
        status="Accepted",
        reason="ResourceSliceGrowthDenied",
        message="too much",
    )
    marks = {"liqo.io/replicated": "true", "liqo.io/originID": "turin"}
    item = ResourceSlice(
        metadata=ObjectMeta(name="milan", labels=marks),
        spec=SliceSpec(provider_cluster_id="rome", consumer_cluster_id="turin"),
        status=SliceStatus(conditions=(denied,)),
    )
    [found] = overview(healthy(slices=(item,))).problems
    assert (found.peer, found.what) == ("turin", "slice milan may not grow: too much")
    assert "your own configuration" in found.remedy


def test_states_of_a_peer():
    leaving = peer("milan", notes={labels.TOMBSTONE: "{}"})
    drained = Tenant(spec=TenantSpec(cluster_id="turin", tenant_condition="Drained"))
    view = overview(healthy(foreign_clusters=(leaving, peer("turin")), tenants=(drained,)))
    assert {row.id: row.state for row in view.peers} == {"milan": "leaving", "turin": "Drained"}


def test_namespaces_show_the_selected_peers_only():
    def conditions(required: str, ready: str, message: str = "") -> tuple[NamespaceCondition, ...]:
        reason = "CreationLoopBackOff" if message else "Terminating"
        return (
            NamespaceCondition(type="OffloadingRequired", status=required),
            NamespaceCondition(type="Ready", status=ready, reason=reason, message=message),
        )

    offloading = NamespaceOffloading(
        metadata=ObjectMeta(name="offloading", namespace="shop"),
        spec=NamespaceOffloadingSpec(),
        status=NamespaceOffloadingStatus(
            offloading_phase="SomeFailed",
            remote_namespace_name="shop-rome",
            remote_namespaces_conditions={
                "milan": conditions("True", "True"),
                "turin": conditions("True", "False", "it exists already"),
                "genoa": conditions("False", "False"),
            },
        ),
    )
    seen = overview(healthy(offloadings=(offloading,)))
    assert [each.what for each in seen.problems] == ["namespace shop: it exists already"]
    (row,) = overview(healthy(offloadings=(offloading,))).namespaces
    assert row.clusters == {"milan": "ready", "turin": "it exists already"}
    assert overview(healthy(offloadings=(offloading,)), "genoa").namespaces == ()


def test_what_is_wrong_with_the_installation_comes_first():
    snapshot = healthy(
        id_problem=IdProblem(
            "this cluster is rome to its peers, and cannot become roma", "set it back"
        ),
        definitions=("shadowpods.offloading.liqo.io",),
        stayed={"bank": 3, "shop": 1},
        foreign_clusters=(peer("milan", up=False),),
    )
    assert problems(snapshot) == [
        "the custom resource shadowpods.offloading.liqo.io is missing",
        "this cluster is rome to its peers, and cannot become roma",
        "its API server does not answer: refused",
        "1 pod of shop runs on this cluster's own nodes, though its strategy is Remote",
        "3 pods of bank run on this cluster's own nodes, though its strategy is Remote",
    ]
    assert overview(snapshot).problems[1].remedy == "set it back"


def test_standbys_are_named_behind_the_leader():
    view = overview(healthy(leader="one", standbys=("two", "three")))
    assert view.daemon == "running as one; two, three standing by"


def test_a_peers_daemon_that_does_not_run_is_a_problem():
    notes = {labels.PEER_DAEMON: "its Lease was last renewed at noon"}
    view = overview(healthy(foreign_clusters=(peer("milan", notes=notes),)))
    assert view.peers[0].daemon == "its Lease was last renewed at noon"
    (problem,) = view.problems
    assert (problem.rank, problem.peer, problem.hint) == (1, "milan", False)
    assert problem.remedy == "start `liqod run` beside milan"
    running = healthy(foreign_clusters=(peer("milan", notes={labels.PEER_DAEMON: "true"}),))
    assert overview(running).peers[0].daemon == "up"
    assert overview(healthy()).peers[0].daemon == "-"


def test_nothing_is_green_that_a_dead_daemon_said():
    notes = {labels.PEER_DAEMON: "true"}
    view = overview(healthy(leader_age=600.0, foreign_clusters=(peer("milan", notes=notes),)))
    assert view.webhook == "nobody answers it: the daemon does not run"
    assert (view.peers[0].api, view.peers[0].daemon) == ("not known", "not known")
    standby = overview(healthy(leader_age=600.0, standbys=("host-2",)))
    assert standby.webhook == "reachable", "who stands by answers it, too"


def test_a_peers_daemon_is_not_known_while_its_api_server_does_not_answer():
    gone = peer("milan", up=False, notes={labels.PEER_DAEMON: "true"})
    view = overview(healthy(foreign_clusters=(gone,)))
    assert view.peers[0].daemon == "not known"
    assert [each.what for each in view.problems] == ["its API server does not answer: refused"]


def test_a_lender_sees_its_guests():
    guests = (
        GuestSummary("shop-rome", "web-1", "n1", "Running", True, consumer="rome"),
        GuestSummary("shop-rome", "web-2", "", "Pending", False, "no room", consumer="rome"),
        GuestSummary("shop-turin", "web-1", "n1", "Running", True, consumer="turin"),
    )
    snapshot = healthy(guests=guests, foreign_clusters=(peer("rome"), peer("turin")))
    view = overview(snapshot)
    assert view.guests == (
        GuestRow("rome", "shop-rome", 2, 1, {"Pending": 1, "Running": 1}, "web-2: no room"),
        GuestRow("turin", "shop-turin", 1, 1, {"Running": 1}),
    )
    assert [row.pods_in for row in view.peers] == [2, 1]
    assert [row.consumer for row in overview(snapshot, "turin").guests] == ["turin"]


def test_policies_that_are_missing_are_named():
    (problem,) = overview(healthy(policies=("liqod-shadow-pods",))).problems
    assert problem.what.startswith("the admission policy liqod-shadow-pods is missing")
    assert not problem.hint


def test_pods_of_users_and_what_is_meant_are_hints():
    late = PodSummary("shop", "web-1", "milan", "Pending", False, "no such image")
    leaving = peer("milan", notes={labels.TOMBSTONE: "{}"})
    view = overview(healthy(pods=(late,), foreign_clusters=(leaving,)))
    assert [problem.hint for problem in view.problems] == [True, True]


def test_a_pod_that_has_no_place_at_the_peer_is_a_problem_of_the_peering():
    pods = tuple(
        PodSummary(
            "shop", name, "milan", "Pending", False, "0/1 nodes are available", unplaced=True
        )
        for name in ("web-1", "web-2")
    )
    view = overview(healthy(pods=pods))
    assert [problem.what for problem in view.problems] == [
        "no node of milan has a place for the pod shop/web-1 and 1 other: 0/1 nodes are available"
    ]
    assert not view.well


def test_more_granted_than_there_is_is_a_hint_where_it_is_lent():
    marks = {labels.REPLICATED: "true", labels.ORIGIN_ID: "rome"}
    lent = ResourceSlice(
        metadata=ObjectMeta(name="milan", labels=marks), status=SliceStatus(resources={"cpu": "4"})
    )
    two = {"cpu": 2 * NANO}
    (problem,) = overview(healthy(slices=(lent,), capacity=two)).problems
    assert problem.what.startswith("consumers are granted cpu 4, and the nodes here have cpu 2")
    assert problem.hint
    assert not overview(healthy(slices=(lent,), capacity={"cpu": 4 * NANO})).problems


def test_no_cure_sends_the_reader_back_to_the_command_that_shows_it():
    names = ("cluster.py", "peers.py", "objects.py")
    texts = {name: Path(objects.__file__).with_name(name).read_text() for name in names}
    assert not [name for name, text in texts.items() if re.search(r"[^`]`liqod status", text)]


def test_nodes_of_a_peer_that_are_not_ready_are_a_problem():
    lacking = node("milan", "milan", **{labels.NODES_READY: "none"})
    [said] = problems(healthy(virtual_nodes=(lacking,)))
    assert "no node of the peer's is Ready" in said
    assert problems(healthy()) == []
