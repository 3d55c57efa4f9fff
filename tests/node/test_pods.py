"""Daemons in pods join the networks of their clusters as daemons on hosts do, with few rights.

They are peered by Liqo's own command; the last test ends the peering.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.node.asking import asking_job, knocking_pod
from tests.node.commands import have_node_port, reader, typing
from tests.node.echoes import answers, have_echoes, pinging, seen_by
from tests.node.faults import (
    FAULTS,
    IN_A_WEBSOCKET,
    MOST,
    ORDERS,
    fail,
    fail_in_order,
    joined_by_websocket,
    killed,
    replaced,
)
from tests.node.replicas import (
    COMPONENT,
    another_leads,
    cordoned,
    evict,
    holder,
    is_reached_at_its_pod,
    leads,
    replicas,
    restarts,
    within,
)
from tests.testbed import image, inventory, ownimages, shownblocks
from tests.testbed.api import wait_until
from tests.testbed.errors import TestbedError, Unavailable
from tests.testbed.federation import is_true
from tests.testbed.fixtures import give_up
from tests.testbed.joined import traces
from tests.testbed.node import node_pod
from tests.testbed.podded import LEFT_DEADLINE, Podded
from tests.testbed.registry import Registry
from tests.testbed.workloads import core, group

pytestmark = pytest.mark.node

CHOWN, KILL, SETGID, SETUID = 1 << 0, 1 << 5, 1 << 6, 1 << 7
NET_BIND_SERVICE, NET_ADMIN, NET_RAW, SYS_ADMIN = 1 << 10, 1 << 12, 1 << 13, 1 << 21
DAEMON = ("deploy/liqod", "controller-manager")
NODE = ("ds/liqod-node", "node")
FABRIC = "/apis/networking.liqo.io/v1beta1/namespaces/liqo/internalfabrics/gateway"
PAIRS = (("rome", "milan"), ("milan", "rome"))
REMADE = 30.0
"""Seconds; docs/background/failures.md says some two, and a machine that tests share is slower."""
MOVES = 30.0
"""Seconds; docs/background/failures.md says ten, and a machine that tests share is slower."""
AMISS = ("Unhealthy", "WARN", "unable", "Alerts")
ASKING = "asking"
IMAGE = "registry.example/liqod:TAG"
"""As pages name liqod's."""
WAITING = "waiting"
SAYING = "saying"
COMMAND_LINES = "import glob; [print(open(x).read()) for x in glob.glob('/proc/[0-9]*/cmdline')]"
FORWARD_NOTHING = "open('/proc/sys/net/ipv4/ip_forward', 'w').write('0')"


@pytest.fixture(scope="module")
def clusters(own_images: ownimages.Images) -> Iterator[Podded]:
    """rome and milan, which has two nodes, with liqod in them, peered and their networks joined."""
    try:
        made = Podded(own_images, "rome", "milan", second="milan")
    except Unavailable as reason:
        give_up(reason)
    made.start()
    try:
        # No flag but that which says with whom.
        made.liqoctl("rome", "peer", *made.remote("milan"))
        yield made
    finally:
        made.destroy()


def test_liqoctl_finds_nothing_amiss(clusters: Podded) -> None:
    for name, peer in PAIRS:
        said = ""

        def well(name: str = name, peer: str = peer) -> bool:
            nonlocal said
            said = clusters.liqoctl(name, "info", "--verbose")
            said += clusters.liqoctl(name, "info", "peer", peer, "--verbose")
            return not any(word in said for word in AMISS)

        # Not all of it is waited for by `liqoctl peer`.
        with suppress(TestbedError):
            wait_until(f"{name} is well", well, 30)
        assert not any(word in said for word in AMISS), said
        assert "Liqo is healthy" in said
        assert said.count("Networking status:     Healthy") == 1
        assert "Remapped to" in said


@pytest.mark.network
def test_liqoctl_finds_the_networks_connected(clusters: Podded) -> None:
    said = clusters.liqoctl("rome", "network", "connect", *clusters.remote("milan"), "--wait")
    assert said.count("Connection is established") == 2


