"""The Node of a virtual node: what it shows, and the smallest write that keeps it so."""

import copy

import msgspec
import pytest

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.consumer.nodes import nodeplan, virtualnodestatus
from liqod.consumer.nodes.nodeplan import NodeState
from liqod.model.objects import conditions
from liqod.model.peering import nodesready
from liqod.model.peering.heartbeat import HeartbeatVerdict
from liqod.resources import VirtualNode

THEN, NOW = "2026-11-21T01:57:17Z", "2026-11-21T02:00:00Z"
HARD = {"cpu": "20", "ephemeral-storage": "20Gi", "memory": "80Gi", "pods": "100"}
UP = NodeState(up=True, address="10.1.2.3", port=10270, version="v1.35.4")
DOWN = NodeState(
    up=False, reason="no answer for 5 s", address="10.1.2.3", port=10270, version="v1.35.4"
)
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
MINE = {"key": "virtual-node.liqo.io/not-allowed", "value": "true", "effect": "NoExecute"}


def virtual_node(**spec):
    spec = {"clusterID": "lz", "resourceQuota": {"hard": HARD}, **spec}
    return msgspec.convert({"metadata": {"name": "lz"}, "spec": spec}, VirtualNode)


def live(node=None, facts=UP, **changes):
    """The Node as a server has it after everything was written."""
    node = node or virtual_node()
    value = nodeplan.new_node(node, facts, THEN)
    value["metadata"] |= {"uid": "u1", "resourceVersion": "5"}
    applied = nodeplan.metadata_apply(node, facts, value)
    assert applied is not None
    for part in ("labels", "annotations"):
        value["metadata"][part] |= applied["metadata"][part]
    return copy.deepcopy({**value, **changes})


def told(word):
    return msgspec.structs.replace(
        virtual_node(), metadata=ObjectMeta(name="lz", annotations={labels.NODES_READY: word})
    )


@pytest.mark.parametrize(("word", "shut"), [("some", False), ("none", True)])
def test_nodes_of_the_peer_that_are_not_ready_are_shown_and_none_takes_new_pods(word, shut):
    node = told(word)
    taints = [each["key"] for each in nodeplan.desired_taints(node, UP)]
    assert (labels.CLOSED_TAINT in taints) is shut
    found = live(node)["status"]["conditions"]
    said = conditions.find(found, labels.PEER_NODES_READY) or {}
    assert (said["status"], said["reason"]) == ("False", "NodesNotReady")
    assert conditions.is_status(found, "Ready")
    # Once it was said, it is said that they are Ready again.
    patch = nodeplan.status_patch(virtual_node(), UP, live(node), NOW) or {}
    assert conditions.is_status(patch["status"]["conditions"], labels.PEER_NODES_READY)


def test_nodes_of_the_peer_that_are_all_cordoned_take_no_new_pods_and_stay_ready():
    node = virtual_node()
    notes = {labels.NODES_CORDONED: "true"}
    node = msgspec.structs.replace(node, metadata=ObjectMeta(name="lz", annotations=notes))
    assert labels.CLOSED_TAINT in [each["key"] for each in nodeplan.desired_taints(node, UP)]
    found = live(node)["status"]["conditions"]
    ready = conditions.find(found, "Ready") or {}
    assert (ready["status"], ready["message"]) == ("True", nodesready.CORDONED)
    assert conditions.find(found, labels.PEER_NODES_READY) is None
    notes[labels.NODES_CORDONED] = "yes"
    assert labels.CLOSED_TAINT not in [each["key"] for each in nodeplan.desired_taints(node, UP)]


def test_what_is_no_word_of_the_peers_nodes_says_nothing():
    for node in (told("x" * 100), virtual_node()):
        found = live(node)["status"]["conditions"]
        assert conditions.find(found, labels.PEER_NODES_READY) is None


def test_node_is_that_of_a_real_peering():
    value = live()
    labels = value["metadata"]["labels"]
    assert labels == {
        "kubernetes.azure.com/managed": "false",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": "lz",
        "kubernetes.io/os": "linux",
        "kubernetes.io/role": "agent",
        "liqo.io/remote-cluster-id": "lz",
        "liqo.io/type": "virtual-node",
        "node.kubernetes.io/exclude-from-external-load-balancers": "true",
        "storage.liqo.io/available": "false",
        "type": "virtual-kubelet",
    }
    assert value["spec"]["taints"] == [MINE]
    status = value["status"]
    assert status["capacity"] == status["allocatable"] == HARD
    assert status["addresses"] == [{"type": "InternalIP", "address": "10.1.2.3"}]
    assert status["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10270}}
    assert status["nodeInfo"]["kubeletVersion"] == "v1.35.4"
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "Ready": "True",
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
        "NetworkUnavailable": "False",
    }


