"""Pods of a cluster's second node reach a peer by `liqod node`, on real kubelets."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from tests.node.peered.second import GROUP, INTERNAL, Flow, aliased, says
from tests.testbed import image
from tests.testbed.agent import Agent
from tests.testbed.api import wait_until
from tests.testbed.joined import Joined

pytestmark = [pytest.mark.node, pytest.mark.network]

NODES = ("rome", "rome-2")
REST = 4.0
"""Seconds in which it is looked what it does at rest."""


def test_a_pod_of_the_second_node_reaches_the_peer_and_back(
    clusters: Joined, pods: dict[str, str]
) -> None:
    for here, there in (("rome-2", "milan"), ("milan", "rome-2")):
        member = clusters.members[here.removesuffix("-2")]
        alias = aliased(clusters, member.name, there, pods)
        ping = ("exec", f"echo-{here}", "--", "busybox", "ping", "-c", "3", "-W", "2", alias)
        assert " 0% packet loss" in member.plane.kubectl(*ping)
    reached(clusters)


def reached(clusters: Joined) -> None:
    """Waits until the second node says that it reaches the gateway."""
    rome = clusters.members["rome"]
    wait_until("gateway reached", lambda: says(rome, "rome-2", "GatewayReachable"), 15)


def test_everything_reaches_everything(clusters: Joined, pods: dict[str, str]) -> None:
    rome = clusters.members["rome"]
    words = ("test", "network", "--image", image.NAME, "--outside", "", "-o", "json")
    rows = json.loads(rome.liqod(*words).stdout)
    verdicts = {f"{row['source']} → {row['target']}": row["verdict"] for row in rows}
    assert set(verdicts.values()) == {"ok", "skipped"}, verdicts
    kinds = " ".join(verdicts)
    for each in (
        "pod milan → pods rome",
        *(f"{kind} rome/{node} → pod milan" for kind in ("pod", "node") for node in NODES),
    ):
        assert each in kinds, kinds
    assert not rome.api.exists("/api/v1/namespaces/liqod-test-network")


def test_killed_it_loses_no_packet(clusters: Joined, agent: Agent, pods: dict[str, str]) -> None:
    """Nor does the leader's daemon, whose node is the gateway."""
    rome = clusters.members["rome"]
    flow = Flow(rome, "echo-rome-2", aliased(clusters, "rome", "milan", pods))
    flow.start()
    agent.start()
    rome.crash()
    rome.daemon.start()
    time.sleep(1.0)
    found = flow.end()
    assert found.sent > 20, found
    assert found.lost == 0, found


def test_at_rest_it_writes_nothing_and_costs_little(clusters: Joined, agent: Agent) -> None:
    rome = clusters.members["rome"]
    reached(clusters)
    time.sleep(1.0)
    before, began = rome.api.get(f"{INTERNAL}/{agent.node}"), agent.usage()
    time.sleep(REST)
    assert rome.api.get(f"{INTERNAL}/{agent.node}") == before
    used = agent.usage()
    assert used.rss < 64e6
    assert used.cpu - began.cpu < 0.01 * REST


FORBIDDEN = (
    f"{INTERNAL}/rome/status",
    f"{INTERNAL}/rome-2",
    f"{INTERNAL}/rome",
    f"{GROUP}/namespaces/liqo/internalfabrics/gateway",
    f"{GROUP}/namespaces/liqo-tenant-milan/configurations/milan",
    "/api/v1/nodes/rome-2/status",
)


@pytest.mark.parametrize("path", FORBIDDEN)
def test_a_nodes_token_writes_nothing_but_its_own_status(
    clusters: Joined, agent: Agent, path: str
) -> None:
    """A compromised node could draw the packets of others' pods to itself."""
    evil = "198.51.100.66"
    spec = {"gateway": {"address": evil}, "address": evil}
    patch = {"spec": spec, "status": {"fabricGeneration": 9, "latency": "66ms"}}
    status, said = ask(clusters, token_of(agent.kubeconfig), "PATCH", path, patch)
    assert status == 403, said
    if path == FORBIDDEN[0]:
        assert "of its own node only" in said


def test_a_nodes_token_writes_its_own_status_and_reads_no_secret(
    clusters: Joined, agent: Agent
) -> None:
    token = token_of(agent.kubeconfig)
    patch = {"status": {"latency": "0.66ms"}}
    assert ask(clusters, token, "PATCH", f"{INTERNAL}/rome-2/status", patch)[0] == 200
    for kind in ("secrets", "pods", "nodes", "configmaps"):
        assert ask(clusters, token, "GET", f"/api/v1/{kind}")[0] == 403
    assert ask(clusters, token, "DELETE", f"{INTERNAL}/rome-2")[0] == 403


def test_a_token_of_no_node_writes_no_status(clusters: Joined, agent: Agent) -> None:
    """One that somebody asked for without a node, or who has the ServiceAccount otherwise."""
    kubectl = clusters.members["rome"].plane.kubectl
    token = kubectl("create", "token", "liqod-node", "-n", "liqo").strip()
    patch = {"status": {"latency": "66ms"}}
    status, said = ask(clusters, token, "PATCH", f"{INTERNAL}/rome-2/status", patch)
    assert status == 403
    assert "of its own node only" in said


def token_of(kubeconfig: Path) -> str:
    """The token in a kubeconfig."""
    return str(yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"])


def ask(
    clusters: Joined, token: str, method: str, path: str, body: object = None
) -> tuple[int, str]:
    """Status and words of rome's API server, which is asked with a token."""
    plane = clusters.clusters["rome"].plane
    url = yaml.safe_load(plane.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, headers, method=method)
    context = ssl.create_default_context(cafile=str(plane.authority.pair.certificate))
    try:
        with urllib.request.urlopen(request, context=context, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
