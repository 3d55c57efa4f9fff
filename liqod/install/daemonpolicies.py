"""Policies that limit the daemon itself: they deny what its rights allow and it never needs.

RBAC gives a right to a kind, in all namespaces; some of what the daemon may so write would give it,
or whoever has its kubeconfig, everything: the token of a privileged ServiceAccount as a Secret, a
pod in kube-system, a role bound where it means more, a webhook before every write. Admission
policies that look at this one user refuse that, by whatever labels it gives a namespace. Pure.
"""

from typing import Any, Final

from liqod.apimachinery import labels
from liqod.install.rights import SERVICE_ACCOUNT
from liqod.model.clusterset.importing import DERIVED
from liqod.model.crossing.exclusions import RESERVED
from liqod.model.objects import webhook
from liqod.model.objects.homeapi import LONGEST
from liqod.model.view.whereabouts import DEPLOYMENT
from liqod.provider.policies.cel import bound, label
from liqod.provider.workloads import directpods
from liqod.resources.multicluster import SLICE_MANAGER

Manifest = dict[str, Any]

_WRITES: Final = ["CREATE", "UPDATE", "DELETE"]
_PEERS: Final = f"namespaceObject.metadata.?labels[?'{labels.REMOTE_CLUSTER_ID}'].hasValue()"
"""The request's namespace is a tenant's or one of a guest's."""
_TENANTS: Final = (
    f"{_PEERS} && "
    f"namespaceObject.metadata.?labels[?'{labels.TENANT_NAMESPACE}'].orValue('') == 'true'"
)
_MAPPED: Final = (
    f"{_PEERS} && namespaceObject.metadata.?annotations"
    f"[?'{labels.MANAGED_BY_NAMESPACE_MAP}'].hasValue()"
)


def _import_slice(root: str) -> str:
    """The EndpointSlice is of an import, and of no Service but the import's own."""
    service = label(root, labels.SERVICE_NAME)
    return (
        f"({label(root, labels.ENDPOINT_SLICE_MANAGED_BY)} == '{SLICE_MANAGER}'"
        f" && ({service} == '' || {service}.startsWith('{DERIVED}')))"
    )


_IMPORTED: Final = (
    f"((request.operation == 'DELETE' || {_import_slice('object')})"
    f" && (request.operation == 'CREATE' || {_import_slice('oldObject')}))"
)
_THING: Final = "(request.operation == 'DELETE' ? oldObject : object)"


