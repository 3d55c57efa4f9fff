"""The admission webhook's values: its configuration, its reviews, the pod that probes it.

Pure. The webhook gets all new pods of offloaded namespaces: to leave out those of DaemonSets by a
match condition would take the API server a third of the time of a call, for each pod. Namespaces
that fail closed have an entry of their own, by which their pods are refused while the webhook does
not answer. Another entry answers the probe, a pod of a dry run in liqod's own namespace that shows
whether the API server reaches the webhook at all.
"""

import base64
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.errors import ProtocolError
from liqod.model.objects.eligibility import Placement
from liqod.model.objects.scheduling import mutate

Json = dict[str, Any]

NAME: Final = "liqod-webhook"
"""Name of the MutatingWebhookConfiguration."""
PATH: Final = "/mutate-pod"
CLOSED_PATH: Final = "/mutate-pod-or-refuse"
"""The path that is called for pods of namespaces that fail closed."""
NO_ENDPOINT: Final = "no pod of the Service it is called by is ready"
"""Verdict where the webhook's Service has no ready endpoint."""
OF_SERVICES: Final = ".svc"
"""End of the name by which the API server calls a Service."""
SYSTEM: Final = ("kube-system", "kube-public", "kube-node-lease")
"""Namespaces of Kubernetes itself."""
CHOSEN: Final = (labels.SCHEDULING_ENABLED, labels.FAIL_CLOSED)
"""Labels that select namespaces: for calls of the webhook, and to fail closed."""
PROBE: Final = labels.WEBHOOK_PROBE
"""Its value is a number used once; the webhook repeats it in an annotation of that name."""
TIMEOUT_SECONDS: Final = 2


class PodAdmission(msgspec.Struct, frozen=True):
    """The request of an AdmissionReview: a pod and its namespace."""

    uid: str
    namespace: str
    pod: Json


class _Request(msgspec.Struct, frozen=True):
    uid: str
    object: Json
    namespace: str = ""


class _Review(msgspec.Struct, frozen=True):
    request: _Request


_REVIEW = msgspec.json.Decoder(_Review)


def read_review(body: bytes) -> PodAdmission:
    """The request in an AdmissionReview.

    Raises:
        ProtocolError: it is no review, or has no object.
    """
    try:
        request = _REVIEW.decode(body).request
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"this is no AdmissionReview: {error}") from error
    return PodAdmission(request.uid, request.namespace, request.object)


def answer(admission: PodAdmission, placement: Placement | None) -> bytes:
    """The AdmissionReview that admits the pod, with the patch for its namespace's placement.

    Raises:
        ProtocolError: the object is none that an API server would have let through.
    """
    response: Json = {"uid": admission.uid, "allowed": True}
    try:
        patch = mutate(admission.pod, placement) if placement is not None else []
        probe = (admission.pod.get("metadata", {}).get("labels") or {}).get(PROBE)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"this is no Pod: {error}") from error
    if probe is not None:
        patch = [{"op": "add", "path": "/metadata/annotations", "value": {PROBE: probe}}]
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
    return msgspec.json.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    )


def configuration(client_config: Json, closed_config: Json, namespace: str) -> Json:
    """The MutatingWebhookConfiguration.

    Args:
        client_config: ``url`` or ``service``, and ``caBundle``.
        closed_config: the same, with :data:`CLOSED_PATH`.
        namespace: liqod's own, where the probe is made.
    """
    offloaded, closed = ({each: labels.TRUE} for each in CHOSEN)
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME, "labels": {labels.MANAGED_BY_LIQOD: labels.TRUE}},
        "webhooks": [
            {
                **_webhook("pods.liqod.io", client_config),
                "namespaceSelector": {
                    "matchLabels": offloaded,
                    "matchExpressions": [
                        {"key": labels.FAIL_CLOSED, "operator": "NotIn", "values": [labels.TRUE]}
                    ],
                },
            },
            {
                **_webhook("closed.liqod.io", closed_config),
                "failurePolicy": "Fail",
                "namespaceSelector": {
                    "matchLabels": {**offloaded, **closed},
                    "matchExpressions": [_not_of_the_system(namespace)],
                },
            },
            {
                **_webhook("probe.liqod.io", client_config),
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "objectSelector": {"matchExpressions": [{"key": PROBE, "operator": "Exists"}]},
            },
        ],
    }


def _not_of_the_system(namespace: str) -> Json:
    """Keeps a selector off namespaces without whose pods no cluster works."""
    system = [*SYSTEM, namespace]
    return {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": system}


def _webhook(name: str, client_config: Json) -> Json:
    return {
        "name": name,
        "clientConfig": client_config,
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
                "scope": "Namespaced",
            }
        ],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "timeoutSeconds": TIMEOUT_SECONDS,
    }


def probe_pod(namespace: str, number: str) -> Json:
    """A pod for a dry run that satisfies every Pod Security level."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"liqod-webhook-probe-{number}",
            "namespace": namespace,
            "labels": {PROBE: number},
        },
        "spec": {
            "automountServiceAccountToken": False,
            "restartPolicy": "Never",
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "probe",
                    "image": "probe",
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }


def proved(pod: Json, number: str) -> bool:
    """True if the dry run's answer has the annotation that only the webhook can have added."""
    return bool((pod.get("metadata", {}).get("annotations") or {}).get(PROBE) == number)


def client_config(
    *,
    advertise: str,
    service: tuple[str, str] | None,
    address: str,
    port: int,
    path: str = PATH,
) -> Json:
    """The address that the API server calls: ``url``, or ``service``; without its CA.

    Args:
        advertise: ``host:port`` or an HTTPS URL, which wins; or empty.
        service: namespace and name of the Service, in a cluster.
        address: IP address of this host towards the API server.
        port: TCP port of the listener.
        path: path of the URL.
    """
    if advertise:
        base = advertise if advertise.startswith("https://") else f"https://{advertise}"
        return {"url": base.rstrip("/") + path}
    if service is not None:
        namespace, name = service
        return {"service": {"namespace": namespace, "name": name, "path": path, "port": 443}}
    host = f"[{address}]" if ":" in address else address
    return {"url": f"https://{host}:{port}{path}"}


def remedy(verdict: str) -> str:
    """The remedy where the API server does not reach the webhook, by the reason for it."""
    if verdict == NO_ENDPOINT:
        return "see why the daemon's pod is not ready (`kubectl get pods -n liqo`)"
    if verdict.endswith(OF_SERVICES):
        return (
            "let the control plane reach pods, or say webhook.advertise and kubelet.host "
            "(docs/how-to/in-cluster.md); until then `kubectl logs` does not reach peers either"
        )
    return "set webhook.advertise to an address that the API server reaches"
