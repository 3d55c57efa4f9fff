"""Authentication and authorization: certificates, tokens, RBAC, reviews."""

import base64
import secrets

import msgspec
import pytest

from liqod.apimachinery.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SIGNING_REQUESTS,
    TOKEN_REVIEWS,
)
from liqod.errors import Forbidden, Unauthorized
from liqod.identity import certificates
from liqod.identity.certificaterequests import make_csr
from liqod.identity.keys import generate
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from tests.contract.api import Json, eventually

RBAC = "rbac.authorization.k8s.io"
SIGNER = "kubernetes.io/kube-apiserver-client"


async def request(api, csr, **more):
    spec = {
        "request": base64.b64encode(csr).decode(),
        "signerName": SIGNER,
        "usages": ["digital signature", "key encipherment", "client auth"],
        **more,
    }
    made = await api.made(
        SIGNING_REQUESTS, {"metadata": {"generateName": "contract-"}, "spec": spec}
    )
    return made["metadata"]["name"], made


async def approve(api, name):
    found = await api.get(SIGNING_REQUESTS, name)
    condition = {"type": "Approved", "status": "True", "reason": "Test", "message": "yes"}
    found.setdefault("status", {})["conditions"] = [condition]
    return await api.call("PUT", api.path(SIGNING_REQUESTS, name, "approval"), found)


async def signed(api, user, group, **more):
    """Credentials of that user and group, by way of a signing request."""
    key = generate()
    name, _ = await request(api, make_csr(key, user, group), **more)
    assert (await approve(api, name)).status == 200

    async def certificate():
        found = await api.get(SIGNING_REQUESTS, name)
        return found["status"].get("certificate")

    pem = base64.b64decode(await eventually(certificate))
    await api.client.delete(SIGNING_REQUESTS, name)
    return msgspec.structs.replace(api.credentials, client_cert=pem, client_key=key, token=None)


def bare(api, token=None):
    return msgspec.structs.replace(api.credentials, client_cert=None, client_key=None, token=token)


async def grant(api, subject, *rules):
    name = f"role-{secrets.token_hex(3)}"
    await api.client.create(
        ROLES, {"metadata": {"name": name}, "rules": list(rules)}, api.namespace
    )
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
        "subjects": [subject],
    }
    await api.client.create(ROLE_BINDINGS, binding, api.namespace)


def rule(verbs, resources, groups=("",), **more):
    return {"verbs": verbs, "apiGroups": list(groups), "resources": resources, **more}


async def test_certificates_are_signed(api):
    user, group = f"user-{secrets.token_hex(3)}", "liqo.io"
    credentials = await signed(api, user, group, expirationSeconds=3600)
    facts = certificates.read(credentials.client_cert)
    assert (facts.common_name, facts.organizations) == (user, (group,))
    assert 3000 < facts.not_after - facts.not_before < 4200
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer = await api.call("POST", path, review, credentials=credentials)
    info = answer.body["status"]["userInfo"]
    assert info["username"] == user
    assert sorted(info["groups"]) == ["liqo.io", "system:authenticated"]


async def test_request_is_its_makers(api):
    name, made = await request(api, make_csr(generate(), "x", "y"))
    assert made["spec"]["username"]
    assert "system:masters" in made["spec"]["groups"]
    assert made.get("status") in (None, {})
    changed = await api.client.patch(SIGNING_REQUESTS, name, {"spec": {"username": "other"}})
    assert changed.metadata.name == name
    found = await api.get(SIGNING_REQUESTS, name)
    assert found["spec"]["username"] == made["spec"]["username"]
    await api.client.delete(SIGNING_REQUESTS, name)


