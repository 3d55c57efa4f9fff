"""The rights that an installation grants: to the daemon, to consumers, and to peering users.

Every rule of the daemon has its reason beside it; the reasons go into an annotation of the role, so
that a reviewer of the cluster reads them there. The rights of a consumer and of a peering user are
Liqo's, rule by rule, because a Liqo peer relies on them. The daemon holds ``bind`` on exactly the
roles that it hands on, not ``escalate``.

A plugin brings the rights of its kind in ClusterRoles of its own, labelled
:data:`AGGREGATE_TO_DAEMON` for this cluster's daemon, :data:`AGGREGATE_TO_REMOTE` for consumers.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from liqod.apimachinery import labels
from liqod.install import departurerights, noderights
from liqod.install.daemonrights import (
    AUTHENTICATION,
    DAEMON_ROLES,
    HANDED_ON,
    IPAM,
    LEASES,
    NETWORKING,
    OFFLOADING,
    PEERING,
    READ,
    DaemonRule,
    Manifest,
)
from liqod.install.servicerights import SERVICES
from liqod.install.storagerights import REAL_CLAIMS, STORAGE
from liqod.model.objects.rbac import rule
from liqod.plugins import declared
from liqod.plugins.contracts import OptIn

CLUSTER_PROFILES: Final = "liqod-clusterprofiles"
"""ClusterRole of the discovery plugin ``clusterprofile``."""
GROUP: Final = "multicluster.x-k8s.io"
"""Of ClusterProfile (sigs.k8s.io/cluster-inventory-api)."""
CLUSTER_PROFILE_RULES: Final = (
    DaemonRule(
        "clusters are seen in an inventory; with `publish`, this cluster's own profile is kept",
        (GROUP,),
        ("clusterprofiles",),
        (*READ, "create", "patch"),
    ),
    DaemonRule("and says where this cluster is", (GROUP,), ("clusterprofiles/status",), ("patch",)),
)


RBAC: Final = "rbac.authorization.k8s.io/v1"
SERVICE_ACCOUNT: Final = "liqod"
"""The daemon's ServiceAccount, and the name of what binds it."""
AGGREGATE_TO_DAEMON: Final = "liqod.io/aggregate-to-daemon"
AGGREGATE_TO_REMOTE: Final = "liqod.io/aggregate-to-remote"
REASONS: Final = "liqod.io/reasons"
"""Annotation of the daemon's roles: one line for each rule, in their order."""
REMOTE_BASE_ROLE: Final = f"{labels.REMOTE_ROLE}-base"
REMOTE_STREAMS_ROLE: Final = f"{labels.REMOTE_ROLE}-streams"
"""The role by which consumers may also enter their pods here, by ``kubectl exec`` and the like."""
STORAGE_ROLE: Final = "liqod-storage"
SERVICES_ROLE: Final = "liqod-services"
COREDNS_ROLE: Final = "liqod-coredns"
"""Role by which CoreDNS reads ServiceImports, and its binding."""
PLUGINS_ROLE: Final = "liqod-plugins"
SUMS: Final = (PLUGINS_ROLE, labels.REMOTE_ROLE)
"""The roles whose rules the cluster sums up."""
PEERING_USER: Final = {labels.APP_COMPONENT: "peering-user"}
"""Labels of exactly one Role and one ClusterRole: ``liqoctl`` binds its peering users to these."""
HEARTBEAT_ROLE: Final = "liqod-heartbeat"
"""Role by which consumers see whether this cluster's daemon runs, and its binding."""
NODE_LEASES: Final = "kube-node-lease"
"""The namespace of node leases."""

_WHOLE: Final = ("create", "delete", "deletecollection", *READ, "patch", "update")


class DaemonRole(NamedTuple):
    """A role of a daemon: a Role where it has a namespace, else a ClusterRole."""

    name: str
    rules: tuple[DaemonRule, ...]
    namespace: str | None = None

    @property
    def kind(self) -> str:
        """``ClusterRole`` or ``Role``."""
        return "ClusterRole" if self.namespace is None else "Role"

    def manifest(self) -> Manifest:
        """The role, with the reasons of its rules in an annotation."""
        made = _role(self.kind, self.name, [one.manifest() for one in self.rules])
        made["metadata"]["annotations"] = {REASONS: reasons(self.rules)}
        if self.namespace is not None:
            made["metadata"]["namespace"] = self.namespace
        return made


def reasons(rules: Iterable[DaemonRule]) -> str:
    """The annotation :data:`REASONS` of a role with these rules."""
    return "\n".join(f"{number}. {one.reason}" for number, one in enumerate(rules, 1))


