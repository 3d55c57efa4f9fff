"""Table of how each field of a pod, Service, EndpointSlice and Ingress crosses to a peer. Pure.

The reflectors copy the fields of this table, and ``docs/reference/fields.md`` is made from it. A
field that Kubernetes has and this table has not is an obstacle with a reason (of a pod), or stays
in this cluster, and a test fails until it is added. The fields inside of a field that crosses go
with it, unless they are named themselves.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple


class Fate(Enum):
    """The treatment of a field when its object goes to a peer."""

    CROSSES = "crosses"
    """It is at the peer as it is in this cluster."""
    CHANGED = "is translated"
    """It is at the peer in another form."""
    STAYS = "stays"
    """It is not at the peer, and need not be: it is about this cluster alone."""
    OBSTACLE = "keeps the pod here"
    """The pod does not go to a peer, and shows the reason."""


class Field(NamedTuple):
    """One field: its treatment, and the reason; that is empty where it crosses unchanged."""

    fate: Fate
    why: str = ""


def crossing(*names: str) -> dict[str, Field]:
    """Fields that are at the peer as they are in this cluster."""
    return {name: Field(Fate.CROSSES) for name in names}


def _stays(why: str, *names: str) -> dict[str, Field]:
    return {name: Field(Fate.STAYS, why) for name in names}


_GROUPS: Final = (
    "its pods are to be placed together, and a peer does not know of those that are elsewhere"
)
POD: Final[Mapping[str, Field]] = {
    **crossing(
        *("activeDeadlineSeconds", "dnsConfig", "dnsPolicy", "enableServiceLinks"),
        *("hostUsers", "hostname", "hostnameOverride", "imagePullSecrets", "os", "resources"),
        *("restartPolicy", "securityContext", "setHostnameAsFQDN", "shareProcessNamespace"),
        *("subdomain", "terminationGracePeriodSeconds"),
    ),
    "containers": Field(
        Fate.CHANGED,
        "with the way to this cluster's API server where the pod may, and its authority's other "
        "name",
    ),
    "hostAliases": Field(Fate.CHANGED, "with that way's address"),
    "initContainers": Field(Fate.CHANGED, "as containers"),
    "volumes": Field(Fate.CHANGED, "as containers"),
    "topologySpreadConstraints": Field(
        Fate.CHANGED, "without `matchLabelKeys` that are in the selector already"
    ),
    "affinity": Field(
        Fate.CHANGED,
        "os and architecture, what the virtual node adds, and anti-affinity by annotation",
    ),
    "nodeSelector": Field(Fate.CHANGED, "os and architecture, and what the virtual node adds"),
    "tolerations": Field(Fate.CHANGED, "without that of virtual nodes; the peer decides further"),
    "runtimeClassName": Field(Fate.CHANGED, "by annotation, the pod, the virtual node; not `liqo`"),
    "automountServiceAccountToken": Field(
        Fate.CHANGED, "on only where the pod asks for the peer's own API server"
    ),
    "serviceAccountName": Field(Fate.CHANGED, "only where the pod asks for the peer's API server"),
    **_stays("this cluster's scheduler has placed the pod; the peer's does so again", "nodeName"),
    **_stays("the peer's own scheduler places the remote pod", "schedulerName", "schedulingGates"),
    **_stays(
        "priorities are each cluster's own", "priority", "priorityClassName", "preemptionPolicy"
    ),
    **_stays("the old name of `serviceAccountName`", "serviceAccount"),
    **_stays("they are decided here, where the controllers are that open them", "readinessGates"),
    **_stays("the peer's own RuntimeClass says", "overhead"),
    **_stays(
        "a peer's host is not this cluster's: the remote pod has namespaces of its own",
        *("hostNetwork", "hostPID", "hostIPC"),
    ),
    "ephemeralContainers": Field(Fate.CHANGED, "as containers, until they have ended"),
    "resourceClaims": Field(
        Fate.OBSTACLE, "resource claims are of devices, and a peer's cannot be claimed yet"
    ),
    "workloadRef": Field(Fate.OBSTACLE, _GROUPS),
    "schedulingGroup": Field(Fate.OBSTACLE, _GROUPS),
    "evictionResponders": Field(
        Fate.OBSTACLE, "who answers an eviction is not known to the peer, which evicts by itself"
    ),
}
"""Fields of a pod's ``spec``."""

