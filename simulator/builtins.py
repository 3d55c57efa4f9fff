"""The built-in kinds that a simulated API server serves.

Those the engine, its tests and a person with kubectl come across; anything else answers 404.
Columns follow the printers of the real server where a function in ``table`` computes the cell.
"""

from simulator.catalog import Column, Resource

AGE = Column("Age", "age")
NAME = Column("Name", ".metadata.name")


def _columns(*more: Column) -> tuple[Column, ...]:
    return (NAME, *more, AGE)


def _core(kind: str, plural: str, **more: object) -> Resource:
    return Resource(group="", version="v1", kind=kind, plural=plural, **more)  # type: ignore[arg-type]


CORE = (
    _core(
        "Namespace",
        "namespaces",
        short_names=("ns",),
        namespaced=False,
        status=True,
        names="label",
        returns_deleted=True,
        subresources=("finalize",),
        columns=_columns(Column("Status", ".status.phase")),
    ),
    _core(
        "Node",
        "nodes",
        short_names=("no",),
        namespaced=False,
        status=True,
        columns=(
            NAME,
            Column("Status", "node_status"),
            Column("Roles", "node_roles"),
            AGE,
            Column("Version", ".status.nodeInfo.kubeletVersion"),
        ),
    ),
    _core(
        "Pod",
        "pods",
        short_names=("po",),
        categories=("all",),
        status=True,
        generation=True,
        returns_deleted=True,
        subresources=(
            *("attach", "binding", "ephemeralcontainers", "eviction"),
            *("exec", "log", "portforward", "resize"),
        ),
        columns=(
            NAME,
            Column("Ready", "pod_ready"),
            Column("Status", "pod_status"),
            Column("Restarts", "pod_restarts"),
            AGE,
            Column("IP", ".status.podIP", priority=1),
            Column("Node", ".spec.nodeName", priority=1),
        ),
    ),
    _core(
        "Service",
        "services",
        short_names=("svc",),
        categories=("all",),
        status=True,
        names="service",
        returns_deleted=True,
        columns=(
            NAME,
            Column("Type", ".spec.type"),
            Column("Cluster-IP", ".spec.clusterIP"),
            Column("Port(s)", "service_ports"),
            AGE,
        ),
    ),
    _core(
        "ConfigMap",
        "configmaps",
        short_names=("cm",),
        columns=_columns(Column("Data", "data_count", "integer")),
    ),
    _core(
        "Secret",
        "secrets",
        columns=_columns(Column("Type", ".type"), Column("Data", "data_count", "integer")),
    ),
    _core(
        "ServiceAccount",
        "serviceaccounts",
        short_names=("sa",),
        returns_deleted=True,
        subresources=("token",),
    ),
    _core(
        "Event",
        "events",
        short_names=("ev",),
        upsert=True,
        columns=(
            Column("Last Seen", "event_age"),
            Column("Type", ".type"),
            Column("Reason", ".reason"),
            Column("Object", "event_object"),
            Column("Message", ".message"),
        ),
    ),
    _core("Endpoints", "endpoints", short_names=("ep",), upsert=True),
    _core(
        "ResourceQuota",
        "resourcequotas",
        short_names=("quota",),
        status=True,
        returns_deleted=True,
    ),
    _core("LimitRange", "limitranges", short_names=("limits",)),
    _core(
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        short_names=("pvc",),
        status=True,
        returns_deleted=True,
        columns=_columns(Column("Status", ".status.phase"), Column("Volume", ".spec.volumeName")),
    ),
    _core(
        "PersistentVolume",
        "persistentvolumes",
        short_names=("pv",),
        namespaced=False,
        status=True,
        returns_deleted=True,
    ),
)

_READY = Column("Ready", "workload_ready")
_WORKLOAD = (
    _READY,
    Column("Up-to-date", ".status.updatedReplicas", "integer"),
    Column("Available", ".status.availableReplicas", "integer"),
)


def _apps(kind: str, plural: str, short: str, columns: tuple[Column, ...]) -> Resource:
    scaled = ("scale",) if kind != "DaemonSet" else ()
    return Resource(
        group="apps",
        version="v1",
        kind=kind,
        plural=plural,
        short_names=(short,),
        categories=("all",),
        status=True,
        generation=True,
        subresources=scaled,
        columns=_columns(*columns),
    )


APPS = (
    _apps("Deployment", "deployments", "deploy", _WORKLOAD),
    _apps(
        "ReplicaSet",
        "replicasets",
        "rs",
        (
            Column("Desired", ".spec.replicas", "integer"),
            Column("Current", ".status.replicas", "integer"),
            Column("Ready", ".status.readyReplicas", "integer"),
        ),
    ),
    _apps("StatefulSet", "statefulsets", "sts", (_READY,)),
    _apps(
        "DaemonSet",
        "daemonsets",
        "ds",
        (
            Column("Desired", ".status.desiredNumberScheduled", "integer"),
            Column("Current", ".status.currentNumberScheduled", "integer"),
            Column("Ready", ".status.numberReady", "integer"),
        ),
    ),
)

_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"


def _plain(group: str, kind: str, plural: str, **more: object) -> Resource:
    return Resource(group=group, version="v1", kind=kind, plural=plural, **more)  # type: ignore[arg-type]


