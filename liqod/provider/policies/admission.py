"""The admission policies of a provider, which restrict the writes of a consumer's identities.

ValidatingAdmissionPolicies in CEL, evaluated by the API server itself, so that no webhook of ours
blocks any write. They close what RBAC leaves open: a ShadowPod booked on
another slice's user, a ShadowPod that claims another origin, a tenant that lifts its own cordon,
and a tenant that grants itself resources by writing a status that flows from the provider to it. A
tenant namespace also holds this cluster's own requests to the same peer: a tenant may write nothing
there but replicas of its own, or it would have this cluster offload to it freely. A peering
user may write only handshake fields. Liqo's replicator and commands write none of these
(objects of a real peering), so a Liqo consumer is not held up.

They hold, in namespaces of peers only, everyone with the rights of a peer and not those of this
cluster's daemon, by the authorizer. So it makes no difference whether the rights came with a
certificate, a token, or a binding that an administrator made by hand. Writes of consumers to the
namespaces that they have here are :mod:`liqod.provider.policies.guestobjects`' part. The functions
are pure and return manifests.
"""

from typing import Final

from liqod.apimachinery import labels
from liqod.model import ids
from liqod.provider.policies import guestkeys, guestobjects
from liqod.provider.policies.cel import (
    NAMESPACES_OF_PEERS,
    PEERING_USER,
    PRIVILEGED,
    TENANT,
    TENANT_NAMESPACES,
    Manifest,
    label,
    no_finalizers,
    no_owners,
    policy,
    rule,
)

SHADOW_PODS_POLICY: Final = "liqod-shadowpods"
CORDON_POLICY: Final = "liqod-tenant-cordon"
STATUS_POLICY: Final = "liqod-tenant-status"
REPLICA_POLICY: Final = "liqod-tenant-replicas"
PEERING_TENANT_POLICY: Final = "liqod-peering-user-tenant"
PEERING_SECRET_POLICY: Final = "liqod-peering-user-secret"
PEERING_GATEWAY_POLICY: Final = "liqod-peering-user-gateway"

_WRITES: Final = ["CREATE", "UPDATE", "DELETE"]

_CONSUMER = f"namespaceObject.metadata.?labels[?'{labels.REMOTE_CLUSTER_ID}'].orValue('')"
"""The cluster id of the peer to whom the request's namespace belongs."""


def policies(managed: dict[str, str] | None = None) -> list[Manifest]:
    """All policies, each followed by its binding.

    Args:
        managed: labels of the installation, put on every one.
    """
    made = [
        *policy(
            SHADOW_PODS_POLICY,
            rules=[rule("offloading.liqo.io", ["shadowpods"], ["CREATE", "UPDATE"])],
            variables={
                "consumer": _CONSUMER,
                "creator": label("object", labels.CREATOR_USER),
                "origin": label("object", labels.ORIGIN),
                "privileged": PRIVILEGED,
            },
            validations=_shadow_pod_validations(),
            namespaces=NAMESPACES_OF_PEERS,
        ),
        *policy(
            CORDON_POLICY,
            rules=[rule("authentication.liqo.io", ["resourceslices"], ["CREATE", "UPDATE"])],
            variables={
                **_tenant_variables(),
                "before": "request.operation == 'CREATE' ? {} : "
                "oldObject.metadata.?annotations.orValue({})",
                "after": "object.metadata.?annotations.orValue({})",
            },
            validations=_cordon_validations(),
            namespaces=TENANT_NAMESPACES,
        ),
        *policy(
            STATUS_POLICY,
            rules=[
                rule("authentication.liqo.io", ["resourceslices/status", "renews/status"]),
                rule("peering.liqod.io", ["serviceexchanges/status"]),
                rule("offloading.liqo.io", ["namespacemaps/status"]),
            ],
            variables=_tenant_variables(),
            validations=_status_validations(),
            namespaces=TENANT_NAMESPACES,
        ),
        *policy(
            REPLICA_POLICY,
            rules=[
                rule("authentication.liqo.io", ["resourceslices", "renews"], _WRITES),
                rule("peering.liqod.io", ["serviceexchanges"], _WRITES),
                rule("offloading.liqo.io", ["namespacemaps"], _WRITES),
            ],
            variables=_tenant_variables(),
            validations=_replica_validations(),
            namespaces=TENANT_NAMESPACES,
        ),
        *_peering_user_policies(),
        *guestobjects.policies(),
        *guestkeys.policies(),
    ]
    for manifest in made:
        if managed:
            manifest["metadata"]["labels"] = dict(managed)
    return made


