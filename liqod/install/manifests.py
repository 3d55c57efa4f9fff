"""The objects of an installation, as plain manifests in the order in which they are applied.

Pure: the verbs (:mod:`liqod.install.verbs`) apply what is here, ``--dry-run -o yaml`` prints it.
Names and labels by which ``liqoctl`` finds a cluster's id and version are Liqo's.
"""

from typing import Any, Final, Literal

import msgspec
import yaml

from liqod import __version__
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    ADMISSION_POLICIES,
    ADMISSION_POLICY_BINDINGS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCES,
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    ROLE_BINDINGS,
    ROLES,
    RUNTIME_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STORAGE_CLASSES,
    Kind,
)
from liqod.errors import ConfigError
from liqod.install import (
    daemonpolicies,
    dnsserver,
    gateway,
    gatewaytemplates,
    homepolicies,
    noderights,
    rights,
    workload,
)
from liqod.model import ids
from liqod.provider.policies import admission
from liqod.resources import about, exchanges, multicluster
from liqod.resources.crdmanifests import make_crd

Manifest = dict[str, Any]
Level = Literal["privileged", "restricted"]
"""Pod Security levels of an installation's namespaces: a folder of the node takes the former."""

INSTALLER: Final = "liqod"
"""Value of ``app.kubernetes.io/managed-by`` on everything that an installation makes."""
MANAGED: Final = {
    labels.APP_MANAGED_BY: INSTALLER,
    labels.APP_PART_OF: labels.APP_LIQO,
    labels.MANAGED_BY_LIQOD: labels.TRUE,
}
"""Labels of everything that an installation makes: what ``uninstall`` and an upgrade go by."""
HELM: Final = "Helm"
"""Value of ``app.kubernetes.io/managed-by`` on everything that Helm makes, of whatever chart."""
OF_LIQOD: Final = f"{labels.MANAGED_BY_LIQOD}={labels.TRUE}"
"""Selects what an installation makes, by whatever means."""
OF_LIQO: Final = (
    f"{labels.APP_PART_OF}={labels.APP_LIQO},{labels.APP_MANAGED_BY}!={INSTALLER},"
    f"{labels.MANAGED_BY_LIQOD}!={labels.TRUE}"
)
"""Selects the objects that Liqo's own chart has made, and not those of liqod's."""
PRUNED: Final[tuple[tuple[Kind, bool], ...]] = (
    (ADMISSION_POLICY_BINDINGS, False),
    (ADMISSION_POLICIES, False),
    (CLUSTER_ROLE_BINDINGS, False),
    (CLUSTER_ROLES, False),
    (ROLE_BINDINGS, True),
    (ROLES, True),
    (DEPLOYMENTS, True),
    (DAEMON_SETS, True),
)
"""Kinds of which an upgrade takes away what it no longer has, and whether they have namespaces."""
SELECTOR: Final = ",".join(f"{key}={value}" for key, value in MANAGED.items())
VERSION_ANNOTATION: Final = "liqod.io/version"
"""Annotation: the liqod that wrote the object last."""

