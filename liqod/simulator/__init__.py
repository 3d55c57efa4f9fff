"""Embedded clusters: an API server, scheduler, controllers and fake nodes in this process.

A second implementation of the contract that ``tests/contract`` writes down, for the demo, for
tests at scale and for plugin authors; where it differs from a real API server, it is wrong.
"""

from liqod.simulator.cluster import EmbeddedCluster
from liqod.simulator.faults import Fault, Faults

__all__ = ["EmbeddedCluster", "Fault", "Faults"]
