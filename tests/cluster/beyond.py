"""Writes of a consumer into its namespaces, refused and allowed, for a real API server."""

from __future__ import annotations

from typing import Any

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CONFIG_MAPS, EVENTS, SECRETS, SERVICES, Kind
from liqod.resources import SHADOW_ENDPOINT_SLICES, SHADOW_PODS
from tests.simulated.borrower import eventually
from tests.simulated.lender import SHOP, Lender

Json = dict[str, Any]
CLAIMS = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
BUDGETS = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
INGRESSES = Kind("networking.k8s.io", "v1", "Ingress", "ingresses")


def claim(**spec: Any) -> Json:
    """A claim of one gigabyte."""
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"spec": {**wanted, **spec}}


def service(**spec: Any) -> Json:
    return {"spec": {"selector": {"app": "web"}, "ports": [{"port": 80}], **spec}}


def budget(**spec: Any) -> Json:
    return {"spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}


CHOSEN_PORT = [{"port": 80, "nodePort": 30080}]
LOCAL = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
OWN_HOST = "shop.rome.example"
LISTS = {
    # The token's own, so that only the policy for Secrets stands in its way.
    "liqod.io/allowed-annotations": "* nginx.ingress.kubernetes.io/* "
    "kubernetes.io/service-account.name",
    "liqod.io/allowed-ingress-hosts": "*.rome.example",
    "liqod.io/allowed-ingress-classes": "public",
    "liqod.io/allowed-storage-classes": "standard",
    "liqod.io/allowed-load-balancer-classes": "example.com/public",
}
"""Allow lists that the daemon writes on the namespace, set by the operator; labels: the default."""


def routed(host: str, **spec: Any) -> Json:
    """An Ingress of that host."""
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    rules = [{**({"host": host} if host else {}), "http": {"paths": [path]}}]
    return {"spec": {"rules": rules, **spec}}


def ingress(**annotations: str) -> Json:
    keys = {f"nginx.ingress.kubernetes.io/{k.replace('_', '-')}": v for k, v in annotations.items()}
    return {"metadata": {"annotations": keys}, **routed(OWN_HOST)}


def noted(key: str) -> Json:
    return {"metadata": {"annotations": {key: "x"}}}


OWNER = {"apiVersion": "v1", "kind": "Namespace", "name": "kube-system", "uid": "u"}
TOKEN = {
    "metadata": {"annotations": {"kubernetes.io/service-account.name": "default"}},
    "type": "kubernetes.io/service-account-token",
}
EVENT = {"involvedObject": {"namespace": SHOP, "kind": "Pod", "name": "x"}, "reason": "Owned"}
BEYOND = [
    (SERVICES, service(externalIPs=["10.0.0.1"]), "externalIPs"),
    (SECRETS, TOKEN, "token of a ServiceAccount"),
    (CLAIMS, claim(volumeName="the-banks"), "volume that exists"),
    (CLAIMS, claim(selector={"matchLabels": {"of": "bank"}}), "volume that exists"),
    (CLAIMS, claim(dataSource={"kind": CLAIMS.name, "name": "the-banks"}), "copy of what exists"),
    (INGRESSES, ingress(configuration_snippet="return 200;"), "snippet"),
    (INGRESSES, ingress(auth_tls_secret="bank/tls"), "Secret of another namespace"),
    (EVENTS, EVENT, "cannot create resource .events"),
    (CONFIG_MAPS, {"metadata": {"finalizers": ["rome.example/stay"]}}, "finalizers"),
    (SHADOW_ENDPOINT_SLICES, {"metadata": {"finalizers": ["rome.example/stay"]}}, "finalizers"),
    (CONFIG_MAPS, {"metadata": {"ownerReferences": [OWNER]}}, "owner references"),
    (SHADOW_PODS, {"metadata": {"ownerReferences": [OWNER]}}, "owner references"),
    (CONFIG_MAPS, noted("replicator.v1.mittwald.de/replicate-to"), "not for guests: replicator"),
    (SERVICES, {**service(), **noted("metallb.universe.tf/loadBalancerIPs")}, "not for guests: me"),
    (CLAIMS, {**claim(), **noted("nfs.io/storage-path")}, "not for guests: nfs.io/storage-path"),
    # By that label a daemon holds Services of its own.
    (
        SERVICES,
        {**service(), "metadata": {"labels": {"liqod.io/ip": "true"}}},
        "guests: liqod.io/ip",
    ),
    (CONFIG_MAPS, noted("liqod.io/tunnel"), "not for guests: liqod.io/tunnel"),
    (INGRESSES, routed("www.bank.example"), "ingress_hosts"),
    (INGRESSES, routed(""), "ingress_hosts"),
    (INGRESSES, routed(OWN_HOST, tls=[{"hosts": ["www.bank.example"]}]), "ingress_hosts"),
    (INGRESSES, routed(OWN_HOST, ingressClassName="internal"), "ingress_classes"),
    (CLAIMS, claim(storageClassName="gold"), "storage_classes"),
    (
        SERVICES,
        service(type="LoadBalancer", loadBalancerClass="example.com/internal"),
        "load_balancer_classes",
    ),
    (SERVICES, service(type="LoadBalancer", loadBalancerIP="10.0.0.9"), "loadBalancerIP is not"),
    (SERVICES, service(type="NodePort", ports=CHOSEN_PORT), "nodePort is not for guests"),
    (
        SERVICES,
        # What the managed fields say of the past is not to hide what is asked for now.
        {"metadata": {"managedFields": [{}]}, **service(type="NodePort", ports=CHOSEN_PORT)},
        "nodePort is not for guests",
    ),
    (SERVICES, service(clusterIP="10.96.77.77"), "clusterIP is not for guests"),
    (
        SERVICES,
        {"metadata": {"managedFields": [{}]}, **service(clusterIP="10.96.77.77")},
        "clusterIP is not for guests",
    ),
    (SERVICES, service(**LOCAL, healthCheckNodePort=30081), "healthCheckNodePort is not"),
    (CLAIMS, claim(volumeAttributesClassName="fast"), "volumeAttributesClassName is not"),
    (BUDGETS, budget(maxUnavailable=0), "as a number"),
    (BUDGETS, budget(minAvailable="100%"), "as a number"),
    (BUDGETS, {**budget(minAvailable=1), **noted("a.io/b")}, "not for guests: a.io/b"),
    (
        BUDGETS,
        {**budget(minAvailable=1), "metadata": {"finalizers": ["rome.example/stay"]}},
        "finalizers",
    ),
]


ORDINARY = (
    (SERVICES, service(type="NodePort")),
    (SECRETS, {"stringData": {"a": "b"}}),
    (CLAIMS, claim()),
    (INGRESSES, ingress(auth_secret=f"{SHOP}/own", rewrite_target="/")),
    (CONFIG_MAPS, {"data": {"a": "b"}, "metadata": {"annotations": {"note": "x"}}}),
    (CLAIMS, claim(storageClassName="standard")),
    (INGRESSES, routed(OWN_HOST, ingressClassName="public", tls=[{"hosts": [OWN_HOST]}])),
    (BUDGETS, budget(minAvailable=2)),
    (SERVICES, service(**LOCAL)),
    (SERVICES, service(clusterIP="None")),
)
"""Objects that a consumer may write; in tests their names end with their number."""


def running(**security: Any) -> Json:
    return {"containers": [{"name": "web", "image": "web", "securityContext": security}]}


def volume(**source: Any) -> Json:
    return {"volumes": [{"name": "v", **source}]}


def debugger(**security: Any) -> Json:
    container = {"name": "debugger", "image": "web", "securityContext": security}
    return {"ephemeralContainers": [container]}


TARGETED = {"ephemeralContainers": [{"name": "d", "image": "d", "targetContainerName": "x"}]}
CHANGED: dict[str, tuple[Json, str, str]] = {
    "privileged": (debugger(privileged=True), "Refused", "PodSecurity"),
    "capability": (debugger(capabilities={"add": ["SYS_ADMIN"]}), "Refused", "PodSecurity"),
    "target": (TARGETED, "Refused", "targetContainerName"),
    "host-path": (volume(hostPath={"path": "/"}) | running(), "NotAllowed", "volumes"),
    "account": ({"serviceAccountName": "admin"} | running(), "NotAllowed", "service_accounts"),
    "much": (
        {"containers": [{"name": "web", "image": "web", "resources": {"requests": {"cpu": "99"}}}]},
        *("OverQuota", "cpu"),
    ),
}
"""Changes of a consumer to the ShadowPod of a running pod, and the reason that refuses each."""


async def change_noted(made: Lender, name: str) -> str:
    """Waits for the pod's condition about its changes, and returns its message."""
    said: list[str] = []

    async def look() -> bool:
        pod = await made.pod(name) or {"metadata": {"annotations": {}}}
        said.append(pod["metadata"]["annotations"].get(labels.CHANGES, ""))
        return " " in said[-1]

    await eventually(look, seconds=10)
    return said[-1]