@pytest.mark.network
def test_a_gateway_is_exposed_as_it_is_asked_for(clusters: Podded) -> None:
    milan = clusters.members["milan"]
    server = "/apis/networking.liqo.io/v1beta1/namespaces/liqo-tenant-rome/gatewayservers/rome"
    # Nobody makes load balancers here, which is what was asked for; so the node's address is told.
    found = milan.api.get(server)
    told = {each["type"]: each["reason"] for each in found["status"]["conditions"]}
    assert told["Exposed"] == "NoLoadBalancer"
    assert found["status"]["endpoint"]["addresses"] == [clusters.clusters["milan"].machine.address]
    service = "/api/v1/namespaces/liqo-tenant-rome/services/gw-rome"
    assert milan.api.get(service)["spec"]["type"] == "LoadBalancer"
    have_node_port(clusters)
    [port] = milan.api.get(service)["spec"]["ports"]
    assert port["nodePort"] == milan.api.get(server)["status"]["endpoint"]["port"] >= 30000
    wait_until(
        "the tunnel at the node's port",
        lambda: f":{port['nodePort']} " in clusters.inside("milan", "ss", "-uln"),
        30,
    )
    wait_until(
        "the tunnel stands",
        lambda: "Connected" in clusters.members["rome"].liqod("network", "status").stdout,
        30,
    )


@pytest.mark.network
def test_each_verb_of_liqoctl_that_waits_for_networks_returns(clusters: Podded) -> None:
    """Each ends by itself, well before its time is over, or `liqoctl` says that it failed."""
    for name, peer, kind in (
        ("rome", "milan", "gatewayclient"),
        ("milan", "rome", "gatewayserver"),
    ):
        place = f"liqo-tenant-{peer}"
        base = f"/apis/networking.liqo.io/v1beta1/namespaces/{place}"
        where = ("--remote-cluster-id", peer, "--namespace", place, "--wait")
        api = clusters.members[name].api
        [ranges] = api.get(f"{base}/configurations")["items"]
        cidr = ranges["spec"]["remote"]["cidr"]
        told = ("--pod-cidr", cidr["pod"][0], "--external-cidr", cidr["external"][0])
        clusters.liqoctl(name, "create", "configuration", peer, *told, *where)
        [gateway] = api.get(f"{base}/{kind}s")["items"]
        endpoint = gateway["spec"]["endpoint"]
        asked = ("--service-type", "NodePort")
        if kind == "gatewayclient":
            asked = ("--addresses", ",".join(endpoint["addresses"]))
        port = ("--port", str(endpoint["port"]), "--template-namespace", "liqo")
        own = gateway["metadata"]["name"]
        clusters.liqoctl(name, "create", kind, own, *asked, *port, *where)


@pytest.mark.pods
def test_each_verb_of_liqoctl_that_waits_for_pods_returns(clusters: Podded) -> None:
    """Likewise."""
    rome, milan = clusters.members["rome"], clusters.members["milan"]
    milan.liqod("cordon", "tenant", "rome")
    try:
        more = ("more", "--remote-cluster-id", "milan", "--no-virtual-node")
        said = clusters.liqoctl("rome", "create", "resourceslice", *more)
        assert "resources not accepted" in said
    finally:
        milan.liqod("uncordon", "tenant", "rome")
    slices = "/apis/authentication.liqo.io/v1beta1/namespaces/liqo-tenant-milan/resourceslices"
    rome.api.call("DELETE", f"{slices}/more")

    rome.create("/api/v1/namespaces", {"metadata": {"name": WAITING}})
    clusters.liqoctl("rome", "offload", "namespace", WAITING)
    clusters.liqoctl("rome", "unoffload", "namespace", WAITING, "--skip-confirm")
    assert f"{WAITING}-rome" not in milan.plane.kubectl("get", "namespaces")
    rome.api.call("DELETE", f"/api/v1/namespaces/{WAITING}")


def test_what_stands_for_a_gateway_runs_nothing(clusters: Podded) -> None:
    for name, peer in PAIRS:
        [pod] = clusters.members[name].pods(f"liqo-tenant-{peer}").values()
        assert pod["spec"]["schedulingGates"] == [{"name": "liqod.io/not-scheduled"}]
        assert "nodeName" not in pod["spec"]
        assert "containerStatuses" not in pod["status"]
        # Else every monitor of a cluster would alert.
        assert pod["status"]["phase"] == "Running"
        assert is_true(pod, "Ready")
        [owner] = pod["metadata"]["ownerReferences"]
        assert owner["kind"] == "ReplicaSet"