OTHERS = (
    _plain("batch", "Job", "jobs", categories=("all",), status=True, generation=True),
    _plain("batch", "CronJob", "cronjobs", short_names=("cj",), status=True, generation=True),
    _plain(
        "discovery.k8s.io",
        "EndpointSlice",
        "endpointslices",
        generation=True,
        columns=_columns(
            Column("AddressType", ".addressType"),
            Column("Ports", "slice_ports"),
            Column("Endpoints", "slice_endpoints"),
        ),
    ),
    _plain(
        "coordination.k8s.io",
        "Lease",
        "leases",
        upsert=True,
        unconditional=False,
        columns=_columns(Column("Holder", ".spec.holderIdentity")),
    ),
    _plain(
        "policy",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        short_names=("pdb",),
        status=True,
        generation=True,
        unconditional=False,
    ),
    _plain(_RBAC, "Role", "roles", names="segment", upsert=True),
    _plain(
        _RBAC,
        "RoleBinding",
        "rolebindings",
        names="segment",
        upsert=True,
        columns=_columns(Column("Role", "role_ref")),
    ),
    _plain(_RBAC, "ClusterRole", "clusterroles", names="segment", upsert=True, namespaced=False),
    _plain(
        _RBAC,
        "ClusterRoleBinding",
        "clusterrolebindings",
        names="segment",
        upsert=True,
        namespaced=False,
        columns=_columns(Column("Role", "role_ref")),
    ),
    _plain(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        short_names=("csr",),
        namespaced=False,
        status=True,
        subresources=("approval",),
        columns=_columns(
            Column("SignerName", ".spec.signerName"),
            Column("Requestor", ".spec.username"),
            Column("Condition", "request_condition"),
        ),
    ),
    _plain(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        short_names=("crd", "crds"),
        namespaced=False,
        status=True,
        generation=True,
        unconditional=False,
        columns=(NAME, Column("Created At", ".metadata.creationTimestamp")),
    ),
    _plain("node.k8s.io", "RuntimeClass", "runtimeclasses", namespaced=False, unconditional=False),
    _plain(
        _ADMISSION,
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        namespaced=False,
        generation=True,
        unconditional=False,
    ),
    _plain(
        _ADMISSION,
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        namespaced=False,
        generation=True,
        unconditional=False,
    ),
    _plain(
        _ADMISSION,
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        namespaced=False,
        status=True,
        generation=True,
        unconditional=False,
    ),
    _plain(
        _ADMISSION,
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        namespaced=False,
        generation=True,
        unconditional=False,
    ),
    _plain(
        "networking.k8s.io",
        "Ingress",
        "ingresses",
        short_names=("ing",),
        status=True,
        generation=True,
    ),
    _plain("networking.k8s.io", "IngressClass", "ingressclasses", namespaced=False),
    _plain(
        "networking.k8s.io",
        "NetworkPolicy",
        "networkpolicies",
        short_names=("netpol",),
        generation=True,
    ),
    _plain(
        "storage.k8s.io", "StorageClass", "storageclasses", short_names=("sc",), namespaced=False
    ),
    _plain(
        "scheduling.k8s.io",
        "PriorityClass",
        "priorityclasses",
        short_names=("pc",),
        namespaced=False,
        generation=True,
    ),
)


def _review(group: str, kind: str, plural: str, *, namespaced: bool = False) -> Resource:
    return Resource(
        group=group,
        version="v1",
        kind=kind,
        plural=plural,
        namespaced=namespaced,
        ephemeral=True,
    )


_AUTHZ, _AUTHN = "authorization.k8s.io", "authentication.k8s.io"
REVIEWS = (
    _review(_AUTHN, "TokenReview", "tokenreviews"),
    _review(_AUTHN, "SelfSubjectReview", "selfsubjectreviews"),
    _review(_AUTHZ, "SubjectAccessReview", "subjectaccessreviews"),
    _review(_AUTHZ, "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
    _review(_AUTHZ, "LocalSubjectAccessReview", "localsubjectaccessreviews", namespaced=True),
    _review(_AUTHZ, "SelfSubjectRulesReview", "selfsubjectrulesreviews"),
)

ALL = (*CORE, *APPS, *OTHERS, *REVIEWS)
_BY_KEY = {(each.group, each.plural): each for each in ALL}


def builtin(plural: str, group: str = "") -> Resource:
    """A built-in kind by its resource name."""
    return _BY_KEY[group, plural]


PODS = builtin("pods")
NAMESPACES = builtin("namespaces")
NODES = builtin("nodes")
SERVICES = builtin("services")
CONFIG_MAPS = builtin("configmaps")
SERVICE_ACCOUNTS = builtin("serviceaccounts")
SECRETS = builtin("secrets")
EVENTS = builtin("events")
DEPLOYMENTS = builtin("deployments", "apps")
REPLICA_SETS = builtin("replicasets", "apps")
DAEMON_SETS = builtin("daemonsets", "apps")
ENDPOINT_SLICES = builtin("endpointslices", "discovery.k8s.io")
LEASES = builtin("leases", "coordination.k8s.io")
CLAIMS = builtin("persistentvolumeclaims")
VOLUMES = builtin("persistentvolumes")
BUDGETS = builtin("poddisruptionbudgets", "policy")
SIGNING_REQUESTS = builtin("certificatesigningrequests", "certificates.k8s.io")
DEFINITIONS = builtin("customresourcedefinitions", "apiextensions.k8s.io")
ROLES = builtin("roles", _RBAC)
ROLE_BINDINGS = builtin("rolebindings", _RBAC)
CLUSTER_ROLES = builtin("clusterroles", _RBAC)
CLUSTER_ROLE_BINDINGS = builtin("clusterrolebindings", _RBAC)
MUTATING_WEBHOOKS = builtin("mutatingwebhookconfigurations", _ADMISSION)
RUNTIME_CLASSES = builtin("runtimeclasses", "node.k8s.io")