def test_nothing_is_written_that_is_not_different():
    node = virtual_node(labels={"region": "eu"}, annotations={"a": "b"})
    value = live(node)
    assert nodeplan.status_patch(node, UP, value, NOW) is None
    assert nodeplan.spec_patch(node, UP, value) is None
    assert nodeplan.metadata_apply(node, UP, value) is None


def test_quantities_are_compared_by_meaning():
    node = virtual_node(resourceQuota={"hard": {"cpu": "0.5", "memory": "1024Mi", "pods": 10}})
    value = live(node)
    for part in ("capacity", "allocatable"):
        value["status"][part] = {"cpu": "500m", "memory": "1Gi", "pods": "10"}
    assert nodeplan.status_patch(node, UP, value, NOW) is None


def test_capacity_follows_the_slice():
    value = live(virtual_node(resourceQuota={"hard": {"cpu": "20", "gpu.example/x": "1"}}))
    patch = nodeplan.status_patch(
        virtual_node(resourceQuota={"hard": {"cpu": "10"}}), UP, value, NOW
    )
    assert patch == {
        "metadata": {"resourceVersion": "5"},
        "status": {
            "capacity": {"cpu": "10", "gpu.example/x": None},
            "allocatable": {"cpu": "10", "gpu.example/x": None},
        },
    }


def test_ready_follows_the_peer_and_others_conditions_stay():
    value = live()
    other = {"type": "FrequentRestart", "status": "False", "lastTransitionTime": THEN}
    value["status"]["conditions"].insert(0, other)
    patch = nodeplan.status_patch(virtual_node(), DOWN, value, NOW)
    assert patch is not None
    conditions = patch["status"]["conditions"]
    assert conditions[0] == other
    assert conditions[1] == {
        "type": "Ready",
        "status": "False",
        "reason": "PeerUnreachable",
        "message": "no answer for 5 s",
        "lastHeartbeatTime": NOW,
        "lastTransitionTime": NOW,
    }
    assert conditions[2:] == value["status"]["conditions"][2:]
    assert list(patch["status"]) == ["conditions"]


def test_ready_unknown_of_the_node_controller_is_put_right():
    value = live()
    value["status"]["conditions"][0] |= {"status": "Unknown", "reason": "NodeStatusUnknown"}
    patch = nodeplan.status_patch(virtual_node(), UP, value, NOW)
    assert patch is not None
    assert patch["status"]["conditions"][0]["status"] == "True"


def test_another_reason_keeps_the_transition_time():
    value = live(facts=DOWN)
    facts = msgspec.structs.replace(DOWN, reason="refused")
    patch = nodeplan.status_patch(virtual_node(), facts, value, NOW)
    assert patch is not None
    ready = patch["status"]["conditions"][0]
    assert (ready["lastTransitionTime"], ready["lastHeartbeatTime"]) == (THEN, NOW)


@pytest.mark.parametrize(
    ("pod_network", "reason"), [("none", "PodNetworkNone"), ("routed", "PodNetworkRouted")]
)
def test_network(pod_network, reason):
    facts = msgspec.structs.replace(UP, pod_network=pod_network)
    conditions = nodeplan.desired_status(virtual_node(), facts, (), NOW)["conditions"]
    assert (conditions[-1]["status"], conditions[-1]["reason"]) == ("False", reason)
    unchecked = virtual_node(disableNetworkCheck=True)
    conditions = nodeplan.desired_status(unchecked, facts, (), NOW)["conditions"]
    assert [c["type"] for c in conditions if c["type"] == "NetworkUnavailable"] == []


@pytest.mark.parametrize(
    ("facts", "reason", "words"),
    [
        ({}, "PodNetworkTunnel", "translated"),
        ({"unjoined": "no aliases yet"}, "PodNetworkAwaited", "no aliases yet"),
        ({"broken": "no answer on it"}, "PodNetworkBroken", "no answer on it"),
        ({"unjoined": "no aliases yet", "broken": "x"}, "PodNetworkAwaited", "no aliases yet"),
    ],
)
def test_a_tunnel_says_how_far_it_is(facts, reason, words):
    known = msgspec.structs.replace(UP, pod_network="tunnel", **facts)
    condition = nodeplan.desired_status(virtual_node(), known, (), NOW)["conditions"][-1]
    assert (condition["status"], condition["reason"]) == ("False", reason)
    assert words in condition["message"]