@pytest.fixture
def registry(clusters: Podded, own_images: ownimages.Images) -> Iterator[None]:
    """A registry from which the images come that Liqo's own test of the network names."""
    made = Registry(ownimages.with_curl(own_images.daemon), {"Env": ["PATH=/usr/bin"]})
    for node in clusters.nodes:
        node.mirror("ghcr.io", made.port)
    yield
    made.close()


@pytest.mark.network
@pytest.mark.usefixtures("registry")
def test_liqos_own_test_of_the_network_succeeds(clusters: Podded) -> None:
    words = ("test", "network", "--basic", "--rm", "--timeout", "110s")
    where = ("--remote-kubeconfigs", str(clusters.clusters["milan"].kubeconfig))
    said = clusters.liqoctl("rome", *words, *where)
    # It counts what does not reach, and ends well all the same.
    assert "Checks succeeded" in said, said
    assert "Checks failed" not in said, said


def test_everything_reaches_everything(clusters: Podded, tmp_path: Path) -> None:
    rome = clusters.members["rome"]
    looks = shownblocks.commands("how-to/nat", "Look")
    looks += shownblocks.commands(
        "how-to/diagnose", "4. Whether packets pass", only="liqod network"
    )
    status, doctor, again = typing(clusters, tmp_path).section(looks)
    assert "milan" in doctor
    assert {"Connected" in each for each in (status, again)} == {True}
    words = ("test", "network", "--image", image.NAME, "--outside", "", "-o", "json")
    rows = json.loads(rome.liqod(*words).stdout)
    verdicts = {f"{row['source']} → {row['target']}": row["verdict"] for row in rows}
    assert set(verdicts.values()) == {"ok", "skipped"}, verdicts
    assert any("pod rome/rome → pod milan" in each for each in verdicts)


@pytest.mark.pods
def test_a_job_at_a_peer_reads_its_own_pod_at_home(clusters: Podded) -> None:
    """With the token, the authority and the namespace that it has mounted, by the name in its
    environment: over the tunnel, between clusters with the same addresses."""
    rome, milan = clusters.members["rome"], clusters.members["milan"]
    rome.create("/api/v1/namespaces", {"metadata": {"name": ASKING}})
    rome.create(core(ASKING, "serviceaccounts"), {"metadata": {"name": "robot"}})
    rights = {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}
    rbac = "rbac.authorization.k8s.io"
    rome.create(group(f"{rbac}/v1", ASKING, "roles"), {"metadata": {"name": "robot"}, **rights})
    bound = {
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "robot"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": ASKING}],
    }
    bindings = group(f"{rbac}/v1", ASKING, "rolebindings")
    rome.create(bindings, {"metadata": {"name": "robot"}, **bound})
    rome.liqod("offload", "namespace", ASKING, "--pod-offloading-strategy", "Remote")
    jobs = group("batch/v1", ASKING, "jobs")
    rome.create(jobs, asking_job())
    try:
        rome.comes_to(f"{jobs}/asks", lambda job: job["status"].get("succeeded"), 60)
        [pod] = rome.pods(ASKING).values()
        assert pod["spec"]["nodeName"] == "milan"
        name, there = pod["metadata"]["name"], f"{ASKING}-rome"
        said = json.loads(milan.plane.kubectl("logs", "--namespace", there, name))
    except TestbedError:
        print(milan.plane.kubectl("logs", "--namespace", f"{ASKING}-rome", "--selector=app=asks"))
        print(rome.plane.kubectl("describe", "pods", "--namespace", ASKING))
        raise
    assert said["pod"] == pod["metadata"]["uid"]
    assert said["namespace"] == ASKING
    assert said["secrets"] == 403
    assert said["modes"] == {"ca.crt": "644", "namespace": "644", "token": "644"}
    assert said["host"] == "kubernetes.default"
    # Of a pod that has ended nothing is left there.
    wait_until("no token", lambda: milan.names(core(there, "secrets")) == set(), 30)
    rome.liqod("unoffload", "namespace", ASKING, "--yes")
    rome.api.call("DELETE", f"/api/v1/namespaces/{ASKING}")
    rome.goes(f"/api/v1/namespaces/{ASKING}")


