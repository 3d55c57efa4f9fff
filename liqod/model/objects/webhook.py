"""The admission webhook's values: its configuration, the review it answers, the pod that proves it.

Pure. The webhook is asked about all new pods of offloaded namespaces: to leave out those of
DaemonSets by a match condition would take the API server a third of the time of asking, for each
pod. A second entry answers the probe, a pod of a dry run in liqod's own namespace that tells
whether the API server reaches the webhook at all.
"""

import base64
from typing import Any, Final

import msgspec

from liqod.errors import ProtocolError
from liqod.model import labels
from liqod.model.objects.scheduling import Placement, mutate

Json = dict[str, Any]

NAME: Final = "liqod-webhook"
"""Name of the MutatingWebhookConfiguration."""
PATH: Final = "/mutate-pod"
GUESTS_NAME: Final = "liqod-guests"
"""Name of the MutatingWebhookConfiguration about direct pods (:mod:`liqod.provider.workloads`)."""
GUESTS_PATH: Final = "/review-guest"
PROBE: Final = labels.WEBHOOK_PROBE
"""Its value is a number used once; the webhook repeats it in an annotation of that name."""
TIMEOUT_SECONDS: Final = 2


class Admission(msgspec.Struct, frozen=True):
    """What an AdmissionReview asks: about which pod, in which namespace."""

    uid: str
    namespace: str
    pod: Json


class Asking(msgspec.Struct, frozen=True):
    """What an AdmissionReview asks about a direct pod, which stays JSON.

    Attributes:
        uid: of the question.
        namespace, name: of the pod.
        user: who creates it.
        pod: the pod.
        dry_run: whether nothing will be stored.
    """

    uid: str
    namespace: str
    name: str
    user: str
    pod: bytes
    dry_run: bool


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _RawRequest(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    object: msgspec.Raw
    namespace: str = ""
    name: str = ""
    dry_run: bool | None = None
    user_info: _User = _User()


class _RawReview(msgspec.Struct, frozen=True):
    request: _RawRequest


class _Request(msgspec.Struct, frozen=True):
    uid: str
    object: Json
    namespace: str = ""


class _Review(msgspec.Struct, frozen=True):
    request: _Request


_REVIEW = msgspec.json.Decoder(_Review)


def read_review(body: bytes) -> Admission:
    """The question in an AdmissionReview.

    Raises:
        ProtocolError: it is none, or asks about no object.
    """
    try:
        request = _REVIEW.decode(body).request
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"this is no AdmissionReview: {error}") from error
    return Admission(request.uid, request.namespace, request.object)


def read_asking(body: bytes) -> Asking:
    """The question about a direct pod in an AdmissionReview.

    Raises:
        ProtocolError: it is none, or asks about no object.
    """
    try:
        asked = msgspec.json.decode(body, type=_RawReview).request
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"this is no AdmissionReview: {error}") from error
    user, pod = asked.user_info.username, bytes(asked.object)
    return Asking(asked.uid, asked.namespace, asked.name, user, pod, bool(asked.dry_run))


def verdict(uid: str, refusal: str) -> bytes:
    """The AdmissionReview that admits a direct pod, or refuses it with the reason."""
    response: Json = {"uid": uid, "allowed": not refusal}
    if refusal:
        response["status"] = {"code": 403, "reason": "Forbidden", "message": refusal[:1024]}
    return msgspec.json.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    )


def guests_configuration(client_config: Json) -> Json:
    """The MutatingWebhookConfiguration about direct pods; it changes none, and fails closed.

    Only they are asked about: what bears their mark, in namespaces of consumers. Where nobody
    answers, no direct pod is made, and its consumer writes a ShadowPod.
    """
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": GUESTS_NAME, "labels": {labels.MANAGED_BY_LIQOD: labels.TRUE}},
        "webhooks": [
            {
                **_webhook("guests.liqod.io", client_config),
                "failurePolicy": "Fail",
                "sideEffects": "NoneOnDryRun",
                "reinvocationPolicy": "IfNeeded",
                "namespaceSelector": {
                    "matchExpressions": [{"key": labels.REMOTE_CLUSTER_ID, "operator": "Exists"}]
                },
                "objectSelector": {"matchLabels": {labels.MANAGED_BY: labels.MANAGED_BY_CONSUMER}},
            }
        ],
    }


def answer(admission: Admission, placement: Placement | None) -> bytes:
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


def configuration(client_config: Json, namespace: str) -> Json:
    """The MutatingWebhookConfiguration.

    Args:
        client_config: ``url`` or ``service``, and ``caBundle``.
        namespace: liqod's own, where the probe is made.
    """
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME, "labels": {labels.MANAGED_BY_LIQOD: labels.TRUE}},
        "webhooks": [
            {
                **_webhook("pods.liqod.io", client_config),
                "namespaceSelector": {"matchLabels": {labels.SCHEDULING_ENABLED: labels.TRUE}},
            },
            {
                **_webhook("probe.liqod.io", client_config),
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "objectSelector": {"matchExpressions": [{"key": PROBE, "operator": "Exists"}]},
            },
        ],
    }


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
    """Whether the dry run's answer carries what only the webhook can have added."""
    return bool((pod.get("metadata", {}).get("annotations") or {}).get(PROBE) == number)


def client_config(
    *,
    advertise: str,
    service: tuple[str, str] | None,
    address: str,
    port: int,
    path: str = PATH,
) -> Json:
    """Where the API server calls: ``url``, or ``service`` in the cluster; without its CA.

    Args:
        advertise: ``host:port`` or an HTTPS URL, which wins; or empty.
        service: namespace and name of the Service, in a cluster.
        address: IP address of this host towards the API server.
        port: TCP port that is listened on.
        path: what is called there.
    """
    if advertise:
        base = advertise if advertise.startswith("https://") else f"https://{advertise}"
        return {"url": base.rstrip("/") + path}
    if service is not None:
        namespace, name = service
        return {"service": {"namespace": namespace, "name": name, "path": path, "port": 443}}
    host = f"[{address}]" if ":" in address else address
    return {"url": f"https://{host}:{port}{path}"}