def test_what_is_not_joined_says_why_there_is_no_network():
    known = msgspec.structs.replace(UP, pod_network="none", unjoined="the networks are not joined")
    condition = nodeplan.desired_status(virtual_node(), known, (), NOW)["conditions"][-1]
    assert (condition["status"], condition["reason"]) == ("False", "PodNetworkNone")
    assert "the networks are not joined" in condition["message"]


def test_taints_of_others_stay():
    value = live()
    value["spec"]["taints"] = [NOT_READY, {**MINE, "timeAdded": THEN}]
    assert nodeplan.spec_patch(virtual_node(), UP, value) is None
    extra = {"key": "gpu", "effect": "NoSchedule"}
    patch = nodeplan.spec_patch(virtual_node(taints=[extra]), UP, value)
    assert patch is not None
    assert patch["spec"]["taints"] == [NOT_READY, {**MINE, "timeAdded": THEN}, extra]
    assert patch["metadata"]["resourceVersion"] == "5"


def test_taint_that_is_no_longer_wanted_goes_and_ours_comes_back():
    extra = {"key": "gpu", "effect": "NoSchedule"}
    value = live(virtual_node(taints=[extra]))
    value["spec"]["taints"] = [extra, NOT_READY]
    patch = nodeplan.spec_patch(virtual_node(), UP, value)
    assert patch is not None
    assert patch["spec"]["taints"] == [NOT_READY, MINE]


def test_labels_of_the_provider_cannot_make_it_another_node():
    node = virtual_node(
        labels={
            "liqo.io/type": "real",
            "liqo.io/remote-cluster-id": "other",
            "kubernetes.io/hostname": "h",
            "kubernetes.io/arch": "arm64",
        }
    )
    labels = nodeplan.node_labels(node)
    assert labels["liqo.io/type"] == "virtual-node"
    assert labels["liqo.io/remote-cluster-id"] == "lz"
    assert labels["kubernetes.io/hostname"] == "lz"
    assert labels["kubernetes.io/arch"] == "arm64"


def test_labels_are_applied_when_they_change_and_others_are_not_touched():
    value = live(virtual_node(labels={"region": "eu"}))
    value["metadata"]["labels"]["theirs"] = "x"
    applied = nodeplan.metadata_apply(virtual_node(labels={"region": "us"}), UP, value)
    assert applied is not None
    assert applied["metadata"]["uid"] == "u1"
    assert applied["metadata"]["labels"]["region"] == "us"
    assert "theirs" not in applied["metadata"]["labels"]
    edited = live()
    edited["metadata"]["labels"]["kubernetes.io/os"] = "windows"
    assert nodeplan.metadata_apply(virtual_node(), UP, edited) is not None


def test_a_peer_that_stops_telling_what_is_free_keeps_no_size_on_its_node():
    size = {"cpu": "7", "memory": "60G"}
    group = {"nodes": 2, "free": {"cpu": "14", "memory": "120G"}, "largest": [size]}
    text = msgspec.json.encode({"groups": [group]}).decode()
    notes = ObjectMeta(name="lz", annotations={labels.FREE_CAPACITY: text})
    value = live(msgspec.structs.replace(virtual_node(), metadata=notes))
    assert value["metadata"]["labels"]["liqod.io/largest-cpu"] == "7100"
    for now in ("", "what is no word"):
        notes = ObjectMeta(name="lz", annotations={labels.FREE_CAPACITY: now} if now else {})
        silent = msgspec.structs.replace(virtual_node(), metadata=notes)
        applied = nodeplan.metadata_apply(silent, UP, value)
        assert applied is not None
        assert not [each for each in applied["metadata"]["labels"] if "largest" in each]


def test_ownership():
    value = live()
    assert nodeplan.is_ours(value, "lz")
    assert nodeplan.made_by_us(value, "lz")
    assert not nodeplan.is_ours(value, "other")
    assert not nodeplan.is_ours({"metadata": {"name": "worker-1"}}, "lz")
    del value["metadata"]["annotations"]
    assert not nodeplan.made_by_us(value, "lz")


def test_virtual_node_conditions_like_liqos():
    first = virtualnodestatus.node_conditions((), "Running", "Creating", THEN)
    assert first == [
        {"type": "VirtualKubelet", "status": "Running", "lastTransitionTime": THEN},
        {"type": "Node", "status": "Creating", "lastTransitionTime": THEN},
    ]
    second = virtualnodestatus.node_conditions(first, "Running", "Running", NOW)
    assert second is not None
    assert [c["lastTransitionTime"] for c in second] == [THEN, NOW]
    assert virtualnodestatus.node_conditions(second, "Running", "Running", "later") is None
    told = virtualnodestatus.node_conditions(
        second, "Running", "Running", "later", reason="R", message="because"
    )
    assert told is not None
    assert told[1] == {**second[1], "reason": "R", "message": "because"}