def policies(namespace: str, *, services: bool = False) -> list[Manifest]:
    """All of them, each followed by its binding.

    Args:
        namespace: liqod's own, in which its ServiceAccount is.
        services: whether it makes the EndpointSlices of imports.
    """
    own = f"request.namespace == '{namespace}'"
    return [
        *_policy(
            namespace,
            "secrets",
            [_rule("", ["secrets"])],
            (f"({_TENANTS}) || {own}", "writes Secrets of tenant namespaces and its own only"),
            (
                "request.operation != 'CREATE'"
                " || object.?type.orValue('') != 'kubernetes.io/service-account-token'",
                "asks for no token of a ServiceAccount",
            ),
            (
                f"!({own}) || {_THING}.metadata.?name.orValue('') != '{DEPLOYMENT}'",
                "does not write its own configuration",
            ),
        ),
        *_policy(
            namespace,
            "services",
            [_rule("", ["services"], ["CREATE", "UPDATE"])],
            (
                "object.spec.?selector.orValue({}).size() == 0"
                " && object.spec.?externalIPs.orValue([]).size() == 0"
                " && object.spec.?type.orValue('') != 'ExternalName'",
                "makes Services without selector, externalIPs and externalName only",
            ),
        ),
        *_policy(
            namespace,
            "pods",
            [_rule("", ["pods"], ["CREATE", "UPDATE"])],
            (
                f"request.operation != 'CREATE' || ({_MAPPED}) || request.?dryRun.orValue(false)",
                "makes pods in namespaces of guests only",
            ),
            (
                f"request.operation != 'UPDATE' || ({_MAPPED}) ||"
                f" ({_images('object')} == {_images('oldObject')})",
                "has no other image run in pods that are not guests",
            ),
            (
                f"request.operation != 'UPDATE' || ({_MAPPED}) ||"
                f" {_gates('object')} == {_gates('oldObject')}",
                "lets no pod be scheduled that is not a guest",
            ),
        ),
        *_policy(
            namespace,
            "changes",
            [_rule("", ["pods/ephemeralcontainers", "pods/resize"], ["UPDATE"])],
            (_MAPPED, "resizes and debugs pods in namespaces of guests only"),
        ),
        *_policy(
            namespace,
            "deployments",
            [_rule("apps", ["deployments"])],
            (_TENANTS, "writes Deployments in tenant namespaces only"),
            (
                "request.operation == 'DELETE' || object.spec.template.spec"
                f".?schedulingGates.orValue([]).exists(g, g.name == '{labels.STAND_IN_GATE}')",
                "makes Deployments of pods that are never scheduled only",
            ),
        ),
        *_policy(
            namespace,
            "endpoints",
            [_rule("discovery.k8s.io", ["endpointslices"])],
            (
                f"({_PEERS}) || {_IMPORTED}" if services else _PEERS,
                "writes EndpointSlices in namespaces of guests only"
                + (", and those of imports" if services else ""),
            ),
        ),
        *_policy(
            namespace,
            "tokens",
            [_rule("", ["serviceaccounts/token"], ["CREATE"])],
            (
                "namespaceObject.metadata.?labels"
                f"[?'{labels.SCHEDULING_ENABLED}'].orValue('') == '{labels.TRUE}'",
                "asks for tokens in offloaded namespaces only",
            ),
            (
                "object.spec.?boundObjectRef.kind.orValue('') == 'Pod'"
                " && object.spec.?boundObjectRef.uid.orValue('') != ''",
                "asks for tokens of pods only",
            ),
            (
                f"object.spec.?expirationSeconds.orValue(0) <= {LONGEST}",
                "asks for no token that lasts longer than an hour",
            ),
        ),
        *_cluster_policies(namespace),
        *_policy(namespace, "namespaces", [_rule("", ["namespaces"])], *_namespaces(namespace)),
    ]


def _cluster_policies(namespace: str) -> list[Manifest]:
    """Those of what is, or leads to, the whole cluster's."""
    own = f"request.namespace == '{namespace}'"
    return [
        *_policy(
            namespace,
            "bindings",
            [_rule("rbac.authorization.k8s.io", ["rolebindings"])],
            (
                f"({_PEERS}) || (request.operation == 'DELETE'"
                f" && {label('oldObject', labels.PEERING_USER)} != '')"
                f" || ({own} && request.operation == 'CREATE'"
                f" && object.roleRef.name == '{labels.PEERING_USER_LIQO_ROLE}')",
                "binds nobody but peers, in their own namespaces",
            ),
        ),
        *_policy(
            namespace,
            "roles",
            [_rule("rbac.authorization.k8s.io", ["roles"])],
            (
                f"({_PEERS}) && (request.operation == 'DELETE' || object.rules.all(r,"
                " r.apiGroups == [''] && r.resources == ['secrets'] && r.verbs == ['get']"
                " && r.?resourceNames.orValue([]).size() == 1))",
                "makes roles that read one Secret of a peer only",
            ),
        ),
        *_policy(
            namespace,
            "clusterbindings",
            [_rule("rbac.authorization.k8s.io", ["clusterrolebindings"])],
            (
                f"{_THING}.roleRef.name == '{labels.CLUSTER_WIDE_ROLE}'",
                "binds consumers cluster-wide to their own role only",
            ),
        ),
        *_policy(
            namespace,
            "webhooks",
            [_rule("admissionregistration.k8s.io", ["mutatingwebhookconfigurations"])],
            (
                f"{_THING}.metadata.name == '{webhook.NAME}' || request.operation == 'DELETE'"
                f" && oldObject.metadata.name == '{directpods.WEBHOOK}'",
                "announces its own webhook only",
            ),
            (
                "request.operation == 'DELETE' || object.webhooks.all(w,"
                " w.rules.all(r, r.resources == ['pods'] && r.operations == ['CREATE'])"
                " && has(w.namespaceSelector.matchLabels) && (w.failurePolicy == 'Ignore'"
                " ? w.namespaceSelector.matchLabels.size() == 1"
                f" && w.namespaceSelector.matchLabels.all(k, k == '{labels.SCHEDULING_ENABLED}'"
                " || (k == 'kubernetes.io/metadata.name'"
                f" && w.namespaceSelector.matchLabels[k] == '{namespace}'))"
                f" : {list(webhook.CHOSEN)!r}.all(k, k in w.namespaceSelector.matchLabels)))",
                "is asked about new pods of namespaces that were chosen only",
            ),
        ),
        *_policy(
            namespace,
            "serving",
            [_rule("certificates.k8s.io", ["certificatesigningrequests/approval"], ["UPDATE"])],
            (
                "object.spec.signerName != 'kubernetes.io/kubelet-serving'"
                " || object.spec.?username.orValue('') == request.userInfo.username",
                "approves no serving certificate that it has not asked for itself",
            ),
        ),
        *_policy(
            namespace,
            "nodes",
            [_rule("", ["nodes"]), _rule("", ["nodes/status"], ["UPDATE"])],
            (
                f"(request.operation == 'CREATE' || {_is_virtual('oldObject')})"
                f" && (request.operation == 'DELETE' || {_is_virtual('object')})",
                "writes virtual nodes only",
            ),
        ),
    ]