@pytest.mark.network
@pytest.mark.parametrize(
    ("owner", "capabilities"),
    [
        (DAEMON, 0),
        (
            NODE,
            (CHOWN | KILL | SETGID | SETUID) | (NET_BIND_SERVICE | NET_ADMIN | NET_RAW | SYS_ADMIN),
        ),
    ],
)
def test_they_have_these_rights_and_no_others(
    clusters: Podded, owner: tuple[str, str], capabilities: int
) -> None:
    rome = clusters.members["rome"]
    told = within(rome, owner, "print(open('/proc/1/status').read())")
    said = dict(line.split(":", 1) for line in told.splitlines() if line)
    for kind in ("CapEff", "CapPrm", "CapBnd"):
        assert int(said[kind], 16) == capabilities
    assert said["NoNewPrivs"].strip() == "1"
    assert said["Seccomp"].strip() == "2"
    # It sees its own processes and no others of the node.
    assert "kubelet" not in within(rome, owner, COMMAND_LINES)
    for refused in (
        "open('/proc/sys/kernel/panic', 'w').write('1')",
        "open('/etc/x', 'w').write('x')",
        "open('/dev/vda', 'rb').read(1)",
        "import os; os.chroot('/proc/1/root/..')",
    ):
        with pytest.raises(TestbedError):
            within(rome, owner, refused)


@pytest.mark.network
def test_only_liqod_node_can_change_the_nodes_sysctls(clusters: Podded) -> None:
    with pytest.raises(TestbedError, match="Read-only"):
        within(clusters.members["rome"], DAEMON, FORWARD_NOTHING)


@pytest.mark.network
def test_another_pod_of_the_node_orders_nothing_at_the_socket(clusters: Podded) -> None:
    """Neither as a stranger nor with the group of the daemon's pod."""
    rome = clusters.members["rome"]
    for name, of, heard in (
        ("stranger", 1000, "Permission denied"),
        ("neighbour", 65532, "user 1000 may not order this machine"),
    ):
        rome.create(core("default", "pods"), knocking_pod(name, of))
        rome.comes_to(
            core("default", f"pods/{name}"), lambda pod: pod["status"]["phase"] == "Succeeded", 60
        )
        said = rome.plane.kubectl("logs", name)
        assert said.count(heard) == 3, said
        rome.plane.kubectl("delete", "pod", name, "--grace-period", "0")


def test_every_nodes_own_daemon_is_ready(clusters: Podded) -> None:
    for name, nodes in (("rome", 1), ("milan", 2)):
        path = "/apis/apps/v1/namespaces/liqo-nodes/daemonsets/liqod-node"

        def ready(found: Any, nodes: int = nodes) -> bool:
            return bool(found["status"].get("numberReady") == nodes)

        clusters.members[name].comes_to(path, ready)


@pytest.mark.network
def test_daemons_that_are_replaced_lose_no_packet(clusters: Podded) -> None:
    rome, milan = clusters.members["rome"], clusters.members["milan"]
    have_echoes(rome, milan)
    before = {member: member.pods("liqo") for member in (rome, milan)}
    held = {member: holder(member) for member in (rome, milan)}
    with pinging(rome, seen_by(rome, "milan", milan)) as pinged:
        # One as an upgrade replaces it, the other as a node's lack of memory does.
        rome.plane.kubectl("rollout", "restart", "deployment/liqod", "--namespace", "liqo")
        gone = ("delete", "pod", "--namespace", "liqo", "--selector", COMPONENT)
        milan.plane.kubectl(*gone, "--force", "--grace-period", "0")
        for member in (rome, milan):
            member.plane.kubectl("rollout", "status", "deployment/liqod", "--namespace", "liqo")
            wait_until("a leader", partial(another_leads, member, held[member]), 30)
    assert pinged.lost == 0, f"{pinged.missed} of {pinged.sent}"
    for member in (rome, milan):
        assert len(member.pods("liqo").keys() - before[member].keys()) == 1


