"""Two daemons that meet, on real control planes: with their own rights, and no kubeconfig at hand.

Nobody reaches the provider's API server where it says that it is, so that all that the consumer
does there goes by the channel between the daemons. Other ways to meet are tried on embedded
clusters: a lender that dials (`simulated/reachability/test_lending.py`), requests that people
answer (`simulated/handshake/test_inbox.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from liqod.handshake.protocol.invitationtokens import parse_token
from tests.cluster.test_offloading import offload, settle
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


def test_an_invitation_comes_to_a_peering_by_the_channel_alone(apart: Clusters) -> None:
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