def _gates(root: str) -> str:
    """CEL: the scheduling gates of a pod."""
    return f"{root}.spec.?schedulingGates.orValue([]).map(g, g.name)"


def _images(root: str) -> str:
    """CEL: what a pod runs, in order."""
    lists = (f"{root}.spec.{each}" for each in ("containers", "?initContainers.orValue([])"))
    return " + ".join(f"{each}.map(c, c.?image.orValue(''))" for each in lists)


def _namespaces(own: str) -> list[tuple[str, str]]:
    peer, chosen = labels.REMOTE_CLUSTER_ID, f"in {list(webhook.CHOSEN)!r}"
    now, before = (f"{root}.metadata.?labels.orValue({{}})" for root in ("object", "oldObject"))
    owners = "metadata.?ownerReferences.orValue([])"
    name = "object.metadata.name"
    stays = f"{name} == '{own}' || {list(RESERVED)!r}.exists(p, {name}.startsWith(p))"
    return [
        (
            f"request.operation == 'CREATE' || {label('oldObject', peer)} != '' ||"
            f" (request.operation == 'UPDATE' && {label('object', peer)} == '')",
            "takes over and deletes no namespace that is not a peer's",
        ),
        (
            f"request.operation != 'UPDATE' || {label('oldObject', peer)} != '' || ("
            f"{now}.all(k, (k {chosen} && !({stays}))"
            f" || (k in {before} && {before}[k] == {now}[k]))"
            f" && {before}.all(k, k {chosen} || k in {now})"
            f" && object.{owners}.all(o, oldObject.{owners}.exists(p, p.uid == o.uid)))",
            "marks namespaces that are not a peer's as offloaded, and does nothing else to them",
        ),
        (
            f"request.operation != 'CREATE' || {label('object', peer)} != ''",
            "makes namespaces of peers only",
        ),
    ]


def _is_virtual(root: str) -> str:
    """Expression that is true of a virtual Node of liqod's, also where people took its label off.

    The record of our taints is made with it, and no fenced write puts it on a real one.
    """
    marks = f"{root}.metadata.annotations"
    noted = f"(has({marks}) && '{labels.NODE_TAINTS}' in {marks})"
    return f"({label(root, labels.TYPE)} == '{labels.VIRTUAL_NODE_TYPE}' || {noted})"


def _rule(group: str, resources: list[str], operations: list[str] | None = None) -> Manifest:
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": operations or _WRITES,
        "resources": resources,
        "scope": "*",
    }


def _policy(
    namespace: str, what: str, rules: list[Manifest], *validations: tuple[str, str]
) -> list[Manifest]:
    name = f"liqod-daemon-{what}"
    user = f"system:serviceaccount:{namespace}:{SERVICE_ACCOUNT}"
    return bound(
        name,
        {
            "matchConstraints": {"resourceRules": rules},
            "matchConditions": [
                {"name": "the-daemon", "expression": f"request.userInfo.username == '{user}'"}
            ],
            "validations": [
                {
                    "expression": expression,
                    "message": f"liqod's daemon {text}",
                    "reason": "Forbidden",
                }
                for expression, text in validations
            ],
        },
    )