@pytest.mark.network
def test_a_daemon_that_hangs_is_begun_anew_and_loses_no_packet(clusters: Podded) -> None:
    """By its kubelet, in the time of docs/background/failures.md, and the grace of its pod."""
    rome, milan = clusters.members["rome"], clusters.members["milan"]
    have_echoes(rome, milan)
    [before], held = restarts(rome).values(), holder(rome)
    with pinging(rome, seen_by(rome, "milan", milan)) as pinged:
        [process] = clusters.inside("rome", "pgrep", "-f", "liqod run").split()
        began = time.monotonic()
        clusters.inside("rome", "kill", "-STOP", process)
        wait_until("another process", lambda: [*restarts(rome).values()] == [before + 1], 90)
        print(f"begun anew after {time.monotonic() - began:.1f} s")
        rome.plane.kubectl("rollout", "status", "deployment/liqod", "--namespace", "liqo")
        wait_until("a leader", partial(another_leads, rome, held), 30)
    assert pinged.lost == 0


@pytest.mark.network
def test_a_daemon_that_comes_to_run_on_another_node_takes_the_tunnel_along(
    clusters: Podded,
) -> None:
    """Its node is drained. The pods of that go by the other one then; the peer finds it at any
    node's port."""
    rome, milan = clusters.members["rome"], clusters.members["milan"]
    have_node_port(clusters)
    have_echoes(rome, milan)
    aliases = {rome: seen_by(rome, "milan", milan), milan: seen_by(milan, "rome", rome)}
    milan.plane.kubectl("uncordon", "milan-2")
    with pinging(rome, aliases[rome]) as pinged:
        began = time.monotonic()
        drain = ("drain", "milan", "--ignore-daemonsets", "--delete-emptydir-data")
        milan.plane.kubectl(*drain, "--pod-selector", COMPONENT, "--timeout", "60s")
        milan.comes_to(FABRIC, lambda found: found["spec"]["gateway"]["node"] == "milan-2", 60)
        led = time.monotonic() - began
        for member, target in aliases.items():
            wait_until("an answer", lambda m=member, t=target: answers(m, t), 60)
        passed = time.monotonic() - began
    lost = pinged.lost / 10
    print(f"drained: it leads after {led:.1f} s, answers after {passed:.1f} s; {lost} s lost")
    assert passed < MOVES


@pytest.mark.pods
def test_the_api_server_reaches_a_daemon_at_its_pod_and_the_one_that_replaces_it(
    clusters: Podded,
) -> None:
    """By the address of the virtual node, which follows, and by the Service of the webhook."""
    rome = clusters.members["rome"]
    rome.create("/api/v1/namespaces", {"metadata": {"name": SAYING}})
    rome.liqod("offload", "namespace", SAYING, "--pod-offloading-strategy", "Remote")
    rome.create(core(SAYING, "pods"), node_pod("saying", "echo said; sleep 1000000"))
    wait_until("the pod", lambda: "saying" in rome.ready_pods(SAYING), 60)
    said = ("logs", "--namespace", SAYING, "saying")
    for _ in range(2):
        wait_until("its pod", lambda: is_reached_at_its_pod(rome, "milan"), 60)
        assert "said" in rome.plane.kubectl(*said)
        rome.plane.kubectl("rollout", "restart", "deployment/liqod", "--namespace", "liqo")
        rome.plane.kubectl("rollout", "status", "deployment/liqod", "--namespace", "liqo")
    # Of two on one machine the other one takes over.
    rome.plane.kubectl("scale", "deployment/liqod", "--namespace", "liqo", "--replicas", "2")
    try:
        wait_until("two replicas", lambda: len(replicas(rome)) == 2, 60)
        [leader] = [each for each in replicas(rome) if leads(rome, each)]
        assert evict(rome, leader) == 201
        wait_until("it is gone", lambda: leader not in rome.pods("liqo"), 60)
        wait_until("its pod", lambda: is_reached_at_its_pod(rome, "milan"), 60)
        assert "said" in rome.plane.kubectl(*said)
    finally:
        rome.plane.kubectl("scale", "deployment/liqod", "--namespace", "liqo", "--replicas", "1")
    wait_until("one replica", lambda: len(replicas(rome)) == 1, 60)
    rome.liqod("unoffload", "namespace", SAYING, "--yes")
    rome.api.call("DELETE", f"/api/v1/namespaces/{SAYING}")
    rome.goes(f"/api/v1/namespaces/{SAYING}")