SHARED_KINDS: Final = (*multicluster.DEFINITIONS, exchanges.DEFINITION)
"""Kinds of installations that share Services; those of the API may be another program's."""
KINDS: Final[dict[str, Kind]] = {
    kind.name: kind
    for kind in (
        NAMESPACES,
        CUSTOM_RESOURCES,
        CONFIG_MAPS,
        SERVICE_ACCOUNTS,
        CLUSTER_ROLES,
        CLUSTER_ROLE_BINDINGS,
        ROLES,
        ROLE_BINDINGS,
        RUNTIME_CLASSES,
        STORAGE_CLASSES,
        ADMISSION_POLICIES,
        ADMISSION_POLICY_BINDINGS,
        SECRETS,
        DEPLOYMENTS,
        DAEMON_SETS,
        POD_DISRUPTION_BUDGETS,
        SERVICES,
        about.CLUSTER_PROPERTIES,
        *gatewaytemplates.KINDS,
    )
}
"""The kinds of an installation's manifests, by their name."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's options of an installation.

    Attributes:
        cluster_id: this cluster's id; empty keeps the one that the cluster has.
        namespace: where liqod keeps what is the whole cluster's.
        in_cluster: whether the daemon runs as a Deployment of this cluster.
        image: its container image, used in the cluster only.
        node_image: that of ``liqod node`` there; empty for one of the same name, whose tag ends in
            ``-node``.
        architectures: of the nodes that both images are for; empty for those that liqod's are for.
        network: whether that one can join the networks of peers, which takes rights on its node.
        replicas: how many, of which one works.
        server: URL of the API server as peers reach it; told to ``liqoctl``, and to the daemon in
            the cluster, which would not know it.
        ca: PEM of that server's authority, for that daemon.
        cluster_profiles: whether the daemon may work with ClusterProfiles.
        storage: whether it provisions volumes of the virtual StorageClass.
        services: whether it shares Services with peers (Multi-Cluster Services API).
        services_dns: whether CoreDNS serves their names; None keeps that as it is.
        dns_server: whether a DNS server of its own serves them; None keeps that as it is.
        dns_image: that one's, of CoreDNS; empty for the one that the cluster has.
        dns_account: the ServiceAccount of CoreDNS, where it gets the rights for that.
        clusterset: the id of the set that the cluster is in, to be its property with the
            cluster's id; empty keeps what there is.
        plugins: what is granted for reflectors of packages (:mod:`liqod.install.plugingrants`).
        kubeconfig: whether a kubeconfig for a daemon outside is made with it.
        clock: whether a clock that differs from the API server's is a reason to refuse.
        nodes_in_pods: whether pods of ``liqod node`` are there, with the daemon's, from before.
    """

    cluster_id: str = ""
    namespace: str = labels.LIQO_NAMESPACE
    in_cluster: bool = False
    image: str = workload.IMAGE
    node_image: str = ""
    architectures: tuple[str, ...] = ()
    network: bool = True
    replicas: int = 1
    server: str = ""
    ca: str = ""
    cluster_profiles: bool = False
    storage: bool = False
    services: bool = False
    services_dns: bool | None = None
    dns_server: bool | None = None
    dns_image: str = ""
    dns_account: str = ""
    clusterset: str = ""
    plugins: tuple[Manifest, ...] = ()
    kubeconfig: bool = False
    clock: bool = True
    nodes_in_pods: bool = False

    @property
    def nodes_namespace(self) -> str:
        """The namespace of the pods of ``liqod node``; empty where there are none."""
        joins = self.network and (self.in_cluster or self.nodes_in_pods)
        return ids.nodes_namespace(self.namespace) if joins else ""


def manifests(options: Options, crds: list[Manifest]) -> list[Manifest]:
    """Everything, in order of application; ``options.cluster_id`` must be given.

    Args:
        options: the operator's choice.
        crds: the CRDs of this version (:func:`liqod.resources.crdmanifests.crd_manifests`).

    Raises:
        ConfigError: the cluster id is no DNS label, or the name of the namespace is too long.
    """
    if not options.cluster_id:
        raise ConfigError("this cluster has no id yet: choose one with --cluster-id")
    apart = options.nodes_namespace
    if len(apart) > ids.LABEL_LIMIT:
        raise ConfigError(
            f"liqod node's namespace would be {apart}, which is longer than {ids.LABEL_LIMIT} "
            "characters: choose a shorter --liqo-namespace"
        )
    nodes = (apart,) if apart else ()
    level: Level | None = ("privileged" if apart else "restricted") if options.in_cluster else None
    made = [
        namespace(options.namespace, level),
        *(namespace(each, "privileged") for each in nodes),
        *crds,
        *(map(make_crd, SHARED_KINDS) if options.services else ()),
        *([make_crd(about.DEFINITION)] if options.clusterset else ()),
        cluster_id(options),
        service_account(options.namespace),
        *(service_account(each, noderights.ACCOUNT) for each in (options.namespace, *nodes)),
        *rights.cluster_roles(services=options.services),
        *([rights.cluster_profiles_role()] if options.cluster_profiles else []),
        *rights.roles(options.namespace),
        *rights.bindings(options.namespace, *nodes),
        runtime_class(),
        *daemonpolicies.policies(options.namespace, services=options.services),
        *admission.policies(),
        *noderights.policies(options.namespace, *nodes),
        *(gateway.own_pods(options.namespace) if nodes else ()),
        *homepolicies.policies(options.namespace),
        *gatewaytemplates.templates(options.namespace),
    ]
    if options.storage:
        made += [
            namespace(labels.STORAGE_NAMESPACE),
            storage_class(),
            *rights.storage(options.namespace),
        ]
    if options.services:
        made += rights.services(options.namespace)
    if options.dns_server:
        made += dnsserver.manifests(options.namespace, options.dns_image or dnsserver.IMAGE)
    if options.dns_account:
        made += rights.coredns(options.dns_account)
    if options.clusterset:
        made += properties(options.cluster_id, options.clusterset)
    made += options.plugins
    if not options.in_cluster:
        made.append(workload.stand_in(options.namespace, options.server))
    marked = [_marked(manifest) for manifest in made]
    return [*marked, *daemon_manifests(options)] if options.in_cluster else marked


def printable(options: Options, crds: list[Manifest]) -> list[Manifest]:
    """Manifests that kubectl applies at once: :func:`manifests` but objects of kinds they define.

    Those are the gateways' templates, which nothing but Liqo's own tools looks for, and
    ClusterProperties.
    """
    defined = {kind.name for kind in (*gatewaytemplates.KINDS, about.CLUSTER_PROPERTIES)}
    return [each for each in manifests(options, crds) if each["kind"] not in defined]


