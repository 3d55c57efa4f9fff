"""Definitions that somebody deletes under load, at a real API server, and that are installed again.

`status` names them, nothing of others is touched, and all is as before once they are back. Other
definitions, and other parts that somebody takes away, are tried on embedded clusters
(`simulated/peering/test_missing_parts.py`, `simulated/daemon/test_changed_id.py`).
"""

from __future__ import annotations

import pytest

from tests.cluster.test_killed_daemons import Churn
from tests.cluster.test_offloading import offload, settle
from tests.testbed.api import wait_until
from tests.testbed.clusters import Clusters
from tests.testbed.federation import Member
from tests.testbed.witness import Witness
from tests.testbed.workloads import core, deployment, deployments

pytestmark = pytest.mark.cluster

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def remote(clusters: Clusters, replicas: int) -> str:
    """A namespace of rome whose pods run at milan, with so many of them."""
    shop = clusters.namespace(clusters.rome)
    offload(clusters.rome, shop, "--pod-offloading-strategy", "Remote")
    clusters.rome.create(deployments(shop), deployment("web", replicas))
    settle(clusters.rome, shop, replicas)
    return shop


def test_definitions_deleted_under_load(peered: Clusters) -> None:
    """Those of what the provider was asked for: every pod stays as it is."""
    rome, milan = peered.rome, peered.milan
    definitions = ("namespacemaps.offloading", "resourceslices.authentication")
    shop = remote(peered, 3)
    reflected = f"{shop}-rome"
    theirs = core(reflected, "configmaps", "theirs")
    milan.create(core(reflected, "configmaps"), {"metadata": {"name": "theirs"}})
    kept = [f"/api/v1/namespaces/{reflected}", theirs]
    before = [milan.api.get(path)["metadata"]["uid"] for path in kept]
    node = rome.api.get("/api/v1/nodes/milan")["metadata"]["uid"]
    with Witness(rome.api, shop) as context, Witness(milan.api, reflected) as away:
        with Churn(rome, shop) as churn:
            delete(milan, *definitions)
            shown = milan.liqod("status").stdout
            for each in definitions:
                assert f"the custom resource {each}.liqo.io is missing" in shown
            milan.liqod("install")
        last = {f"churn-{number}" for number in range(max(churn.made - 5, 0), churn.made)}

        def settled() -> bool:
            here = rome.ready_pods(shop)
            web = {name for name in here if name.startswith("web-")}
            return len(web) == 3 and here - web == last and set(milan.pods(reflected)) == here

        wait_until("the pods that are to be there, and no other", settled, 90)
    assert [milan.api.get(path)["metadata"]["uid"] for path in kept] == before
    assert rome.api.get("/api/v1/nodes/milan")["metadata"]["uid"] == node
    assert rome.node_is_ready("milan")
    assert not context.replaced()
    assert not away.replaced()
    assert "is missing" not in milan.liqod("status").stdout


def delete(member: Member, *definitions: str) -> None:
    """Deletes definitions, and waits until they are gone with all objects of their kinds."""
    paths = [f"{DEFINITIONS}/{each}.liqo.io" for each in definitions]
    for path in paths:
        member.api.call("DELETE", path)
    wait_until("their end", lambda: not any(member.api.exists(path) for path in paths), 30)