def daemon_roles(namespace: str) -> list[DaemonRole]:
    """The roles that the daemon has in every installation; its namespace is given."""
    renewed = LEASES[0]._replace(reason="virtual nodes renew their leases")
    return [
        *(DaemonRole(name, rules) for name, rules in DAEMON_ROLES.items()),
        DaemonRole(SERVICE_ACCOUNT, (*LEASES, *HANDED_ON), namespace),
        DaemonRole(SERVICE_ACCOUNT, (renewed,), NODE_LEASES),
    ]


def node_roles(namespace: str) -> list[DaemonRole]:
    """The roles of ``liqod node``."""
    return [
        DaemonRole(noderights.ACCOUNT, noderights.CLUSTER_RULES),
        DaemonRole(noderights.ACCOUNT, noderights.RULES, namespace),
    ]


def storage_roles() -> list[DaemonRole]:
    """The roles by which the daemon provisions the virtual StorageClass."""
    return [
        DaemonRole(STORAGE_ROLE, STORAGE),
        DaemonRole(STORAGE_ROLE, REAL_CLAIMS, labels.STORAGE_NAMESPACE),
    ]


def service_roles() -> list[DaemonRole]:
    """The roles by which the daemon shares Services with peers."""
    return [DaemonRole(SERVICES_ROLE, SERVICES)]


def departure_roles(namespace: str) -> list[DaemonRole]:
    """The roles of the Job that leaves all peers before Helm takes an installation away."""
    return [
        DaemonRole(departurerights.ACCOUNT, departurerights.CLUSTER_RULES),
        DaemonRole(departurerights.ACCOUNT, departurerights.RULES, namespace),
    ]


CLUSTER_PROFILES_ROLE: Final = DaemonRole(CLUSTER_PROFILES, CLUSTER_PROFILE_RULES)
"""The role of the discovery plugin ``clusterprofile``."""


def cluster_roles(*, services: bool = False) -> list[Manifest]:
    """Every ClusterRole of an installation.

    Args:
        services: whether consumers may share Services with this cluster.
    """
    own, nodes = _manifests("ClusterRole", labels.LIQO_NAMESPACE)
    made = [*own, _aggregate(PLUGINS_ROLE, AGGREGATE_TO_DAEMON), *nodes]
    base = _role("ClusterRole", REMOTE_BASE_ROLE, _remote_rules())
    streams = _role("ClusterRole", REMOTE_STREAMS_ROLE, _stream_rules())
    for each in (base, streams):
        each["metadata"]["labels"] = {AGGREGATE_TO_REMOTE: labels.TRUE}
    made += [
        _role("ClusterRole", labels.CONTROL_PLANE_ROLE, _control_plane_rules(services=services)),
        base,
        streams,
        _aggregate(labels.REMOTE_ROLE, AGGREGATE_TO_REMOTE),
        _role("ClusterRole", labels.CLUSTER_WIDE_ROLE, _cluster_wide_rules()),
        *(_role("ClusterRole", each.role, _written_rules(each)) for each, _ in declared.opt_ins()),
        _role("ClusterRole", labels.PEERING_USER_ROLE, peering_user_rules()),
    ]
    made[-1]["metadata"]["labels"] = dict(PEERING_USER)
    return [
        *made,
        _role("ClusterRole", labels.PEERING_USER_WRITER_ROLE, _writing_user_rules()),
        _role("ClusterRole", labels.PEERING_USER_ACCEPTED_ROLE, _accepted_user_rules()),
        _role("ClusterRole", labels.PEERING_USER_LIQOCTL_ROLE, _liqoctl_user_rules()),
    ]


def cluster_profiles_role() -> Manifest:
    """:data:`CLUSTER_PROFILES_ROLE`, aggregated into the role of plugins."""
    made = CLUSTER_PROFILES_ROLE.manifest()
    made["metadata"]["labels"] = {AGGREGATE_TO_DAEMON: labels.TRUE}
    return made


def roles(namespace: str) -> list[Manifest]:
    """Every namespaced Role: the daemon's for its leases, the peering users' in ``namespace``."""
    own, nodes = _manifests("Role", namespace)
    user = _role("Role", labels.PEERING_USER_LIQO_ROLE, _peering_user_liqo_rules())
    user["metadata"].update(namespace=namespace, labels=dict(PEERING_USER))
    seen = _role("Role", HEARTBEAT_ROLE, [_heartbeat_rule()])
    seen["metadata"]["namespace"] = namespace
    return [*own, *nodes, user, seen]


