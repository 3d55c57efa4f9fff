"""The objects of a DNS server for the names of the set, the image of its pods, and their start.

It is a CoreDNS of liqod's own, for clusters whose DNS server others keep: those forward the zone to
it. It refuses every other name, so a mistake in it ends no name of the cluster.
"""

from collections.abc import Mapping
from typing import Any, Final

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from liqod.apimachinery.meta import Partial
from liqod.errors import ConfigError, Forbidden
from liqod.install import rollout, workload
from liqod.install.daemonrights import DaemonRule
from liqod.install.gateway import Manifest
from liqod.install.rights import DaemonRole
from liqod.install.rights import binding as bind
from liqod.kube.client import Client
from liqod.model.clusterset import corefile
from liqod.model.clusterset.corefile import LEAST, OPTION, ZONE
from liqod.procedures import clusterdns
from liqod.procedures.askingnames import RESPONDER
from liqod.runtime.polling import poll_until
from liqod.runtime.progress import Progress, Step

NAME: Final = RESPONDER
"""The name of all of its objects."""
IMAGE: Final = "registry.k8s.io/coredns/coredns:v1.13.1"
"""The image where the cluster's own CoreDNS is none, or is too old."""
FOLDER: Final = "/etc/coredns"
PORT: Final = 1053
HEALTH: Final = 8080
READY: Final = 8181
KINDS: Final = (
    *(DEPLOYMENTS, SERVICES, POD_DISRUPTION_BUDGETS, CONFIG_MAPS),
    *(CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, SERVICE_ACCOUNTS),
)
"""The kinds of its objects, in the order in which they are taken away."""
USER: Final = 65532
"""The user of CoreDNS's image, which names it by a word that no kubelet can judge."""
COMES_WITHIN: Final = 90.0
"""Seconds that its pods may take to be ready."""
RULES: Final = (
    DaemonRule(
        "imports, by their names",
        ("multicluster.x-k8s.io",),
        ("serviceimports",),
        ("list", "watch"),
    ),
    DaemonRule(
        "their endpoints, for those without an address of their own",
        ("discovery.k8s.io",),
        ("endpointslices",),
        ("list", "watch"),
    ),
    DaemonRule(
        "CoreDNS answers for no name before it has read these",
        ("",),
        ("services", "namespaces"),
        ("list", "watch"),
    ),
)
ROLE: Final = DaemonRole(NAME, RULES)
"""The ClusterRole of its ServiceAccount."""


def check_image(image: str) -> None:
    """Make sure that an image is not known to be too old.

    Raises:
        ConfigError: it is.
    """
    version = corefile.version_of(image)
    if version and version < LEAST:
        least = ".".join(map(str, LEAST))
        raise ConfigError(f"{image} has no option `{OPTION}`: name CoreDNS {least} or newer")


async def image_for(client: Client, namespace: str) -> str:
    """The image that it has already, else the cluster's own CoreDNS's, else :data:`IMAGE`."""
    live = await client.find(DEPLOYMENTS, NAME, namespace)
    if live is not None and _is_ours(live["metadata"].get("labels")):
        return str(live["spec"]["template"]["spec"]["containers"][0]["image"])
    try:
        found = await clusterdns.find(client)
    except Forbidden:
        return IMAGE
    return found.image if found is not None and found.version >= LEAST else IMAGE


async def is_there(client: Client, namespace: str) -> bool:
    """True if an installation has made it: an upgrade keeps it."""
    found = await client.find(DEPLOYMENTS, NAME, namespace, decode=Partial)
    return found is not None and _is_ours(found.metadata.labels)


def _is_ours(marks: Mapping[str, str] | None) -> bool:
    return labels.MANAGED_BY_LIQOD in (marks or {})


