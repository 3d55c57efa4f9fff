"""Requests that the daemon's own rights would allow, with its kubeconfig: every hop to more."""

from base64 import b64encode
from typing import Any

import pytest

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    CLUSTER_ROLE_BINDINGS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    ROLE_BINDINGS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    SIGNING_REQUESTS,
    Kind,
)
from liqod.cli.snapshotreader import take
from liqod.consumer.nodes import servingcertificate
from liqod.errors import Forbidden
from liqod.identity import certificates, keys
from liqod.kube.reviews import user_of
from liqod.plugins.contracts import ServiceAccountToken, Token
from liqod.reflection.view import given, token_request
from tests.simulated.borrower import eventually
from tests.simulated.lender import TENANT, Lender

RBAC = {"apiGroup": "rbac.authorization.k8s.io"}
TOKEN = {
    "metadata": {
        "name": "taken",
        "annotations": {"kubernetes.io/service-account.name": "clusterrole-aggregation-controller"},
    },
    "type": "kubernetes.io/service-account-token",
}
POD_SPEC: dict[str, Any] = {"containers": [{"name": "a", "image": "a"}]}
POD = {"metadata": {"name": "taken"}, "spec": POD_SPEC}
BINDING = {
    "metadata": {"name": "taken"},
    "roleRef": {**RBAC, "kind": "ClusterRole", "name": labels.REMOTE_ROLE},
    "subjects": [{**RBAC, "kind": "User", "name": "mallory"}],
}
SLICE = {"metadata": {"name": "taken"}, "addressType": "IPv4", "endpoints": [], "ports": []}


def webhook(name: str) -> dict[str, Any]:
    """One that is asked before every write of a Secret."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["secrets"],
    }
    hook = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://mallory.example/"},
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
    }
    return {"metadata": {"name": name}, "webhooks": [hook]}


def deployment(*gates: str) -> dict[str, Any]:
    """One whose pods have these gates."""
    marks = {"app": "taken"}
    spec = {**POD_SPEC, "schedulingGates": [{"name": gate} for gate in gates]}
    template = {"metadata": {"labels": marks}, "spec": spec}
    wanted = {"replicas": 0, "selector": {"matchLabels": marks}, "template": template}
    return {"metadata": {"name": "taken"}, "spec": wanted}


def service(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "taken"}, "spec": {"ports": [{"port": 80}], **spec}}


HOPS: tuple[tuple[Kind, dict[str, Any], str | None, str], ...] = (
    (SECRETS, TOKEN, "kube-system", "writes Secrets of tenant namespaces and its own only"),
    (SECRETS, TOKEN, TENANT, "asks for no token of a ServiceAccount"),
    (SECRETS, TOKEN, "liqo", "asks for no token of a ServiceAccount"),
    (SECRETS, {"metadata": {"name": "liqod"}}, "liqo", "does not write its own configuration"),
    (SERVICES, service(selector={"app": "bank"}), TENANT, "makes Services without selector"),
    (SERVICES, service(externalIPs=["10.0.0.9"]), "default", "without selector, externalIPs"),
    (SERVICES, service(type="ExternalName", externalName="bank"), TENANT, "externalName only"),
    (PODS, POD, "kube-system", "makes pods in namespaces of guests only"),
    (PODS, POD, TENANT, "makes pods in namespaces of guests only"),
    (DEPLOYMENTS, deployment(), TENANT, "pods that are never scheduled only"),
    (DEPLOYMENTS, deployment("a.example/b"), TENANT, "pods that are never scheduled only"),
    (DEPLOYMENTS, deployment(labels.STAND_IN_GATE), "liqo", "in tenant namespaces only"),
    (ROLE_BINDINGS, BINDING, "kube-system", "binds nobody but peers"),
    (CLUSTER_ROLE_BINDINGS, BINDING, None, "their own role only"),
    (ENDPOINT_SLICES, SLICE, "default", "in namespaces of guests only"),
    (NODES, {"metadata": {"name": "taken"}}, None, "writes virtual nodes only"),
    (MUTATING_WEBHOOKS, webhook("taken"), None, "announces its own webhook only"),
    (MUTATING_WEBHOOKS, webhook("liqod-webhook"), None, "is asked about new pods"),
    (MUTATING_WEBHOOKS, webhook("liqod-guests"), None, "announces its own webhook only"),
    (NAMESPACES, {"metadata": {"name": "taken"}}, None, "makes namespaces of peers only"),
)


def selecting(**selected: str) -> dict[str, Any]:
    """Liqod's own webhook, asked about the pods of other namespaces than those that were chosen."""
    made = webhook("liqod-webhook")
    (hook,) = made["webhooks"]
    hook["rules"][0]["resources"] = ["pods"]
    marks = {key.replace("_", "/"): value for key, value in selected.items()}
    hook["namespaceSelector"] = {"matchLabels": marks}
    return made


