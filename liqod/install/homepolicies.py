"""The admission policy of a consumer: which namespaces its own users may not offload.

The daemon refuses these too (:mod:`liqod.model.crossing.exclusions`); the API server's refusal
comes before anything is recorded, whoever writes and while no daemon runs. Only creation is
checked: what was recorded before can still be brought back. The functions are pure and return
manifests.
"""

from typing import Final

from liqod.apimachinery import labels
from liqod.model import ids
from liqod.model.crossing.exclusions import RESERVED
from liqod.provider.policies.cel import Manifest, policy, rule

OFFLOADINGS_POLICY: Final = "liqod-namespaces-that-stay"


def policies(own: str) -> list[Manifest]:
    """All policies, each followed by its binding.

    Args:
        own: the namespace where liqod keeps what is the whole cluster's.
    """
    mark = f"namespaceObject.metadata.?labels[?'{labels.TENANT_NAMESPACE}'].orValue('')"
    names = [own, labels.LIQO_NAMESPACE]  # also where it is the same: a text of one shape
    names += [ids.nodes_namespace(each) for each in names]
    return policy(
        OFFLOADINGS_POLICY,
        rules=[rule("offloading.liqo.io", ["namespaceoffloadings"], ["CREATE"])],
        validations=[
            {
                "expression": f"!(request.namespace in {names!r})"
                f" && !request.namespace.startsWith('{ids.TENANT_PREFIX}')"
                f" && !{list(RESERVED)!r}.exists(p, request.namespace.startsWith(p))"
                f" && {mark} != '{labels.TRUE}'",
                "messageExpression": "'the namespace ' + request.namespace"
                " + ' cannot be offloaded: it holds keys or credentials, or belongs to the system'",
                "message": "this namespace cannot be offloaded",
                "reason": "Forbidden",
            }
        ],
    )
