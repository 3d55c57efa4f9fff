"""Embedded clusters: an API server, scheduler, controllers and fake nodes in this process.

A second implementation of the contract that ``tests/contract`` writes down, for the demo, for
tests at scale and for plugin authors; where it differs from a real API server, it is wrong.

Left out on purpose: protobuf bodies (kubectl's typed ``create`` verbs send them; ``apply -f`` and
``create -f`` send JSON), CEL and so ValidatingAdmissionPolicies (stored only), validating webhooks,
quotas (stored only), preemption, exec and port-forward, volumes, a decoder's check of the types of
built-in kinds' fields.
"""

from simulator.cluster import EmbeddedCluster
from simulator.faults import Fault, Faults

__all__ = ["EmbeddedCluster", "Fault", "Faults"]