SERVICE: Final[Mapping[str, Field]] = {
    **crossing(
        *("type", "selector", "externalName", "externalTrafficPolicy", "internalTrafficPolicy"),
        *("ipFamilyPolicy", "loadBalancerSourceRanges", "publishNotReadyAddresses"),
        *("sessionAffinity", "sessionAffinityConfig", "allocateLoadBalancerNodePorts"),
    ),
    "trafficDistribution": Field(
        Fate.CHANGED, "zones are each cluster's own; `PreferClose` where the peer's own come first"
    ),
    "ports": Field(Fate.CHANGED, "see ServicePort"),
    "clusterIP": Field(Fate.CHANGED, "`None` crosses; an address is each cluster's own"),
    **_stays("addresses are each cluster's own", "clusterIPs", "loadBalancerIP"),
    "ipFamilies": Field(Fate.CHANGED, "where IPv6 is the first, and a joined peer has both"),
    **_stays("an address claimed here leads nowhere there", "externalIPs"),
    "loadBalancerClass": Field(Fate.CHANGED, "by the settings, or the default that a peer offers"),
    **_stays("node ports are each cluster's own", "healthCheckNodePort"),
}
"""Fields of a Service's ``spec``."""
SERVICE_PORT: Final[Mapping[str, Field]] = {
    **crossing("name", "protocol", "port", "targetPort", "appProtocol"),
    "nodePort": Field(Fate.CHANGED, "where annotated `liqo.io/force-remote-node-port`"),
}
"""Fields of one of its ports."""

ENDPOINT_SLICE: Final[Mapping[str, Field]] = {
    **crossing("addressType", "ports"),
    "metadata": Field(Fate.CHANGED, "labels and annotations that may cross"),
    "endpoints": Field(Fate.CHANGED, "those that are not the peer's own; see Endpoint"),
}
"""Fields of an EndpointSlice."""
ENDPOINT: Final[Mapping[str, Field]] = {
    **crossing("addresses", "hostname", "zone"),
    "hints": Field(Fate.CHANGED, "for no zone of the peer's, where the peer's own come first"),
    "conditions": Field(Fate.CHANGED, "`ready` alone"),
    "nodeName": Field(Fate.CHANGED, "this cluster's id"),
    "targetRef": Field(Fate.CHANGED, "its kind becomes `RemotePod`, so that nobody looks for it"),
    **_stays("the old form of `nodeName` and `zone`", "deprecatedTopology"),
}
"""Fields of one endpoint."""

ENDPOINT_CONDITIONS: Final[Mapping[str, Field]] = {
    "ready": Field(Fate.CHANGED, "true unless it says no"),
    **_stays("readiness alone decides at a peer", "serving", "terminating"),
}
"""Fields of an endpoint's conditions."""

INGRESS: Final[Mapping[str, Field]] = {
    **crossing("defaultBackend", "tls", "rules"),
    "ingressClassName": Field(Fate.CHANGED, "by the settings, or the default that a peer offers"),
}
"""Fields of an Ingress' ``spec``."""

