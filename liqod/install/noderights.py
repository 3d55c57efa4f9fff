"""The rights of ``liqod node``: read what it has to set up, report on its own node. Pure.

All nodes share one ServiceAccount, and their pods one in their own namespace. A policy holds each
to its own InternalNode, by the node that the API server has put into its token: where it is of a
pod, that pod's; where it is of a machine, the one it was asked for (``liqod generate node``). A
token without one may write nothing.
"""

from typing import Any, Final

from liqod.install.daemonrights import NETWORKING, READ, DaemonRule
from liqod.provider.policies.cel import bound

Manifest = dict[str, Any]

ACCOUNT: Final = "liqod-node"
"""The ServiceAccount, its roles and what binds them."""
POLICY: Final = "liqod-node-status"
CLAIM: Final = "authentication.kubernetes.io/node-name"
"""Where the API server tells the node of a token (Kubernetes 1.30)."""

CLUSTER_RULES: Final = (
    DaemonRule("which number and address it has", (NETWORKING,), ("internalnodes",), READ),
    DaemonRule(
        "how it fares is written to the status of its own, which a policy sees to",
        (NETWORKING,),
        ("internalnodes/status",),
        ("patch",),
    ),
    DaemonRule(
        "that the kinds are there before anything goes for the absence of their objects",
        ("apiextensions.k8s.io",),
        ("customresourcedefinitions",),
        ("get",),
        ("internalfabrics.networking.liqo.io", "internalnodes.networking.liqo.io"),
    ),
)
RULES: Final = (
    DaemonRule(
        "who the gateway is, and what is behind it", (NETWORKING,), ("internalfabrics",), READ
    ),
)
"""Of its Role in liqod's own namespace."""


def policies(*namespaces: str) -> list[Manifest]:
    """The policy and its binding.

    Args:
        namespaces: those that have the ServiceAccount.
    """
    users = [f"system:serviceaccount:{each}:{ACCOUNT}" for each in namespaces]
    own = f"request.userInfo.?extra[?'{CLAIM}'].orValue([]).exists(n, n == request.name)"
    return bound(
        POLICY,
        {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [NETWORKING],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE", "DELETE"],
                        "resources": [
                            *("internalnodes", "internalnodes/status"),
                            "internalfabrics",
                        ],
                        "scope": "*",
                    }
                ]
            },
            "matchConditions": [
                {"name": "a-node", "expression": f"request.userInfo.username in {users!r}"}
            ],
            "validations": [
                {
                    "expression": "request.resource.resource == 'internalnodes'"
                    " && request.subResource == 'status'",
                    "message": "liqod node writes the status of InternalNodes only",
                    "reason": "Forbidden",
                },
                {
                    "expression": own,
                    "message": "liqod node writes the InternalNode of its own node only, which its"
                    " token has to name (liqod generate node)",
                    "reason": "Forbidden",
                },
            ],
        },
    )
