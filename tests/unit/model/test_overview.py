"""What ``status`` makes of the objects of a cluster."""

import msgspec

from liqod.errors import UNTRUSTED
from liqod.kube.meta import ObjectMeta
from liqod.model import labels
from liqod.model.overview import overview
from liqod.model.snapshot import Pod, Snapshot
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
) -> ForeignCluster:
    condition = PeerCondition(
        type="APIServerStatus", status="Established" if up else "Error", message=message
    )
    return ForeignCluster(
        metadata=ObjectMeta(name=name, annotations=notes or {}),
        spec=ForeignClusterSpec(cluster_id=name),
        status=ForeignClusterStatus(role="Provider", conditions=(condition,)),
    )


def node(name: str, of: str) -> VirtualNode:
    return VirtualNode(
        metadata=ObjectMeta(name=name),
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
        "pods": (Pod("shop", "web-1", "milan", "Running", True),),
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


def test_a_daemon_that_is_down_is_the_worst_problem():
    snapshot = healthy(leader_age=600.0, foreign_clusters=(peer("milan", up=False),))
    assert problems(snapshot)[0] == "the daemon is not running: last heard of 600 s ago"


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
    stranger = peer("milan", up=False, message=f"{UNTRUSTED}: self-signed certificate")
    (problem,) = overview(healthy(foreign_clusters=(stranger,))).problems
    assert problem.what == f"who answers is not known: {UNTRUSTED}: self-signed certificate"
    assert "is that still milan?" in problem.cure


def test_a_certificate_that_is_refused_or_not_renewed_says_what_to_do():
    refused = peer("milan", up=False, message="1.2.3.4:6443 refuses our certificate")
    view = overview(
        healthy(
            foreign_clusters=(refused,),
            expiries={("milan", "controlplane-milan"): -5.0, ("milan", "slice"): 7200.0},
        )
    )
    again = "`liqod peer` again; what runs at milan stays"
    assert [(each.what, each.cure) for each in view.problems] == [
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
    assert problem.cure == "`liqod unpeer milan --forget` gives that up"


def test_a_waiting_pod_says_why_and_daemon_sets_are_counted_once():
    pods = (
        Pod("shop", "web-1", "milan", "Pending", False, "over quota"),
        Pod("shop", "agent-1", "milan", "Pending", False, "x", "agent"),
        Pod("shop", "agent-2", "milan", "Pending", False, "x", "agent"),
    )
    assert problems(healthy(pods=pods)) == [
        "pod shop/web-1: over quota",
        "DaemonSet shop/agent tolerates everything: 2 of its pods wait on virtual nodes",
    ]


def test_pods_that_wait_for_the_same_are_one_problem():
    pods = tuple(
        Pod(namespace, f"web-{number}", "milan", "Pending", False, why)
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
        id_problem="this cluster is rome to its peers, and cannot become roma: set it back",
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
    assert overview(snapshot).problems[1].cure == "set it back"


def test_standbys_are_named_behind_the_leader():
    view = overview(healthy(leader="one", standbys=("two", "three")))
    assert view.daemon == "running as one; two, three standing by"
