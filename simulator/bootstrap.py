"""Creates a cluster's first objects: namespaces, default rights, the ``kubernetes`` Service."""

from typing import Any

from simulator import builtins
from simulator.access.identities import AUTHENTICATED, MASTERS
from simulator.catalog import Resource
from simulator.storage.registry import Registry

Json = dict[str, Any]

_RBAC = "rbac.authorization.k8s.io"
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
_EDITABLE = {
    "": [
        "configmaps",
        "endpoints",
        "events",
        "persistentvolumeclaims",
        "pods",
        "pods/log",
        "pods/eviction",
        "pods/status",
        "services",
        "serviceaccounts",
    ],
    "apps": ["deployments", "deployments/scale", "replicasets", "statefulsets", "daemonsets"],
    "batch": ["jobs", "cronjobs"],
    "discovery.k8s.io": ["endpointslices"],
    "networking.k8s.io": ["ingresses", "networkpolicies"],
    "policy": ["poddisruptionbudgets"],
}


def _rule(verbs: list[str], groups: list[str], resources: list[str]) -> Json:
    return {"verbs": verbs, "apiGroups": groups, "resources": resources}


def _role(name: str, rules: list[Json], aggregates: str = "", collects: str = "") -> Json:
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    if aggregates:
        labels[_AGGREGATE + aggregates] = "true"
    role: Json = {"metadata": {"name": name, "labels": labels}, "rules": rules}
    if collects:
        selector = {"matchLabels": {_AGGREGATE + collects: "true"}}
        role["aggregationRule"] = {"clusterRoleSelectors": [selector]}
    return role


def _cluster_roles() -> list[Json]:
    view = [_rule(_READ, [group], names) for group, names in _EDITABLE.items()]
    view.append(_rule(_READ, [""], ["namespaces", "resourcequotas", "limitranges"]))
    edit = [_rule(_WRITE, [group], names) for group, names in _EDITABLE.items()]
    edit.append(_rule([*_READ, *_WRITE], [""], ["secrets"]))
    admin = [_rule([*_READ, *_WRITE], [_RBAC], ["roles", "rolebindings"])]
    everything = [
        _rule(["*"], ["*"], ["*"]),
        {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ]
    documents = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version"]
    health = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
    myself = [
        _rule(
            ["create"],
            ["authorization.k8s.io"],
            ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        ),
        _rule(["create"], ["authentication.k8s.io"], ["selfsubjectreviews"]),
    ]
    return [
        _role("cluster-admin", everything),
        _role("system:aggregate-to-view", view, aggregates="view"),
        _role("system:aggregate-to-edit", edit, aggregates="edit"),
        _role("system:aggregate-to-admin", admin, aggregates="admin"),
        _role("view", [], aggregates="edit", collects="view"),
        _role("edit", [], aggregates="admin", collects="edit"),
        _role("admin", [], collects="admin"),
        _role("system:basic-user", myself),
        _role("system:discovery", [{"verbs": ["get"], "nonResourceURLs": documents}]),
        _role("system:public-info-viewer", [{"verbs": ["get"], "nonResourceURLs": health}]),
    ]


def _bindings() -> list[Json]:
    pairs = (
        ("cluster-admin", "cluster-admin", [MASTERS]),
        ("system:basic-user", "system:basic-user", [AUTHENTICATED]),
        ("system:discovery", "system:discovery", [AUTHENTICATED]),
        (
            "system:public-info-viewer",
            "system:public-info-viewer",
            [AUTHENTICATED, "system:unauthenticated"],
        ),
    )
    return [
        {
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            },
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "Group", "name": group} for group in groups],
        }
        for name, role, groups in pairs
    ]


def populate(registry: Registry, port: int, authority: bytes) -> None:
    """Create what every cluster has; ``authority`` (PEM) signs its client certificates."""

    def create(resource: Resource, obj: Json, namespace: str = "") -> None:
        registry.prepare(resource, namespace, obj)
        registry.create(resource, namespace, obj)

    for name in ("default", "kube-node-lease", "kube-public", "kube-system"):
        create(builtins.NAMESPACES, {"metadata": {"name": name}})
    for role in _cluster_roles():
        create(builtins.CLUSTER_ROLES, role)
    for binding in _bindings():
        create(builtins.CLUSTER_ROLE_BINDINGS, binding)
    shown = {"name": "extension-apiserver-authentication"}
    data = {"client-ca-file": authority.decode()}
    create(builtins.CONFIG_MAPS, {"metadata": shown, "data": data}, "kube-system")
    create(
        builtins.SERVICES,
        {
            "metadata": {
                "name": "kubernetes",
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "clusterIP": registry.allocations.first(),
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
            },
        },
        "default",
    )