def storage(namespace: str) -> list[Manifest]:
    """Roles to provision the virtual StorageClass, bound to the daemon of that namespace."""
    subject = {"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": namespace}
    bound = binding("RoleBinding", STORAGE_ROLE, "Role", subject)
    bound["metadata"]["namespace"] = labels.STORAGE_NAMESPACE
    return [
        *(role.manifest() for role in storage_roles()),
        binding("ClusterRoleBinding", STORAGE_ROLE, "ClusterRole", subject),
        bound,
    ]


def services(namespace: str) -> list[Manifest]:
    """Roles to share Services with peers, bound to the daemon of that namespace."""
    subject = {"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": namespace}
    return [
        *(role.manifest() for role in service_roles()),
        binding("ClusterRoleBinding", SERVICES_ROLE, "ClusterRole", subject),
    ]


def coredns(account: str) -> list[Manifest]:
    """The role by which CoreDNS reads ServiceImports, bound to its account in ``kube-system``."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": "kube-system"}
    return [
        _role("ClusterRole", COREDNS_ROLE, [rule((GROUP,), ("serviceimports",), READ[1:])]),
        binding("ClusterRoleBinding", COREDNS_ROLE, "ClusterRole", subject),
    ]


def departure(namespace: str) -> list[Manifest]:
    """Roles to leave all peers, bound to the Job's ServiceAccount in ``namespace``."""
    name = departurerights.ACCOUNT
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    bound = binding("RoleBinding", name, "Role", subject)
    bound["metadata"]["namespace"] = namespace
    return [
        *(role.manifest() for role in departure_roles(namespace)),
        binding("ClusterRoleBinding", name, "ClusterRole", subject),
        bound,
    ]


def bindings(namespace: str, *nodes: str) -> list[Manifest]:
    """Bindings of ServiceAccounts to their roles, and of consumers to that of the heartbeat.

    Args:
        namespace: liqod's own, which has the ServiceAccounts of the daemon and of ``liqod node``.
        nodes: other namespaces with one of ``liqod node``.
    """
    subject = {"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": namespace}
    made = [
        binding("ClusterRoleBinding", name, "ClusterRole", subject)
        for name in (*DAEMON_ROLES, PLUGINS_ROLE)
    ]
    for where in (namespace, NODE_LEASES):
        bound = binding("RoleBinding", SERVICE_ACCOUNT, "Role", subject)
        bound["metadata"]["namespace"] = where
        made.append(bound)
    own, *others = (
        {**subject, "name": noderights.ACCOUNT, "namespace": each} for each in (namespace, *nodes)
    )
    made.append(binding("ClusterRoleBinding", noderights.ACCOUNT, "ClusterRole", own, *others))
    of_node = binding("RoleBinding", noderights.ACCOUNT, "Role", own, *others)
    of_node["metadata"]["namespace"] = namespace
    made.append(of_node)
    # Every consumer's control plane, whoever it is: the certificates that liqod signs say so.
    consumers = {
        "apiGroup": RBAC.split("/")[0],
        "kind": "Group",
        "name": labels.CONTROL_PLANE_GROUP,
    }
    seen = binding("RoleBinding", HEARTBEAT_ROLE, "Role", consumers)
    seen["metadata"]["namespace"] = namespace
    return [*made, seen]


def _remote_rules() -> list[Manifest]:
    """The rules of a consumer in a mapped namespace.

    Complete even for kinds that are not reflected: a Liqo virtual kubelet starts a namespace only
    when all its informers have synced. Of Events it reads those of its pods, and no more; the other
    verbs that Liqo grants would let a consumer forge and delete them. To refuse it by an admission
    policy would cost the API server something for each Event that anybody writes.
    """
    seen = [
        rule(("",), ("events",), READ),
        rule(("",), ("pods/log",), ("get", "list")),
        rule(("", "metrics.k8s.io"), ("pods",), READ),
    ]
    return sorted([*_written_rules(), *seen], key=lambda one: (one["apiGroups"], one["resources"]))


def _stream_rules() -> list[Manifest]:
    """How it reaches into its pods: ``create``, and ``get`` for those who ask by WebSocket."""
    return [rule(("",), ("pods/attach", "pods/exec", "pods/portforward"), ("create", "get"))]


def _written_rules(opt_in: OptIn | None = None) -> list[Manifest]:
    """On the kinds that built-in reflectors write: always, or where a provider has consented."""
    found = declared.granted(opt_in)
    return [rule((group,), tuple(plurals), declared.ALL) for group, plurals in found.items()]


def _control_plane_rules(*, services: bool) -> list[Manifest]:
    """The rules of a consumer's control plane in its tenant namespace."""
    exchanged = ("serviceexchanges", "serviceexchanges/status")
    return [
        rule(
            (AUTHENTICATION,),
            ("renews", "renews/status", "resourceslices", "resourceslices/status"),
            _WHOLE,
        ),
        rule((OFFLOADING,), ("namespacemaps", "namespacemaps/status"), _WHOLE),
        *([rule((PEERING,), exchanged, _WHOLE)] if services else []),
    ]