def added_in_cluster(options: Options) -> list[Manifest]:
    """The manifests by which an installation whose daemon is a workload differs from another.

    Those are the workload, and, where it joins networks, the namespace of ``liqod node`` with what
    its account takes. An id of the cluster is not needed.
    """
    known = msgspec.structs.replace(options, cluster_id="unnamed", in_cluster=True)
    others = manifests(msgspec.structs.replace(known, in_cluster=False), [])
    return [each for each in manifests(known, []) if each not in others]


def daemon_manifests(options: Options) -> list[Manifest]:
    """The daemon as a workload of the cluster, with its configuration and what is beside it."""
    made = workload.workload(
        options.namespace,
        options.image,
        options.replicas,
        rights.SERVICE_ACCOUNT,
        nodes_image=nodes_image(options) if options.network else "",
        architectures=options.architectures or workload.ARCHITECTURES,
        server=options.server,
        ca=options.ca,
        storage=options.storage,
        services=options.services,
    )
    return [_marked(manifest) for manifest in made]


def nodes_image(options: Options) -> str:
    """The image of ``liqod node``.

    Raises:
        ConfigError: none is named, and that of the daemon is named by its digest.
    """
    if options.node_image:
        return options.node_image
    if "@" in options.image:
        raise ConfigError(
            f"the image {options.image} is named by its digest: name that of liqod node, too, with "
            "--node-image"
        )
    # Container engines read a name without a tag so.
    tag = "" if ":" in options.image.rpartition("/")[2] else ":latest"
    return f"{options.image}{tag}{workload.OF_NODES}"


def render(made: list[Manifest]) -> str:
    """The manifests as one YAML stream."""
    return "".join(f"---\n{yaml.safe_dump(one, sort_keys=False, width=100)}" for one in made)


def namespace(name: str, level: Level | None = None) -> Manifest:
    """A namespace of an installation.

    Args:
        name: of it.
        level: of Pod Security; the cluster's own default, if none is given.
    """
    metadata: Manifest = {"name": name}
    if level is not None:
        modes = ("enforce", "warn")
        metadata["labels"] = {f"{labels.POD_SECURITY_PREFIX}{mode}": level for mode in modes}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def cluster_id(options: Options) -> Manifest:
    """The ConfigMap that says which cluster this is; ``liqoctl`` finds it by its label."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": labels.CLUSTER_ID_CONFIG_MAP,
            "namespace": options.namespace,
            "labels": {labels.APP_NAME: labels.CLUSTER_ID_NAME_LABEL},
        },
        "data": {labels.CLUSTER_ID_FIELD: ids.check_cluster_id(options.cluster_id)},
    }


def properties(cluster: str, clusterset: str) -> list[Manifest]:
    """The ClusterProperties that say which cluster this is, and of which set."""
    kind = about.CLUSTER_PROPERTIES
    return [
        {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": {"name": name},
            "spec": {"value": value},
        }
        for name, value in ((about.CLUSTER, cluster), (about.CLUSTER_SET, clusterset))
    ]


def service_account(namespace: str, name: str = rights.SERVICE_ACCOUNT) -> Manifest:
    """The ServiceAccount of the daemon, or of the nodes' own daemons."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace},
    }


def runtime_class() -> Manifest:
    """RuntimeClass ``liqo``: a pod that names it goes to virtual nodes only."""
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": labels.RUNTIME_CLASS},
        "handler": labels.RUNTIME_CLASS,
        "scheduling": {
            "nodeSelector": {labels.TYPE: labels.VIRTUAL_NODE_TYPE},
            "tolerations": [
                {
                    "key": labels.VIRTUAL_NODE_TAINT,
                    "operator": "Exists",
                    "effect": "NoExecute",
                }
            ],
        },
    }


def storage_class() -> Manifest:
    """StorageClass ``liqo``: the volume is where the first pod lands (Liqo's chart has it)."""
    return {
        "apiVersion": STORAGE_CLASSES.api_version,
        "kind": STORAGE_CLASSES.name,
        "metadata": {"name": labels.STORAGE_CLASS},
        "provisioner": labels.STORAGE_PROVISIONER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
        "allowVolumeExpansion": True,
    }


def _marked(manifest: Manifest) -> Manifest:
    """The manifest with the labels and the version of the installation; its own labels win."""
    metadata = dict(manifest["metadata"])
    metadata["labels"] = {**MANAGED, **metadata.get("labels", {})}
    metadata["annotations"] = {
        VERSION_ANNOTATION: __version__,
        **metadata.get("annotations", {}),
    }
    return {**manifest, "metadata": metadata}
