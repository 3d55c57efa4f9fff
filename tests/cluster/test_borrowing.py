"""Virtual nodes, offloading and the webhook against real API servers and their controllers.

The cases are those of the embedded cluster, word for word: where the two differ, the embedded one
is wrong. Those chosen here lean on what only the real server has: its node controllers, evictions,
field ownership and admission.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
import trio

from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from tests.simulated.borrower import define
from tests.simulated.consumer.test_nodes import (
    test_deleted_node_is_made_again as test_deleted_node_is_made_again,
)
from tests.simulated.consumer.test_nodes import (
    test_drain_evicts_and_leaves_nothing as test_drain_evicts,
)
from tests.simulated.consumer.test_nodes import (
    test_drain_names_the_budget_and_ends_at_its_deadline as test_drain_names_the_budget,
)
from tests.simulated.consumer.test_nodes import (
    test_labels_follow_the_virtual_node_and_those_of_people_stay as test_labels_follow,
)
from tests.simulated.consumer.test_nodes import (
    test_name_of_a_real_node_is_refused as test_name_is_refused,
)
from tests.simulated.consumer.test_nodes import (
    test_node_and_lease_appear_and_stay_quiet as test_node_and_lease,
)
from tests.simulated.consumer.test_nodes import (
    test_ready_follows_the_peer_and_cordon_stays as test_ready_follows_the_peer,
)
from tests.simulated.consumer.test_nodes_left_alone import (
    test_a_provider_id_is_given_later_and_never_taken_back as test_provider_ids,
)
from tests.simulated.consumer.test_offloading import (
    test_life_of_an_offloaded_namespace as test_offloading,
)
from tests.simulated.consumer.test_offloading import (
    test_namespace_that_goes_takes_its_entry_along as test_namespace_goes,
)
from tests.simulated.consumer.test_webhook import (
    test_missed_pod_gets_its_toleration as test_missed_pod,
)
from tests.simulated.consumer.test_webhook import (
    test_pods_of_offloaded_namespaces_are_changed_and_others_are_not as test_webhook,
)
from tests.testbed import evidence
from tests.testbed.api import Api, wait_until
from tests.testbed.controlplane import ControlPlane
from tests.testbed.errors import Unavailable
from tests.testbed.fixtures import give_up, start_all
from tests.testbed.workloads import core, group

__all__ = [
    "test_deleted_node_is_made_again",
    "test_drain_evicts",
    "test_drain_names_the_budget",
    "test_labels_follow",
    "test_missed_pod",
    "test_name_is_refused",
    "test_namespace_goes",
    "test_node_and_lease",
    "test_offloading",
    "test_provider_ids",
    "test_ready_follows_the_peer",
    "test_webhook",
]

pytestmark = [pytest.mark.cluster, pytest.mark.placement]

OFFLOADING = "offloading.liqo.io/v1beta1"
HELD = ("virtualnodes", "namespaceoffloadings", "namespacemaps")
"""Kinds of which objects may have liqod's finalizers."""
COLLECTIONS = (
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/node.k8s.io/v1/runtimeclasses",
    group("apps/v1", "default", "daemonsets"),
    group("policy/v1", "default", "poddisruptionbudgets"),
    "/api/v1/nodes",
    group("coordination.k8s.io/v1", "kube-node-lease", "leases"),
    core("default", "events"),
)
"""What cases make outside of namespaces of their own, but for pods."""


class Real(NamedTuple):
    """A real cluster as the cases need it: its kubeconfig and its API server."""

    kubeconfig: str
    server: str


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane with the custom resources, in which one case follows the other."""
    try:
        made = ControlPlane("rome")
    except Unavailable as reason:
        give_up(reason)
    start_all([made])
    try:
        trio.run(_define, made.kubeconfig.read_text())
        yield made
    finally:
        evidence.remove(made.name, made.logs)
        made.destroy()


async def _define(kubeconfig: str) -> None:
    async with Client(from_kubeconfig(kubeconfig)) as client:
        await define(client)


@pytest.fixture
def cluster(plane: ControlPlane) -> Real:
    """The control plane as the cases expect it, without what the one before has left in it."""
    clear(plane.api)
    return Real(plane.kubeconfig.read_text(), plane.server)


def clear(api: Api) -> None:
    """Takes away all that cases make, and waits until it is gone.

    Nobody is there who would finalize it, or end pods.
    """
    for plural in HELD:
        for each in api.get(f"/apis/{OFFLOADING}/{plural}")["items"]:
            at = each["metadata"]
            path = group(OFFLOADING, at["namespace"], plural, at["name"])
            bare = {"metadata": {"finalizers": None}}
            api.raw("PATCH", path, bare, content="application/merge-patch+json")
    for path in COLLECTIONS:
        api.call("DELETE", path)
    for name in made_namespaces(api):
        api.raw("DELETE", f"/api/v1/namespaces/{name}")

    def empty() -> bool:
        pods = [each["metadata"] for each in api.get("/api/v1/pods")["items"]]
        for at in pods:
            api.raw("DELETE", f"{core(at['namespace'], 'pods', at['name'])}?gracePeriodSeconds=0")
        return not pods and not made_namespaces(api)

    wait_until("an empty cluster", empty, 60)
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "liqo"}})


def made_namespaces(api: Api) -> set[str]:
    """The namespaces that no Kubernetes makes."""
    names = {each["metadata"]["name"] for each in api.get("/api/v1/namespaces")["items"]}
    return {each for each in names if each != "default" and not each.startswith("kube-")}