@pytest.mark.pods
def test_the_pages_about_a_daemon_in_its_pod_are_typed(clusters: Podded, tmp_path: Path) -> None:
    rome = clusters.members["rome"]
    terminal = reader(rome, tmp_path)
    named = {IMAGE: ownimages.NAME, "https://rome.example:6443": rome.plane.server}
    terminal.section(shownblocks.commands("how-to/in-cluster", "1. Install"), named)
    terminal.section(
        shownblocks.commands("how-to/upgrades", "2. Install", only="liqod install"), named
    )
    terminal.section(shownblocks.commands("how-to/in-cluster", "2. Look whether it works"))
    rome.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    rome.liqod("offload", "namespace", "shop", "--pod-offloading-strategy", "Remote")
    rome.create(core("shop", "pods"), node_pod("web-0", "echo said; sleep 1000000"))
    wait_until("the pod", lambda: "web-0" in rome.ready_pods("shop"), 60)
    said = terminal.section(shownblocks.commands("how-to/diagnose", "3. Why a pod is where it is"))
    assert "said\n" in said
    said = terminal.section(
        shownblocks.commands("how-to/diagnose", "5. What the daemon does", only="kubectl")
    )
    assert "milan" in said[0]
    assert "leading" in said[1]
    looks = shownblocks.commands("how-to/image", "Look inside")
    assert terminal.section(looks, {"CODE": "'print(6 * 7)'"}) == ["42\n"]
    rome.liqod("unoffload", "namespace", "shop", "--yes")
    rome.api.call("DELETE", "/api/v1/namespaces/shop")
    rome.goes("/api/v1/namespaces/shop")


@pytest.mark.network
def test_of_two_replicas_a_drain_takes_one_at_a_time(clusters: Podded) -> None:
    """By the budget; and the one that is left leads within a second or two."""
    milan = clusters.members["milan"]
    for node in ("milan", "milan-2"):
        milan.plane.kubectl("uncordon", node)
    wait_until("both nodes to take pods", lambda: not cordoned(milan), 30)
    milan.plane.kubectl("scale", "deployment/liqod", "--namespace", "liqo", "--replicas", "2")
    try:
        wait_until("two replicas", lambda: len(replicas(milan)) == 2, 60)
        assert set(replicas(milan).values()) == {"milan", "milan-2"}
        [leader] = [each for each in replicas(milan) if leads(milan, each)]
        [other] = replicas(milan).keys() - {leader}
        began, before = time.monotonic(), holder(milan)
        assert evict(milan, leader) == 201
        assert evict(milan, other) == 429
        wait_until("another leader", partial(another_leads, milan, before), 30)
        print(f"evicted: another leads after {time.monotonic() - began:.1f} s")
        wait_until("a second replica", lambda: len(replicas(milan)) == 2, 60)
        wait_until("its turn", lambda: evict(milan, other) == 201, 30)
    finally:
        milan.plane.kubectl("scale", "deployment/liqod", "--namespace", "liqo", "--replicas", "1")
    milan.plane.kubectl("rollout", "status", "deployment/liqod", "--namespace", "liqo")


@pytest.mark.network
def test_tunnels_stand_again_soon_where_liqod_node_is_replaced_or_killed(
    clusters: Podded,
) -> None:
    rome, milan = clusters.members["rome"], clusters.members["milan"]
    have_echoes(rome, milan)
    alias = seen_by(rome, "milan", milan)
    for what, end in (("killed", killed), ("replaced", replaced)):
        with pinging(rome, alias) as pinged:
            end(clusters)
            wait_until("an answer", lambda: answers(rome, alias), 60)
        print(f"{what}: {pinged.lost / 10} s lost")
        assert 0 < pinged.lost / 10 < REMADE, what