async def test_strangers_are_forbidden(api):
    user = f"user-{secrets.token_hex(3)}"
    credentials = await signed(api, user, "nobody")
    answer = await api.call("GET", api.path(PODS), credentials=credentials)
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.message == (
        f'pods is forbidden: User "{user}" cannot list resource "pods" in API group "" in the'
        f' namespace "{api.namespace}"'
    )
    answer = await api.call("GET", NAMESPACES.path(None, "kube-system"), credentials=credentials)
    assert answer.message == (
        f'namespaces "kube-system" is forbidden: User "{user}" cannot get resource "namespaces" in'
        ' API group "" in the namespace "kube-system"'
    )
    answer = await api.call("GET", CLUSTER_ROLES.path(), credentials=credentials)
    assert answer.message == (
        f'clusterroles.rbac.authorization.k8s.io is forbidden: User "{user}" cannot list resource'
        f' "clusterroles" in API group "{RBAC}" at the cluster scope'
    )
    answer = await api.call("GET", api.path(PODS, "p", "log"), credentials=credentials)
    assert 'cannot get resource "pods/log"' in answer.message
    assert (await api.call("GET", "/version", credentials=credentials)).status == 200
    answer = await api.call("GET", "/metrics", credentials=credentials)
    assert answer.message == f'forbidden: User "{user}" cannot get path "/metrics"'


async def test_nobody_in_particular(api):
    answer = await api.call("GET", api.path(PODS), credentials=bare(api))
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert 'User "system:anonymous" cannot list' in answer.message
    assert (await api.call("GET", "/livez", credentials=bare(api))).status == 200
    wrong = await api.call("GET", api.path(PODS), credentials=bare(api, "nonsense"))
    assert (wrong.status, wrong.reason) == (401, "Unauthorized")
    async with Client(bare(api, "nonsense")) as client:
        with pytest.raises(Unauthorized):
            await client.list(PODS, Selection(api.namespace))


async def test_roles_of_users_and_groups(api):
    user, group = f"user-{secrets.token_hex(3)}", f"group-{secrets.token_hex(3)}"
    credentials = await signed(api, user, group)
    await grant(api, {"kind": "User", "name": user}, rule(["get", "list"], ["pods", "pods/log"]))
    await grant(
        api,
        {"kind": "Group", "name": group},
        rule(["get", "watch", "list"], ["configmaps"], resourceNames=["mine"]),
    )
    await eventually(lambda: api.access("list", PODS, credentials))
    assert not await api.access("create", PODS, credentials)
    assert not await api.access("list", CONFIG_MAPS, credentials)
    async with Client(credentials) as client:
        assert await client.list(PODS, Selection(api.namespace)) == []
        with pytest.raises(Forbidden):
            await client.list(CONFIG_MAPS, Selection(api.namespace))
        assert await client.find(CONFIG_MAPS, "mine", api.namespace) is None
        assert (
            await client.list(CONFIG_MAPS, Selection(api.namespace, fields="metadata.name=mine"))
            == []
        )
        with pytest.raises(Forbidden):
            await client.get(CONFIG_MAPS, "other", api.namespace)


async def test_aggregated_roles(api):
    mark = f"liqod.io/test-{secrets.token_hex(3)}"
    user = f"user-{secrets.token_hex(3)}"
    credentials = await signed(api, user, "x")
    parts: Json = {"metadata": {"name": mark.replace("/", "-") + "-part", "labels": {mark: "true"}}}
    whole: Json = {
        "metadata": {"name": mark.replace("/", "-")},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {mark: "true"}}]},
        "rules": [],
    }
    try:
        await api.client.create(CLUSTER_ROLES, whole)
        await api.client.create(CLUSTER_ROLES, {**parts, "rules": [rule(["list"], ["secrets"])]})
        binding = {
            "metadata": {"name": "aggregated"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": whole["metadata"]["name"]},
            "subjects": [{"kind": "User", "name": user}],
        }
        await api.client.create(ROLE_BINDINGS, binding, api.namespace)
        await eventually(lambda: api.access("list", SECRETS, credentials))

        async def filled():
            found = await api.client.get(CLUSTER_ROLES, whole["metadata"]["name"])
            return found.get("rules")

        rules = await eventually(filled)
        assert rules == [rule(["list"], ["secrets"])]
    finally:
        await api.client.delete(CLUSTER_ROLES, whole["metadata"]["name"])
        await api.client.delete(CLUSTER_ROLES, parts["metadata"]["name"])


async def test_nobody_gives_what_they_lack(api):
    user = f"user-{secrets.token_hex(3)}"
    credentials = await signed(api, user, "x")
    await grant(
        api,
        {"kind": "User", "name": user},
        rule(["create"], ["roles", "rolebindings"], [RBAC]),
        rule(["get"], ["pods"]),
    )
    await eventually(lambda: api.access("create", ROLES, credentials))
    async with Client(credentials) as client:
        held = {"metadata": {"name": "held"}, "rules": [rule(["get"], ["pods"])]}
        await client.create(ROLES, held, api.namespace)
        more = {"metadata": {"name": "more"}, "rules": [rule(["get"], ["pods", "secrets"])]}
        with pytest.raises(Forbidden, match="attempting to grant RBAC permissions not currently"):
            await client.create(ROLES, more, api.namespace)
        binding = {
            "metadata": {"name": "b"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "User", "name": user}],
        }
        with pytest.raises(Forbidden):
            await client.create(ROLE_BINDINGS, binding, api.namespace)