async def no_label_opens_the_fence(made: Lender) -> None:
    """Namespaces become no tenant's and no less secure; running pods run what they ran."""
    daemon, admin = made.context.client, made.admin
    for marks in (
        {labels.TENANT_NAMESPACE: labels.TRUE},
        {labels.SCHEDULING_ENABLED: labels.TRUE},
        {labels.FAIL_CLOSED: labels.TRUE},
        {"pod-security.kubernetes.io/enforce": "privileged"},
    ):
        with pytest.raises(Forbidden, match="marks namespaces that are not a peer's"):
            await daemon.patch(NAMESPACES, "kube-system", {"metadata": {"labels": marks}})
    owner = {"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "gone"}
    owned = {"metadata": {"ownerReferences": [owner]}}
    with pytest.raises(Forbidden, match="marks namespaces that are not a peer's"):
        await daemon.patch(NAMESPACES, "theirs", owned)
    chosen = dict.fromkeys((labels.SCHEDULING_ENABLED, labels.FAIL_CLOSED), labels.TRUE)
    offloaded = {"metadata": {"labels": chosen}}
    await daemon.patch(NAMESPACES, "theirs", offloaded)
    not_any_more = {"metadata": {"labels": dict.fromkeys(chosen)}}
    await daemon.patch(NAMESPACES, "theirs", not_any_more)
    for selected in (
        {"kubernetes.io_metadata.name": "kube-system"},
        {"a": "b", "liqo.io_scheduling-enabled": "true"},
    ):
        with pytest.raises(Forbidden, match="is asked about new pods"):
            await daemon.create(MUTATING_WEBHOOKS, selecting(**selected))
    # What fails closed holds up namespaces that are to, and no others.
    for marks, refused in (
        ({"liqo.io_scheduling-enabled": "true"}, True),
        ({"liqo.io_scheduling-enabled": "true", "liqod.io_fail-closed": "true"}, False),
    ):
        closed = selecting(**marks)
        closed["webhooks"][0]["failurePolicy"] = "Fail"
        if refused:
            with pytest.raises(Forbidden, match="is asked about new pods"):
                await daemon.create(MUTATING_WEBHOOKS, closed)
        else:
            await daemon.create(MUTATING_WEBHOOKS, closed)
            await daemon.delete(MUTATING_WEBHOOKS, "liqod-webhook")
    await admin.create(PODS, POD, "kube-system")
    live = await admin.get(PODS, "taken", "kube-system")
    live["spec"]["containers"][0]["image"] = "mallory"
    spec = {"spec": {"containers": live["spec"]["containers"]}}
    with pytest.raises(Forbidden, match="has no other image run"):
        await daemon.patch(PODS, "taken", spec, "kube-system")
    await daemon.patch(PODS, "taken", {"metadata": {"labels": {"a": "b"}}}, "kube-system")
    debugger = [{"name": "mallory", "image": "mallory"}]
    for part, change in (
        ("ephemeralcontainers", {"ephemeralContainers": debugger}),
        ("resize", {"containers": [{**POD_SPEC["containers"][0], "resources": {}}]}),
    ):
        with pytest.raises(Forbidden, match="resizes and debugs pods in namespaces of guests only"):
            await daemon.patch(PODS, "taken", {"spec": change}, "kube-system", subresource=part)


async def nothing_that_stands_for_a_gateway_can_run(made: Lender) -> None:
    """The gate of such a pod is opened neither in its Deployment nor at the pod."""
    daemon, admin = made.context.client, made.admin
    await daemon.create(DEPLOYMENTS, deployment(labels.STAND_IN_GATE), TENANT)
    opened = {"spec": {"template": {"spec": {"schedulingGates": None}}}}
    with pytest.raises(Forbidden, match="pods that are never scheduled only"):
        await daemon.patch(DEPLOYMENTS, "taken", opened, TENANT)
    gated = {**POD_SPEC, "schedulingGates": [{"name": labels.STAND_IN_GATE}]}
    await admin.create(PODS, {"metadata": {"name": "gated"}, "spec": gated}, TENANT)
    with pytest.raises(Forbidden, match="lets no pod be scheduled"):
        await daemon.patch(PODS, "gated", {"spec": {"schedulingGates": None}}, TENANT)
    await admin.delete(PODS, "gated", TENANT)
    await daemon.delete(DEPLOYMENTS, "taken", TENANT)


async def no_serving_certificate_of_another_is_approved(made: Lender) -> None:
    """As a kubelet's server comes whom the daemon itself has asked for, and nobody else."""
    daemon, admin = made.context.client, made.admin
    key = keys.generate_tls()
    request = certificates.request_server(
        key, servingcertificate.NAME, servingcertificate.GROUP, ["192.0.2.1"]
    )
    spec = {"request": b64encode(request).decode(), "signerName": servingcertificate.SIGNER}
    body = {"spec": {**spec, "usages": list(servingcertificate.USAGES)}}
    yes = {"type": "Approved", "status": "True", "reason": "Mallory", "message": "so be it"}
    for client, name in ((admin, "theirs"), (daemon, "ours")):
        made_ = await client.create_full(SIGNING_REQUESTS, {"metadata": {"name": name}, **body})
        approved = {**made_, "status": {"conditions": [yes]}}
        if client is admin:
            with pytest.raises(Forbidden, match="approves no serving certificate"):
                await daemon.update(SIGNING_REQUESTS, approved, subresource="approval")
        else:
            await daemon.update(SIGNING_REQUESTS, approved, subresource="approval")
        await admin.delete(SIGNING_REQUESTS, name)


async def tokens_are_of_offloaded_pods_and_short(made: Lender) -> None:
    """And end with their pod, as the API server itself sees to."""
    daemon, admin = made.context.client, made.admin
    marks = {labels.SCHEDULING_ENABLED: labels.TRUE}
    await admin.create(NAMESPACES, {"metadata": {"name": "offloaded", "labels": marks}})
    await admin.create(NAMESPACES, {"metadata": {"name": "not-offloaded"}})
    pods = {}
    for namespace in ("offloaded", "not-offloaded"):
        for account in ("robot", "root"):
            await admin.create(SERVICE_ACCOUNTS, {"metadata": {"name": account}}, namespace)
        spec = {**POD_SPEC, "serviceAccountName": "robot"}
        made_pod = await admin.create(PODS, {"metadata": {"name": "web"}, "spec": spec}, namespace)
        pods[namespace] = made_pod.metadata.uid

    async def ask(namespace: str, account: str = "robot", **more: Any) -> Token:
        need = ServiceAccountToken(account=account, pod="web", pod_uid=pods[namespace])
        asked = token_request(need)
        asked["spec"] |= more
        return await given(daemon, asked, account, namespace)

    for namespace, account, more, why in (
        ("not-offloaded", "robot", {}, "in offloaded namespaces only"),
        ("offloaded", "robot", {"boundObjectRef": None}, "of pods only"),
        ("offloaded", "robot", {"expirationSeconds": 3607}, "no token that lasts longer"),
        ("offloaded", "root", {}, "different serviceaccount"),
    ):
        refused = await ask(namespace, account, **more)
        assert not refused.text
        assert why in refused.problem, (namespace, account, more)
    # Of one that was shown the API server remembers the answer for some seconds.
    token, *others = [(await ask("offloaded")).text for _ in range(12)]
    user = await user_of(admin, token)
    assert user is not None
    assert user.name == "system:serviceaccount:offloaded:robot"
    await admin.delete(PODS, "web", "offloaded", grace=0)

    async def ended() -> bool:
        """It sees the pod's end by a watch of its own, which may take a moment."""
        return await user_of(admin, others.pop() if len(others) > 1 else others[0]) is None

    await eventually(ended, seconds=30)


async def the_daemon_stays_inside_its_fence(made: Lender) -> None:
    daemon = made.context.client
    for kind, obj, namespace, why in HOPS:
        with pytest.raises(Forbidden, match=why):
            await daemon.create(kind, obj, namespace)
    own = {"metadata": {"labels": {labels.REMOTE_CLUSTER_ID: "mallory"}}}
    with pytest.raises(Forbidden, match="takes over and deletes no namespace"):
        await daemon.patch(NAMESPACES, "kube-system", own)
    await made.admin.create(NAMESPACES, {"metadata": {"name": "theirs"}})
    with pytest.raises(Forbidden, match="takes over and deletes no namespace"):
        await daemon.delete(NAMESPACES, "theirs")
    await made.admin.create(SECRETS, {"metadata": {"name": "theirs"}}, "default")
    with pytest.raises(Forbidden, match="tenant namespaces and its own only"):
        await daemon.delete(SECRETS, "theirs", "default")
    await no_label_opens_the_fence(made)
    await nothing_that_stands_for_a_gateway_can_run(made)
    await no_serving_certificate_of_another_is_approved(made)
    await tokens_are_of_offloaded_pods_and_short(made)
    assert (await take(made.admin, "liqo")).policies == ()