@pytest.mark.network
@pytest.mark.parametrize(("signal", "parts"), FAULTS)
def test_each_part_of_a_gateway_fails_and_packets_go_on(
    clusters: Podded, signal: str, parts: tuple[str, ...]
) -> None:
    assert fail(clusters, "rome", "milan", signal, parts) == 0.0


@pytest.mark.network
@pytest.mark.parametrize("order", ORDERS)
def test_all_parts_of_a_gateway_fail_in_each_order(
    clusters: Podded, order: tuple[str, ...]
) -> None:
    """Frozen, then ended, then killed: eighteen cases."""
    lost = fail_in_order(clusters, "rome", "milan", order)
    assert all(lost[signal] <= most for signal, most in MOST.items()), lost


@pytest.mark.network
def test_each_part_of_a_gateway_fails_that_carries_a_websocket(clusters: Podded) -> None:
    """Of the client's cluster, in pods."""
    with joined_by_websocket(clusters):
        for part, most in IN_A_WEBSOCKET.items():
            lost = fail(clusters, "rome", "milan", "KILL", (part,))
            print(f"KILL {part}: {lost} s lost in a websocket")
            assert lost <= most, part


@pytest.mark.handshake
def test_a_consumer_borrows_by_a_peering_user_of_liqos_as_its_page_says(
    clusters: Podded, tmp_path: Path
) -> None:
    """The clusters are peered afterwards as they were before."""
    rome, milan = clusters.members["rome"], clusters.members["milan"]
    rome.liqod("unpeer", "milan", "--yes")
    milan.liqod("unpeer", "rome", "--yes")
    typed = typing(clusters, tmp_path)
    typed.section(shownblocks.commands("how-to/with-liqo", "liqod borrows, Liqo lends"))
    assert rome.node_is_ready("milan")
    typed.section(shownblocks.commands("how-to/with-liqo", "The end", only="liqod"))
    milan.liqod("unpeer", "rome", "--yes")
    clusters.liqoctl("rome", "peer", *clusters.remote("milan"))


@pytest.mark.handshake
def test_a_provider_that_has_ended_its_half_lends_again_as_its_page_says(
    clusters: Podded, tmp_path: Path
) -> None:
    """With a new peering user. The former proof hinders for as long as the consumer keeps it,
    which is a minute where that runs liqod."""
    rome, milan = clusters.members["rome"], clusters.members["milan"]
    milan.liqod("unpeer", "rome", "--yes")
    typed = typing(clusters, tmp_path)
    user, peer = shownblocks.commands("how-to/with-liqo", "Liqo borrows, liqod lends")
    typed.section([user])
    said = typed.type(peer.line, peer.at, (0, 1))
    deletes = shownblocks.commands("how-to/with-liqo", "The end", only="kubectl")
    typed.section(deletes, {"NAME": "milan"})
    if "nonce secret already exists with a different nonce" in said:
        typed.section([peer])
    wait_until("the virtual node", lambda: rome.node_is_ready("milan"), 60)


def test_nothing_is_left(clusters: Podded, tmp_path: Path) -> None:
    rome, milan = clusters.members["rome"], clusters.members["milan"]
    for member in (rome, milan):
        echo = ("delete", "pod", "echo", "--ignore-not-found", "--grace-period", "0")
        member.plane.kubectl(*echo, "--force")
    clusters.liqoctl("rome", "unpeer", *clusters.remote("milan"), "--wait", "--skip-confirm")
    rome.liqod("unpeer", "milan", "--yes")
    milan.liqod("unpeer", "rome", "--yes")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: leaves_nothing(clusters, name, tmp_path), clusters.members))


def leaves_nothing(clusters: Podded, name: str, folder: Path) -> None:
    """Uninstall it, and look on its node and in its API server."""
    member = clusters.members[name]
    away = shownblocks.commands("how-to/in-cluster", "Upgrade, and away with it")
    reader(member, folder).section(away, {"rome": name})
    wait_until(f"nothing left at {name}", lambda: not traces(clusters, name), 30)
    for node in clusters.nodes:
        if node.plane is member.plane:
            assert "sock" not in node.machine.run("ls", "/run/liqod-node")
    inventory.wait_for(member.api, clusters.before[name], LEFT_DEADLINE)
