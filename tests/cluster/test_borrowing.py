"""Virtual nodes, offloading and the webhook against real API servers and their controllers.

The cases are those of the embedded cluster, word for word: where the two differ, the embedded one
is wrong. Those chosen here lean on what only the real server has: its node controllers, evictions,
field ownership and admission.
"""

from collections.abc import Callable
from typing import NamedTuple

import pytest

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
from tests.testbed.controlplane import ControlPlane

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

pytestmark = pytest.mark.cluster


class Real(NamedTuple):
    """A real cluster as the cases need it: its kubeconfig and its API server."""

    kubeconfig: str
    server: str


@pytest.fixture
async def cluster(new_control_plane: Callable[..., ControlPlane]) -> Real:
    """A fresh control plane with the custom resources, as the cases expect."""
    plane = new_control_plane("rome")
    made = Real(plane.kubeconfig.read_text(), plane.server)
    async with Client(from_kubeconfig(made.kubeconfig)) as client:
        await define(client)
    return made
