"""Virtual nodes, offloading and the webhook against real API servers and their controllers.

The cases are those of the embedded cluster, word for word: where the two differ, the embedded one
is wrong.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.simulated import test_nodes, test_offloading, test_webhook
from tests.testbed.controlplane import ControlPlane

pytestmark = pytest.mark.cluster


class Real(NamedTuple):
    """What the cases need of a cluster."""

    kubeconfig: str
    server: str


@pytest.fixture
def cluster(new_control_plane: Callable[..., ControlPlane]) -> Real:
    """A fresh control plane, as the cases expect."""
    plane = new_control_plane("rome")
    return Real(plane.kubeconfig.read_text(), plane.server)


def cases(module: Any) -> dict[str, Any]:
    return {n: getattr(module, n) for n in dir(module) if n.startswith("test_")}


for each in (test_nodes, test_offloading, test_webhook):
    globals().update(cases(each))