RUNS = msgspec.structs.replace(UP, daemon=HeartbeatVerdict("runs"))
SILENT = msgspec.structs.replace(UP, daemon=HeartbeatVerdict("silent", "not since noon"))
UNTOLD = msgspec.structs.replace(UP, daemon=HeartbeatVerdict("untold"))
SHUT = {"key": "liqod.io/peer-daemon-silent", "value": "true", "effect": "NoSchedule"}


def brought(node, facts, value):
    """The Node after one look at it."""
    status = nodeplan.status_patch(node, facts, value, NOW)
    taints = nodeplan.spec_patch(node, facts, value)
    value = copy.deepcopy(value)
    value["status"] |= (status or {}).get("status", {})
    value["spec"] |= (taints or {}).get("spec", {})
    value["metadata"]["annotations"] |= (taints or {}).get("metadata", {}).get("annotations", {})
    return value, status is not None or taints is not None


def daemon_of(value):
    """The statuses of a Node's PeerDaemon conditions, and whether its taints shut out new pods."""
    found = [c["status"] for c in value["status"]["conditions"] if "PeerDaemon" in c["type"]]
    return found, SHUT in value["spec"]["taints"]


def test_new_pods_are_kept_from_a_peer_whose_daemon_does_not_run():
    node, value = virtual_node(), live()
    steps: tuple[tuple[NodeState, tuple[list[str], bool]], ...] = (
        (UP, ([], False)),  # not known yet
        (RUNS, (["True"], False)),
        (SILENT, (["False"], True)),
        (UP, (["False"], True)),  # this daemon began anew: nothing changes until it knows
        (RUNS, (["True"], False)),
        (SILENT, (["False"], True)),
        (UNTOLD, ([], False)),
    )
    for facts, expected in steps:
        value, _ = brought(node, facts, value)
        assert daemon_of(value) == expected
        ready = next(c for c in value["status"]["conditions"] if c["type"] == "Ready")
        assert ready["status"] == "True"
        assert MINE in value["spec"]["taints"]
        assert not brought(node, facts, value)[1], "it is written once"


def test_new_pods_are_kept_from_a_peer_that_takes_none_and_the_others_run_on():
    node = virtual_node()
    refuses = msgspec.structs.replace(UP, closed=True, reason="it answers, but pods do not cross")
    value, _ = brought(node, refuses, live())
    ready = next(each for each in value["status"]["conditions"] if each["type"] == "Ready")
    assert (ready["status"], ready["message"]) == ("True", f"no new pods: {refuses.reason}")
    assert SHUT in value["spec"]["taints"]
    value, _ = brought(node, UNTOLD, value)
    assert SHUT not in value["spec"]["taints"]


def test_what_waits_at_a_peer_that_has_it_give_way_is_allocatable_beside_the_grant():
    node = msgspec.structs.replace(
        virtual_node(),
        metadata=ObjectMeta(name="lz", annotations={labels.WAITING_GIVES_WAY: "true"}),
    )
    facts = msgspec.structs.replace(UP, waiting={"cpu": 5 * 10**9})
    patch = nodeplan.status_patch(node, facts, live(), NOW)
    assert patch is not None
    assert patch["status"] == {"allocatable": {**HARD, "cpu": "25"}}
    assert nodeplan.status_patch(node, facts, live(node, facts), NOW) is None
    assert nodeplan.status_patch(virtual_node(), facts, live(), NOW) is None


def test_autoscalers_and_cloud_controllers_leave_it_alone():
    notes = live()["metadata"]["annotations"]
    assert notes["cluster-autoscaler.kubernetes.io/scale-down-disabled"] == "true"
    assert notes["karpenter.sh/do-not-disrupt"] == "true"
    assert "providerID" not in live()["spec"]


def test_it_has_a_provider_id_where_that_is_asked_for_and_keeps_any_other():
    facts = msgspec.structs.replace(UP, provider_ids=True)
    node = virtual_node()
    made = live(node, facts)
    assert made["spec"]["providerID"] == "liqod://lz/lz"
    assert nodeplan.spec_patch(node, facts, made) is None
    patch = nodeplan.spec_patch(node, facts, live(node))
    assert patch == {"spec": {"providerID": "liqod://lz/lz"}, "metadata": {"resourceVersion": "5"}}
    other = {"taints": [MINE], "providerID": "other://x"}
    assert nodeplan.spec_patch(node, facts, live(node, spec=other)) is None
    assert nodeplan.spec_patch(node, UP, made) is None