async def test_binding_keeps_its_role(api):
    await grant(api, {"kind": "User", "name": "u"}, rule(["get"], ["pods"]))
    binding = (await api.client.list(ROLE_BINDINGS, Selection(api.namespace)))[0]
    assert binding["subjects"] == [{"kind": "User", "name": "u", "apiGroup": RBAC}]
    name = binding["metadata"]["name"]
    answer = await api.call(
        "PUT",
        api.path(ROLE_BINDINGS, name),
        {**binding, "roleRef": {**binding["roleRef"], "name": "x"}},
    )
    assert answer.status == 422
    assert "cannot change roleRef" in answer.message


async def token(api, account="default", **spec):
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return await api.call("POST", api.path(SERVICE_ACCOUNTS, account, "token"), body)


async def test_tokens(api):
    answer = await token(api, expirationSeconds=600)
    assert answer.status == 201
    issued = answer.body["status"]["token"]
    assert answer.body["status"]["expirationTimestamp"].endswith("Z")
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": api.namespace}
    await grant(api, subject, rule(["list"], ["pods"]))
    credentials = bare(api, issued)
    await eventually(lambda: api.access("list", PODS, credentials))
    answer = await api.call("GET", api.path(SECRETS), credentials=credentials)
    assert f'User "system:serviceaccount:{api.namespace}:default" cannot list' in answer.message
    review = await api.client.create_full(
        TOKEN_REVIEWS, {"metadata": {}, "spec": {"token": issued}}
    )
    assert review["status"]["authenticated"] is True
    info = review["status"]["user"]
    assert info["username"] == f"system:serviceaccount:{api.namespace}:default"
    assert f"system:serviceaccounts:{api.namespace}" in info["groups"]
    bad = await api.client.create_full(TOKEN_REVIEWS, {"metadata": {}, "spec": {"token": "x"}})
    assert not bad["status"].get("authenticated")


async def test_tokens_that_are_refused(api):
    assert (await token(api, "none")).status == 404
    short = await token(api, expirationSeconds=10)
    assert short.status == 422
    assert "may not specify a duration less than 10 minutes" in short.message
    other = await token(api, audiences=["elsewhere"], expirationSeconds=600)
    credentials = bare(api, other.body["status"]["token"])
    assert (await api.call("GET", api.path(PODS), credentials=credentials)).status == 401


async def test_bound_tokens(api):
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulerName": "nobody"}
    pod = await api.made(PODS, {"metadata": {"name": "p"}, "spec": spec})
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": pod["metadata"]["uid"]}
    issued = await token(api, boundObjectRef=reference, expirationSeconds=600)
    credentials = bare(api, issued.body["status"]["token"])
    assert (await api.call("GET", api.path(PODS), credentials=credentials)).status == 403
    await api.client.delete(PODS, "p", api.namespace, grace=0)

    async def refused():
        answer = await api.call("GET", api.path(PODS), credentials=credentials)
        return answer.status == 401

    await eventually(refused)


async def test_cluster_binding(api):
    user = f"user-{secrets.token_hex(3)}"
    credentials = await signed(api, user, "x")
    binding = {
        "metadata": {"name": f"b-{user}"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": user}],
    }
    await api.client.create(CLUSTER_ROLE_BINDINGS, binding)
    try:
        await eventually(lambda: api.access("list", PODS, credentials))
        assert not await api.access("list", SECRETS, credentials)
        assert not await api.access("delete", PODS, credentials)
    finally:
        await api.client.delete(CLUSTER_ROLE_BINDINGS, f"b-{user}")
