"""The controllers of an embedded cluster, each a key at a time, all in one task."""

from liqod.identity.certificates import Pair
from liqod.simulator.admission import Admission
from liqod.simulator.controllers.aggregation import Aggregation
from liqod.simulator.controllers.daemons import DaemonSets
from liqod.simulator.controllers.definitions import Definitions
from liqod.simulator.controllers.deployments import Deployments
from liqod.simulator.controllers.disruption import Budgets
from liqod.simulator.controllers.endpoints import EndpointSlices
from liqod.simulator.controllers.garbage import Garbage
from liqod.simulator.controllers.manager import Controller, Manager
from liqod.simulator.controllers.namespaces import Namespaces
from liqod.simulator.controllers.nodes import Evictions, Nodes
from liqod.simulator.controllers.replicas import PodMaker, ReplicaSets
from liqod.simulator.controllers.scheduler import Scheduler
from liqod.simulator.controllers.signing import Signing
from liqod.simulator.controllers.tokens import Tokens
from liqod.simulator.registry import Registry
from liqod.simulator.rights import Authorizer

__all__ = ["Controller", "Manager", "Tokens", "start"]


def start(registry: Registry, admission: Admission, authorizer: Authorizer, ca: Pair) -> Manager:
    """Every controller of a cluster, following its objects; run what is returned."""
    manager = Manager()
    maker = PodMaker(registry, admission)
    Definitions(registry, manager)
    Namespaces(registry, manager, ca.certificate)
    Signing(registry, manager, ca)
    Garbage(registry, manager)
    Nodes(registry, manager)
    Evictions(registry, manager)
    Scheduler(registry, manager)
    ReplicaSets(registry, manager, maker)
    Deployments(registry, manager)
    DaemonSets(registry, manager, maker)
    EndpointSlices(registry, manager)
    Budgets(registry, manager)
    Aggregation(registry, manager, authorizer)
    return manager