async def wait(client: Client, namespace: str, progress: Progress) -> None:
    """Wait until its pods are ready.

    Raises:
        ConfigError: they are not in time.
    """
    step = "waiting for the DNS server of the names of the set"
    progress(step)
    why = ""

    async def ready() -> bool:
        nonlocal why
        live = await client.get(DEPLOYMENTS, NAME, namespace)
        if rollout.is_rolled_out(live):
            return True
        why = await rollout.why_not_rolled_out(client, live)
        progress(Step(step, why))
        return False

    await poll_until(
        ready,
        longest_pause=rollout.POLL,
        within=COMES_WITHIN,
        failing=lambda: ConfigError(
            "the pods of the DNS server of the names of the set do not come up ("
            + (why or f"`kubectl -n {namespace} get pods -l {labels.APP_NAME}={NAME}` shows them")
            + "); run it again, or take it back by --no-dns-server"
        ),
    )


async def take_away(client: Client, namespace: str) -> None:
    """Delete what an installation has made of it; nothing of others."""
    for kind in KINDS:
        place = namespace if kind.namespaced else None
        found = await client.find(kind, NAME, place, decode=Partial)
        if found is not None and _is_ours(found.metadata.labels):
            await client.delete(kind, NAME, place, uid=found.metadata.uid)


def manifests(namespace: str, image: str) -> list[Manifest]:
    """All of its objects, in order of application.

    Args:
        namespace: liqod's own.
        image: of CoreDNS.
    """
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": namespace}
    metadata = {"name": NAME, "namespace": namespace, "labels": _marks()}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        ROLE.manifest(),
        bind("ClusterRoleBinding", NAME, "ClusterRole", subject),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {clusterdns.COREFILE: COREFILE},
        },
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": _spec(image)},
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata,
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": _marks()}},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {
                "selector": _marks(),
                "ports": [
                    {
                        "name": f"dns-{each}",
                        "port": 53,
                        "targetPort": PORT,
                        "protocol": each.upper(),
                    }
                    for each in ("udp", "tcp")
                ],
            },
        },
    ]


COREFILE: Final = f"""\
{ZONE}:{PORT} {{
    errors
    health :{HEALTH}
    ready :{READY}
    kubernetes {ZONE} {{
        {OPTION} {ZONE}
    }}
    cache 5
    reload
}}
"""


def _marks() -> dict[str, str]:
    return {labels.APP_NAME: NAME}


def _spec(image: str) -> Manifest:
    return {
        "replicas": 2,
        "strategy": {"rollingUpdate": {"maxUnavailable": 1}},
        "selector": {"matchLabels": _marks()},
        "template": {
            "metadata": {"labels": {**_marks(), labels.APP_PART_OF: labels.APP_LIQO}},
            "spec": {
                "serviceAccountName": NAME,
                "enableServiceLinks": False,
                "priorityClassName": "system-cluster-critical",
                # The names that it answers are this cluster's: it asks nobody.
                "dnsPolicy": "Default",
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": USER,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "affinity": workload.off_virtual_nodes(),
                "topologySpreadConstraints": [_spread()],
                "containers": [_container(image)],
                "volumes": [{"name": "config", "configMap": {"name": NAME}}],
            },
        },
    }


def _spread() -> Manifest:
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": _marks()},
    }


def _container(image: str) -> Manifest:
    return {
        "name": "coredns",
        "image": image,
        "args": ["-conf", f"{FOLDER}/{clusterdns.COREFILE}"],
        "ports": [
            {"name": f"dns-{each}", "containerPort": PORT, "protocol": each.upper()}
            for each in ("udp", "tcp")
        ],
        "livenessProbe": _probe("/health", HEALTH),
        "readinessProbe": _probe("/ready", READY),
        "resources": {"requests": {"cpu": "50m", "memory": "70Mi"}, "limits": {"memory": "170Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            # The program of CoreDNS's image has this one as a file capability, and does not start
            # where it may not be had; `restricted` admits it.
            "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        },
        "volumeMounts": [{"name": "config", "mountPath": FOLDER, "readOnly": True}],
    }


def _probe(path: str, port: int) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": port}, "timeoutSeconds": 5, "periodSeconds": 5}
