"""Two daemons that meet, on real control planes: with their own rights, and no kubeconfig at hand.

Nobody reaches the provider's API server where it says that it is, so that all that the consumer
does there goes by the channel between the daemons, whichever of them has dialled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from liqod.handshake.protocol.invitationtokens import parse_token
from tests.cluster.test_offloading import offload, settle
from tests.testbed.api import wait_until
from tests.testbed.clusters import Clusters
from tests.testbed.federation import Member
from tests.testbed.processes import free_ports
from tests.testbed.workloads import deployment, deployments, group

pytestmark = pytest.mark.cluster

API = "peering.liqod.io/v1alpha1"
OUTGOING = group(API, "liqo", "outgoingpeerings")
INCOMING = group(API, "liqo", "incomingpeerings")
INVITATIONS = group(API, "liqo", "invitations")
TENANT = group("authentication.liqo.io/v1beta1", "liqo-tenant-rome", "tenants", "rome")


@contextmanager
def with_settings(member: Member, settings: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
    """Its daemon goes by these, too."""
    member.daemon.settings.update(settings)
    restart(member)
    met = settings["handshake"]
    if met.get("port"):
        keys = "/api/v1/namespaces/liqo/secrets/authentication-keys"
        [there] = met.get("advertise") or [f"127.0.0.1:{met['port']}"]
        member.comes_to(
            keys, lambda found: found["metadata"]["annotations"]["liqod.io/met-at"] == there
        )
    yield
    for name in settings:
        del member.daemon.settings[name]
    restart(member)


@pytest.fixture
def apart(clusters: Clusters) -> Iterator[Clusters]:
    """The clusters, of which milan says that its API server is where nothing listens."""
    dead, port = free_ports(2)
    nowhere = {"advertise": f"https://127.0.0.1:{dead}"}
    met_at = {"host": "127.0.0.1", "port": port}
    with with_settings(clusters.milan, {"api_server": nowhere, "handshake": met_at}):
        yield clusters


@pytest.fixture
def behind_nat(clusters: Clusters) -> Iterator[Clusters]:
    """The clusters, of which rome listens, and milan is reached in no way at all."""
    dead, port = free_ports(2)
    nowhere = {"advertise": f"https://127.0.0.1:{dead}"}
    with (
        with_settings(clusters.rome, {"handshake": {"host": "127.0.0.1", "port": port}}),
        with_settings(clusters.milan, {"api_server": nowhere, "handshake": {"enabled": False}}),
    ):
        yield clusters


def restart(member: Member) -> None:
    """Stops its daemon and starts it again."""
    member.daemon.stop()
    member.daemon.start(60)


def said(member: Member, *words: str) -> list[dict[str, Any]]:
    """Runs a command with ``-o json``, and returns its answer."""
    found: list[dict[str, Any]] = json.loads(member.liqod(*words, "-o", "json").stdout)
    return found


def runs_a_pod(clusters: Clusters) -> None:
    """A pod of an offloaded namespace runs at milan, and is Ready in rome."""
    rome = clusters.rome
    shop = clusters.namespace(rome)
    offload(rome, shop, "--pod-offloading-strategy", "Remote")
    rome.create(deployments(shop), deployment("web", 1))
    settle(rome, shop, 1)
    [here] = rome.pods(shop).values()
    assert (here["spec"]["nodeName"], here["status"]["phase"]) == ("milan", "Running")
    [there] = clusters.milan.pods(f"{shop}-rome").values()
    assert (there["spec"]["nodeName"], there["status"]["phase"]) == ("milan-0", "Running")


def nothing_is_left(clusters: Clusters) -> None:
    """Unpeers, after which each cluster holds what it held before, and no trace of the meeting."""
    clusters.clean()
    for member in (clusters.rome, clusters.milan):
        for path in (OUTGOING, INCOMING, INVITATIONS):
            assert member.names(path) == set()


def test_a_provider_that_nobody_reaches_dials_and_lends_and_dials_again(
    behind_nat: Clusters,
) -> None:
    rome, milan = behind_nat.rome, behind_nat.milan
    asked = ("--cpu", "2", "--memory", "4Gi", "--pods", "9")
    line = rome.liqod("invite", "--borrow", *asked).stdout.strip()
    done = milan.liqod("peer", "-", "--pods", "5", "--yes", given=f"{line}\n")
    assert done.stdout.startswith("rome borrows from this cluster: ")
    rome.comes_to("/api/v1/nodes/milan", lambda node: "allocatable" in node["status"])
    assert rome.node_is_ready("milan")
    assert rome.api.get("/api/v1/nodes/milan")["status"]["allocatable"]["pods"] == "5"
    tenant = milan.api.get(TENANT)
    assert re.fullmatch("liqod://[0-9a-f]{64}@", tenant["spec"]["proxyURL"])
    runs_a_pod(behind_nat)
    for member in (milan, rome):
        restart(member)
        shop = behind_nat.namespace(rome)
        offload(rome, shop, "--pod-offloading-strategy", "Remote")
        rome.create(deployments(shop), deployment("again", 1))
        settle(rome, shop, 1)
    nothing_is_left(behind_nat)


def test_an_invitation_and_a_request_come_to_peerings_by_the_channel_alone(
    apart: Clusters,
) -> None:
    rome, milan = apart.rome, apart.milan
    line = milan.liqod("invite", "--cpu", "2", "--memory", "4Gi", "--pods", "9").stdout.strip()
    done = rome.liqod("peer", "-", given=f"{line}\n")
    assert done.stdout == "peered: milan is the node milan here\n"
    assert rome.node_is_ready("milan")
    assert rome.api.get("/api/v1/nodes/milan")["status"]["allocatable"]["pods"] == "9"
    assert milan.api.get(TENANT)["spec"]["proxyURL"].startswith("liqod://")
    token = parse_token(line)
    [invited] = said(milan, "invite", "list")
    assert (invited["name"], invited["usedBy"]) == (token.id, ["rome"])
    [entry] = said(milan, "inbox")
    assert rome.api.get(f"{OUTGOING}/{token.id}")["status"]["words"] == entry["words"]
    runs_a_pod(apart)
    nothing_is_left(apart)

    # Asked for without an invitation: two people compare the words.
    at = [f"127.0.0.1:{milan.daemon.settings['handshake']['port']}"]
    spec = {"addresses": at, "clusterID": "milan", "resources": {"cpu": "4", "pods": "9"}}
    rome.create(
        OUTGOING,
        {"apiVersion": API, "kind": "OutgoingPeering", "metadata": {"name": "milan"}, "spec": spec},
    )
    wait_until("rome to ask", lambda: "Waiting" in json.dumps(said(milan, "inbox")), 30)
    [entry] = said(milan, "inbox")
    assert "rome is accepted: cpu 1" in milan.liqod("inbox", "accept", "rome", "--cpu", "1").stdout
    words = ("--cpu", "4", "--pods", "9", "--words", entry["words"])
    assert "milan is the node milan here" in rome.liqod("peer", "milan", *words).stdout
    assert rome.api.get("/api/v1/nodes/milan")["status"]["allocatable"]["cpu"] == "1"
    nothing_is_left(apart)
