"""The Lease of a virtual node, by which Kubernetes' node controller sees that it is maintained.

Pure.
"""

from typing import Any, Final

from liqod.model.peering.intervals import NODE_LEASE

Json = dict[str, Any]

LEASE_NAMESPACE: Final = "kube-node-lease"


def new_lease(name: str, node_uid: str, now: str) -> Json:
    """The Lease of a Node."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name,
            "namespace": LEASE_NAMESPACE,
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}
            ],
        },
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": int(NODE_LEASE),
            "renewTime": now,
        },
    }
