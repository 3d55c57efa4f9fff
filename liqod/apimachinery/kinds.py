"""The kinds of Kubernetes that liqod speaks of, and the URL path of each.

Paths are those of the Kubernetes API conventions: ``/api/v1/…`` for the core group,
``/apis/GROUP/VERSION/…`` for the others. The project's own kinds are in :mod:`liqod.resources`.
"""

from urllib.parse import quote

import msgspec


class Kind(msgspec.Struct, frozen=True, order=True):
    """One kind at one API version.

    Attributes:
        group: API group, ``""`` for the core group.
        version: API version, such as ``v1``.
        name: the kind as manifests write it, such as ``Pod``.
        plural: the resource in URLs, such as ``pods``.
        namespaced: whether its objects live in namespaces.
        versioned: whether its lists have a version; what has none can be asked for, not followed.
    """

    group: str
    version: str
    name: str
    plural: str
    namespaced: bool = True
    versioned: bool = True

    @property
    def api_version(self) -> str:
        """The value of a manifest's ``apiVersion``: ``v1`` or ``apps/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str = ""
    ) -> str:
        """The URL path of the collection, an object, or an object's sub-resource.

        ``namespace=None`` of a namespaced kind is the collection over all namespaces.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name is not None:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


PODS = Kind("", "v1", "Pod", "pods")
SERVICES = Kind("", "v1", "Service", "services")
CONFIG_MAPS = Kind("", "v1", "ConfigMap", "configmaps")
SECRETS = Kind("", "v1", "Secret", "secrets")
CLAIMS = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
VOLUMES = Kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
STORAGE_CLASSES = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
EVENTS = Kind("", "v1", "Event", "events")
SERVICE_ACCOUNTS = Kind("", "v1", "ServiceAccount", "serviceaccounts")
RESOURCE_QUOTAS = Kind("", "v1", "ResourceQuota", "resourcequotas")
NODES = Kind("", "v1", "Node", "nodes", namespaced=False)
NAMESPACES = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
DEPLOYMENTS = Kind("apps", "v1", "Deployment", "deployments")
STATEFUL_SETS = Kind("apps", "v1", "StatefulSet", "statefulsets")
REPLICA_SETS = Kind("apps", "v1", "ReplicaSet", "replicasets")
DAEMON_SETS = Kind("apps", "v1", "DaemonSet", "daemonsets")
POD_DISRUPTION_BUDGETS = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
ENDPOINT_SLICES = Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
LEASES = Kind("coordination.k8s.io", "v1", "Lease", "leases")
ROLES = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDINGS = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLES = Kind(
    "rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False
)
CLUSTER_ROLE_BINDINGS = Kind(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)
SIGNING_REQUESTS = Kind(
    "certificates.k8s.io",
    "v1",
    "CertificateSigningRequest",
    "certificatesigningrequests",
    namespaced=False,
)
CUSTOM_RESOURCES = Kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
)
INGRESSES = Kind("networking.k8s.io", "v1", "Ingress", "ingresses")
INGRESS_CLASSES = Kind(
    "networking.k8s.io", "v1", "IngressClass", "ingressclasses", namespaced=False
)
RUNTIME_CLASSES = Kind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", namespaced=False)
MUTATING_WEBHOOKS = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    namespaced=False,
)
ADMISSION_POLICIES = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    namespaced=False,
)
ADMISSION_POLICY_BINDINGS = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    namespaced=False,
)
TOKEN_REVIEWS = Kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)
ACCESS_REVIEWS = Kind(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False
)
OWN_ACCESS_REVIEWS = Kind(
    "authorization.k8s.io",
    "v1",
    "SelfSubjectAccessReview",
    "selfsubjectaccessreviews",
    namespaced=False,
)