def _heartbeat_rule() -> Manifest:
    """One Lease, by its name: who leads here, and when that was last renewed."""
    return {
        **rule(("coordination.k8s.io",), ("leases",), ("get",)),
        "resourceNames": [labels.LEADER_LEASE],
    }


def _cluster_wide_rules() -> list[Manifest]:
    return [rule(("metrics.liqo.io",), ("scrape/metrics",), READ)]


def peering_user_rules() -> list[Manifest]:
    """A peering user in its tenant namespace: no watch, no patch."""
    kept = ("create", "delete", "get", "list", "update")
    return [
        rule(("",), ("namespaces", "services"), ("get",)),
        rule(("",), ("secrets",), ("create", "delete", "get", "list")),
        rule(("apps",), ("deployments",), ("get",)),
        rule((AUTHENTICATION,), ("tenants",), kept),
        rule((IPAM,), ("ips",), ("create", "delete", "get", "update")),
        rule(
            (NETWORKING,),
            ("configurations", "gatewayclients", "gatewayservers", "publickeies"),
            kept,
        ),
        rule((NETWORKING,), ("connections",), ("get", "list")),
        rule((NETWORKING,), ("gatewayclients/status", "gatewayservers/status"), ("get",)),
    ]


def _writing_user_rules() -> list[Manifest]:
    """A peering user that works with ``liqod``.

    Liqo's rules, but of Secrets only the nonce: where both clusters borrow from each other, the
    namespace holds this cluster's kubeconfigs for the peer. The one with the public key of its
    tunnel it is given beside this. Events tell it why a Tenant is refused.
    """
    made = [one for one in peering_user_rules() if "secrets" not in one["resources"]]
    made.append(rule(("",), ("secrets",), ("create",)))
    made.append(rule(("",), ("secrets",), ("delete", "get"), (labels.NONCE_SECRET,)))
    return [*made, rule(("",), ("events",), ("get", "list"))]


def _accepted_user_rules() -> list[Manifest]:
    """The rules of a peering user whose consumer was accepted: it reads, and deletes what it made.

    With the right to write it could still set another key for that consumer.
    """
    made = []
    for one in peering_user_rules():
        verbs = tuple(verb for verb in one["verbs"] if verb not in ("create", "update"))
        groups, resources = tuple(one["apiGroups"]), tuple(one["resources"])
        names = (labels.NONCE_SECRET,) if resources == ("secrets",) else ()
        wanted = tuple(verb for verb in verbs if not names or verb != "list")
        made.append(rule(groups, resources, wanted, names))
    return [*made, rule(("",), ("events",), ("get", "list"))]


def _liqoctl_user_rules() -> list[Manifest]:
    """Beside that, where ``liqoctl peer`` is called again: it lists Secrets to find the nonce, and
    writes the Tenant as it wrote it first, without the fields that the API server has filled in.
    """
    return [
        rule(("",), ("secrets",), ("list",)),
        rule((AUTHENTICATION,), ("tenants",), ("update",)),
    ]


def _peering_user_liqo_rules() -> list[Manifest]:
    return [
        rule(("",), ("configmaps",), READ),
        rule((IPAM,), ("ips",), ("get",)),
        rule((IPAM,), ("networks",), ("get", "list")),
        rule(
            (NETWORKING,),
            ("wggatewayclienttemplates", "wggatewayservertemplates"),
            ("get", "list"),
        ),
    ]


def _role(kind: str, name: str, rules: list[Manifest]) -> Manifest:
    return {"apiVersion": RBAC, "kind": kind, "metadata": {"name": name}, "rules": rules}


def _manifests(kind: str, namespace: str) -> tuple[list[Manifest], list[Manifest]]:
    """The roles of one kind, of the daemon and of ``liqod node``."""
    own, nodes = (
        [role.manifest() for role in found if role.kind == kind]
        for found in (daemon_roles(namespace), node_roles(namespace))
    )
    return own, nodes


def _aggregate(name: str, key: str) -> Manifest:
    """A role whose rules the cluster sums up, and so are not ours to write."""
    return {
        "apiVersion": RBAC,
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {key: labels.TRUE}}]},
    }


def binding(kind: str, name: str, role_kind: str, *subjects: Manifest) -> Manifest:
    """A binding of a role to those who get it, both of one name."""
    return {
        "apiVersion": RBAC,
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC.split("/")[0], "kind": role_kind, "name": name},
        "subjects": list(subjects),
    }
