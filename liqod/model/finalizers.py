"""Liqo's finalizers, recognised so that one left behind can be removed, and one of liqod's."""

from typing import Final

TENANT: Final = "tenant.liqo.io/finalizer"
REPLICATOR: Final = "crdreplicator.liqo.io/resource"
REPLICATOR_SECRET: Final = "crdreplicator.liqo.io/operator"
NAMESPACE_MAP: Final = "namespacemap-controller.liqo.io/finalizer"
NAMESPACE_OFFLOADING: Final = "namespaceoffloading-controller.liqo.io/finalizer"
VIRTUAL_NODE: Final = "virtualnode-controller.liqo.io/finalizer"
API_SERVER_CHECKER: Final = "api-server-checker.liqo.io/finalizer"
DIRECT_POD: Final = "liqod.io/direct-pod"
"""Held a direct pod (:mod:`liqod.provider.workloads.directpods`)."""
