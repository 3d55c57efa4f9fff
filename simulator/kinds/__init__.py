"""Strategies for writes of each built-in kind: defaults, preparation, checks."""

from simulator.catalog import Resource
from simulator.kinds.base import Strategy
from simulator.kinds.clusterscoped import CLUSTER
from simulator.kinds.pods import PodStrategy
from simulator.kinds.rbac import RIGHTS
from simulator.kinds.services import EndpointSliceStrategy, ServiceStrategy
from simulator.kinds.values import VALUES
from simulator.kinds.workloads import WORKLOADS

__all__ = ["Strategy", "strategy_of"]

_PLAIN = Strategy()
_STRATEGIES: dict[str, Strategy] = {
    "pods": PodStrategy(),
    "services": ServiceStrategy(),
    "endpointslices.discovery.k8s.io": EndpointSliceStrategy(),
    **CLUSTER,
    **RIGHTS,
    **VALUES,
    **WORKLOADS,
}


def strategy_of(resource: Resource) -> Strategy:
    """The strategy of a kind; custom resources and simple kinds have the plain one."""
    return _STRATEGIES.get(resource.qualified, _PLAIN)