_MERGED: Final = "left out where the selector has the key already"
_CA: Final = "`kube-root-ca.crt` is named as it is at the peer"
INSIDE: Final[Mapping[str, Mapping[str, Field]]] = {
    "Affinity": {
        "nodeAffinity": Field(Fate.CHANGED, "os and architecture, and what the virtual node adds"),
        "podAntiAffinity": Field(Fate.CHANGED, "by the annotation `liqo.io/anti-affinity-preset`"),
        **_stays("the pods that it asks to be near may be elsewhere", "podAffinity"),
    },
    "ConfigMapProjection": {"name": Field(Fate.CHANGED, _CA)},
    "ConfigMapVolumeSource": {"name": Field(Fate.CHANGED, _CA)},
    "ContainerPort": {
        "hostPort": Field(Fate.CHANGED, "left out where the API server gave it for `hostNetwork`")
    },
    "EnvFromSource": {"configMapRef": Field(Fate.CHANGED, _CA)},
    "EnvVarSource": {
        "configMapKeyRef": Field(Fate.CHANGED, _CA),
        "fieldRef": Field(Fate.CHANGED, "`spec.serviceAccountName` has the value that it has here"),
    },
    "PodAffinityTerm": {
        "matchLabelKeys": Field(Fate.CHANGED, _MERGED),
        "mismatchLabelKeys": Field(Fate.CHANGED, _MERGED),
    },
    "TopologySpreadConstraint": {"matchLabelKeys": Field(Fate.CHANGED, _MERGED)},
    "Volume": {
        "ephemeral": Field(
            Fate.CHANGED, "it is the claim that follows the one made from its template"
        ),
        "persistentVolumeClaim": Field(
            Fate.CHANGED, "only claims of the virtual StorageClass follow pods"
        ),
    },
    "VolumeProjection": {
        "serviceAccountToken": Field(
            Fate.CHANGED,
            "a token of an hour in a Secret there, where the pod may (`api_server`); or stays",
        ),
        "downwardAPI": Field(
            Fate.CHANGED, "beside such a token, the namespace's name is that which it has here"
        ),
    },
}
"""Fields that are inside of others, and do not simply go with them, by Kubernetes' type."""


def copied(table: Mapping[str, Field]) -> tuple[str, ...]:
    """The fields of a table that cross as they are."""
    return tuple(name for name, field in table.items() if field.fate is Fate.CROSSES)


COPIED: Final = (*copied(POD), "containers", "hostAliases", "initContainers", "volumes")
"""Fields of a pod that its remote pod is begun with."""


def pod_obstacle(spec: Mapping[str, Any]) -> tuple[str, str] | None:
    """The first field by which a pod cannot run at a peer, and the reason; None if there is none.

    A field that is not in the table is one: Kubernetes has it since, and losing it in silence could
    lose isolation or a limit.
    """
    for name, value in spec.items():
        if value in (None, "", [], {}, False):
            continue
        field = POD.get(name)
        if field is None:
            return name, "this version of liqod does not know what it means"
        if field.fate is Fate.OBSTACLE:
            return name, field.why
    return None


LOSSES: Final = ("hostUsers", "resources")
"""Fields of isolation and limits that an older API server drops in silence."""


def lost(wanted: Mapping[str, Any], there: Mapping[str, Any]) -> tuple[str, ...]:
    """Those of the fields of isolation and limits that a pod has and its remote pod has lost.

    Args:
        wanted: ``spec`` of the pod.
        there: ``spec`` of the remote pod; empty where it is unknown.
    """
    return tuple(
        name
        for name in LOSSES
        if there and wanted.get(name) not in (None, {}, True) and there.get(name) in (None, {})
    )


def unselected(term: Mapping[str, Any]) -> dict[str, Any]:
    """A pod affinity term or spread constraint without the label keys that were merged already.

    The first API server writes the labels of ``matchLabelKeys`` and ``mismatchLabelKeys`` into the
    selector; the second refuses a key that is in both.
    """
    selector = term.get("labelSelector") or {}
    merged = {each.get("key") for each in selector.get("matchExpressions") or ()}
    merged |= set(selector.get("matchLabels") or {})
    kept = dict(term)
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        if field in kept:
            kept[field] = [key for key in kept[field] or () if key not in merged]
            if not kept[field]:
                del kept[field]
    return kept
