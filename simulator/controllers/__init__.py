"""The controllers of an embedded cluster, each a key at a time, all in one task."""

from liqod.identity.certificates import Pair
from simulator.access.admission import Admission
from simulator.access.rights import Authorizer
from simulator.controllers.aggregation import Aggregation
from simulator.controllers.crds import Definitions
from simulator.controllers.daemons import DaemonSets
from simulator.controllers.deployments import Deployments
from simulator.controllers.disruption import Budgets
from simulator.controllers.endpoints import EndpointSlices
from simulator.controllers.garbage import Garbage
from simulator.controllers.manager import Controller, Manager
from simulator.controllers.namespaces import Namespaces
from simulator.controllers.nodes import GRACE, Evictions, Nodes
from simulator.controllers.replicas import PodMaker, ReplicaSets
from simulator.controllers.scheduler import Scheduler
from simulator.controllers.signing import Signing
from simulator.controllers.tokens import Tokens
from simulator.controllers.volumes import Volumes
from simulator.storage.registry import Registry

__all__ = ["GRACE", "Controller", "Manager", "Tokens", "start"]


def start(
    registry: Registry,
    admission: Admission,
    authorizer: Authorizer,
    ca: Pair,
    node_grace: float = GRACE,
) -> Manager:
    """Every controller of a cluster, following its objects; run what is returned."""
    manager = Manager()
    maker = PodMaker(registry, admission)
    Definitions(registry, manager)
    Namespaces(registry, manager, ca.certificate)
    Signing(registry, manager, ca)
    Garbage(registry, manager)
    Nodes(registry, manager, node_grace)
    Evictions(registry, manager, node_grace)
    Scheduler(registry, manager)
    Volumes(registry, manager)
    ReplicaSets(registry, manager, maker)
    Deployments(registry, manager)
    DaemonSets(registry, manager, maker)
    EndpointSlices(registry, manager)
    Budgets(registry, manager)
    Aggregation(registry, manager, authorizer)
    return manager
