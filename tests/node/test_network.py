"""Pods of two clusters with the same addresses reach each other, on real kubelets.

The steps build on each other: the peering of the first is the one that the last ends.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.testbed import image, inventory
from tests.testbed.api import wait_until
from tests.testbed.errors import TestbedError, Unavailable
from tests.testbed.federation import Member
from tests.testbed.fixtures import give_up
from tests.testbed.joined import Joined
from tests.testbed.node import node_pod
from tests.testbed.workloads import core, service

pytestmark = pytest.mark.node

PAIRS = (("rome", "milan"), ("milan", "rome"))
SHOP = "shop"
ECHO = 'while :; do printf "HTTP/1.0 200 OK\\r\\n\\r\\n%s" NAME | busybox nc -l -p 8080; done'
PINGS = 150
LEFT_DEADLINE = 60.0


@pytest.fixture(scope="module")
def clusters() -> Iterator[Joined]:
    """rome and milan, both with 10.244.0.0/16, peered and their networks joined."""
    try:
        made = Joined("rome", "milan")
    except Unavailable as reason:
        give_up(reason)
    made.start()
    try:
        made.before = {name: member.inventory() for name, member in made.members.items()}
        made.peer(made.members["rome"], made.members["milan"])
        yield made
    finally:
        made.destroy()


@pytest.fixture(scope="module")
def shop(clusters: Joined) -> str:
    """An offloaded namespace with a server on each side, a client here, and a Service over both."""
    rome = clusters.members["rome"]
    rome.create("/api/v1/namespaces", {"metadata": {"name": SHOP}})
    rome.liqod("offload", "namespace", SHOP)
    rome.create(core(SHOP, "services"), service("web"))
    for place in ("rome", "milan"):
        made = node_pod(f"web-{place}", ECHO.replace("NAME", place))
        made["metadata"] = {"name": f"web-{place}", "labels": {"app": "web"}}
        at(made, place)
        rome.create(core(SHOP, "pods"), made)
    rome.create(core(SHOP, "pods"), at(node_pod("client"), "rome"))
    wait_until("three pods", lambda: len(rome.ready_pods(SHOP)) == 3, 60)
    return SHOP


def at(pod: dict[str, object], node: str) -> dict[str, object]:
    """The pod, on a node."""
    spec = pod["spec"]
    assert isinstance(spec, dict)
    spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    spec["tolerations"] = [{"operator": "Exists"}]
    return pod


def address(member: Member, pod: str) -> str:
    """The address under which a pod is shown."""
    return str(member.pods(SHOP)[pod]["status"]["podIP"])


def within(member: Member, *command: str) -> str:
    """What a command says in the client's pod."""
    return member.plane.kubectl("exec", "--namespace", SHOP, "client", "--", *command)


def test_networks_are_joined_by_peering(clusters: Joined) -> None:
    for name, peer in PAIRS:
        shown = clusters.members[name].liqod("network", "status", peer).stdout
        assert "Connected" in shown
        found = clusters.members[name].api.get(f"/apis/core.liqo.io/v1beta1/foreignclusters/{peer}")
        networking = found["status"]["modules"]["networking"]
        assert networking["enabled"] is True
        states = {each["type"]: each["status"] for each in networking["conditions"]}
        assert states["NetworkConnectionStatus"] == "Established"
        assert states["NetworkConfigurationStatus"] == "Ready"


def test_a_pod_pings_a_pod_that_has_the_same_address_at_home(clusters: Joined, shop: str) -> None:
    rome, milan = clusters.members["rome"], clusters.members["milan"]
    alias = address(rome, "web-milan")
    real = str(milan.pods(f"{shop}-rome")["web-milan"]["status"]["podIP"])
    assert real.startswith("10.244.")
    assert not alias.startswith("10.244.")
    assert alias.split(".")[2:] == real.split(".")[2:]
    assert " 0% packet loss" in within(rome, "busybox", "ping", "-c", "3", "-W", "2", alias)
    big = within(rome, "busybox", "ping", "-c", "3", "-W", "2", "-s", "4000", alias)
    assert " 0% packet loss" in big


def test_a_service_answers_from_both_clusters(clusters: Joined, shop: str) -> None:
    rome = clusters.members["rome"]
    path = f"/api/v1/namespaces/{shop}/services/web"
    host = str(rome.api.get(path)["spec"]["clusterIP"])
    port = str(rome.api.get(path)["spec"]["ports"][0]["port"])
    asked = "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | busybox timeout 3 busybox nc -w 2 $0 $1"

    def both() -> bool:
        heard = set()
        for _ in range(12):
            try:
                heard.add(within(rome, "sh", "-c", asked, host, port).splitlines()[-1])
            except (TestbedError, IndexError):
                continue
        return heard >= {"rome", "milan"}

    wait_until("answers from both", both, 60)


def test_everything_reaches_everything(clusters: Joined) -> None:
    rome = clusters.members["rome"]
    words = ("test", "network", "--image", image.NAME, "--outside", "", "-o", "json")
    rows = json.loads(rome.liqod(*words).stdout)
    verdicts = {f"{row['source']} → {row['target']}": row["verdict"] for row in rows}
    assert set(verdicts.values()) == {"ok", "skipped"}, verdicts
    kinds = " ".join(verdicts)
    for each in (
        "pod milan → pods rome",
        "pod rome/rome → pod milan",
        "node rome/rome → pod milan",
    ):
        assert each in kinds
    assert not rome.api.exists("/api/v1/namespaces/liqod-test-network")


def test_a_daemon_that_is_killed_loses_no_packet(clusters: Joined, shop: str) -> None:
    rome, milan = clusters.members["rome"], clusters.members["milan"]
    alias = address(rome, "web-milan")
    ping = ("busybox", "ping", "-i", "0.1", "-c", str(PINGS), "-W", "2", alias)
    with ThreadPoolExecutor(1) as pool:
        pinging = pool.submit(within, rome, *ping)
        time.sleep(1.0)
        for member in (rome, milan):
            member.crash()
            member.daemon.start()
        said = pinging.result()
    assert f"{PINGS} packets transmitted, {PINGS} packets received" in said


def test_unpeering_leaves_nothing(clusters: Joined, shop: str) -> None:
    rome, milan = clusters.members["rome"], clusters.members["milan"]
    rome.liqod("unoffload", "namespace", shop, "--yes")
    rome.api.call("DELETE", f"/api/v1/namespaces/{shop}")
    rome.liqod("unpeer", "milan", "--yes")
    milan.liqod("unpeer", "rome", "--yes")
    milan.liqod("delete", "peering-user", "--consumer-cluster-id", "rome", "--yes")

    def traces(name: str) -> list[str]:
        found = clusters.inside(name, "ip", "netns").split()
        found += re.findall(r"lq[vtx]\w+", clusters.inside(name, "ip", "-o", "link"))
        found += re.findall(r"^187\d\d:.*", clusters.inside(name, "ip", "rule"), re.MULTILINE)
        found += re.findall(r"table \w+ liqod\S*", clusters.inside(name, "nft", "list", "tables"))
        found += re.findall(r"\S*wireguard\S* -f \S+", clusters.inside(name, "ps", "-ef"))
        return found

    for name in ("rome", "milan"):
        wait_until(
            f"nothing left at {name}: {traces(name)}", lambda name=name: not traces(name), 30
        )
        inventory.wait_for(clusters.members[name].api, clusters.before[name], LEFT_DEADLINE)