def _status_validations() -> list[Manifest]:
    return [
        {
            "expression": "!variables.tenant",
            "message": "status flows from the provider to the consumer: "
            "a consumer may not write it",
            "reason": "Forbidden",
        }
    ]


def _shadow_pod_validations() -> list[Manifest]:
    before = label("oldObject", labels.CREATOR_USER)
    user = "request.userInfo.username"
    # The end of the names of one consumer's users; a Liqo that passes on a guest of its own
    # copies the label, which means no user of this cluster, and counts for nothing.
    ending = f"{user}.substring({user}.size() - {ids.USER_SUFFIX})"
    another = f"({user}.size() > {ids.USER_SUFFIX} && !variables.creator.endsWith({ending}))"
    return [
        {
            "expression": "variables.creator == '' "
            f"|| variables.creator == {user} || {another} || variables.privileged",
            "messageExpression": f"'label {labels.CREATOR_USER} says ' + variables.creator"
            " + ', but the request is of ' + request.userInfo.username",
            "message": f"label {labels.CREATOR_USER} must be the requesting user",
            "reason": "Forbidden",
        },
        {
            "expression": "request.operation == 'CREATE' "
            f"|| variables.creator == {before} || variables.privileged",
            "message": f"label {labels.CREATOR_USER} cannot be changed",
            "reason": "Forbidden",
        },
        {
            "expression": "variables.origin == variables.consumer || variables.privileged",
            "messageExpression": f"'label {labels.ORIGIN} says ' + variables.origin"
            " + ', but the namespace belongs to ' + variables.consumer",
            "message": f"label {labels.ORIGIN} must be the cluster the namespace belongs to",
            "reason": "Forbidden",
        },
        no_finalizers(unless="variables.privileged"),
        no_owners(unless="variables.privileged"),
    ]


def _replica_validations() -> list[Manifest]:
    def own(root: str) -> str:
        return (
            f"({label(root, labels.REPLICATED)} == '{labels.TRUE}'"
            f" && {label(root, labels.ORIGIN_ID)} == variables.consumer"
            f" && {label(root, labels.REPLICATION)} != '{labels.TRUE}')"
        )

    return [
        {
            "expression": "!variables.tenant || ("
            f"(request.operation == 'DELETE' || {own('object')})"
            f" && (request.operation == 'CREATE' || {own('oldObject')}))",
            "message": "a consumer may write its own replicas only: "
            f"labels {labels.REPLICATED}={labels.TRUE}, {labels.ORIGIN_ID}=<its id>,"
            f" {labels.REPLICATION}={labels.FALSE}",
            "reason": "Forbidden",
        },
        no_finalizers(unless="!variables.tenant || request.operation == 'DELETE'"),
        no_owners(unless="!variables.tenant || request.operation == 'DELETE'"),
    ]


def _peering_user_policies() -> list[Manifest]:
    """The policies that keep peering users off a Tenant's provider fields and off other Secrets."""
    held = {"held": PEERING_USER}
    terms = (("tenantCondition", "Active"), ("authzPolicy", "KeysExchange"))
    kept = " && ".join(
        f"object.spec.?{field}.orValue('{default}') == (request.operation == 'CREATE'"
        f" ? '{default}' : oldObject.spec.?{field}.orValue('{default}'))"
        for field, default in terms
    )
    forbidden = " && ".join(
        f"{label('object', key)} == ''" for key in (labels.IDENTITY_TYPE, labels.SIGNED_NONCE)
    )
    return [
        *policy(
            PEERING_TENANT_POLICY,
            rules=[rule("authentication.liqo.io", ["tenants"], _WRITES)],
            variables=held,
            validations=[
                {
                    "expression": f"!variables.held || request.operation == 'DELETE' || ({kept})",
                    "message": "tenantCondition and authzPolicy are the provider's to write",
                    "reason": "Forbidden",
                },
                {
                    "expression": "!variables.held || request.operation != 'UPDATE' "
                    "|| !has(oldObject.status) || !has(oldObject.status.authParams) || "
                    + " && ".join(
                        f"object.spec.?{field}.orValue('') == oldObject.spec.?{field}.orValue('')"
                        for field in ("publicKey", "proxyURL")
                    ),
                    "message": "this tenant was accepted: another key or proxy is the provider's "
                    "to accept",
                    "reason": "Forbidden",
                },
                {
                    "expression": "!variables.held || request.operation != 'DELETE' "
                    "|| oldObject.spec.?tenantCondition.orValue('Active') == 'Active'",
                    "message": "the provider has cordoned or drained this tenant: "
                    "only the provider may delete it",
                    "reason": "Forbidden",
                },
            ],
            namespaces=TENANT_NAMESPACES,
        ),
        *policy(
            PEERING_SECRET_POLICY,
            rules=[rule("", ["secrets"], ["CREATE", "UPDATE"])],
            variables=held,
            validations=[
                {
                    "expression": "!variables.held || (object.metadata.?name.orValue('') == "
                    f"'{labels.NONCE_SECRET}' && {forbidden}"
                    " && object.?data.orValue({}).size() == 0)",
                    "message": "a peering user may make the nonce's Secret only, and empty",
                    "reason": "Forbidden",
                }
            ],
            namespaces=TENANT_NAMESPACES,
        ),
        *policy(
            PEERING_GATEWAY_POLICY,
            rules=[rule("networking.liqo.io", ["gatewayservers"], ["CREATE", "UPDATE"])],
            variables={
                "asked": "object.?spec.?endpoint.orValue({})",
                "before": "request.operation == 'CREATE' ? {}"
                " : oldObject.?spec.?endpoint.orValue({})",
            },
            validations=[
                {
                    "expression": "['loadBalancerIP', 'nodePort', 'nodePorts'].all(f, !(f in "
                    "variables.asked) || f in variables.before"
                    " && variables.before[f] == variables.asked[f])",
                    "message": "a gateway's address and node port (loadBalancerIP, nodePort) are "
                    "the provider's to choose",
                    "reason": "Forbidden",
                }
            ],
            namespaces=TENANT_NAMESPACES,
            held=PEERING_USER,
        ),
    ]


def _cordon_validations() -> list[Manifest]:
    prefix = f"k.startsWith('{labels.CORDON}')"
    return [
        {
            "expression": "!variables.tenant || ("
            f"variables.after.all(k, !{prefix}"
            " || (k in variables.before && variables.before[k] == variables.after[k]))"
            f" && variables.before.all(k, !{prefix} || k in variables.after))",
            "message": f"annotations {labels.CORDON}* are the provider's to write",
            "reason": "Forbidden",
        },
        {
            "expression": "!variables.tenant "
            f"|| {label('object', labels.REMOTE_CLUSTER_ID)} == variables.consumer",
            "message": f"label {labels.REMOTE_CLUSTER_ID} must be the consumer's own id",
            "reason": "Forbidden",
        },
    ]


def _tenant_variables() -> dict[str, str]:
    return {"consumer": _CONSUMER, "tenant": TENANT}
