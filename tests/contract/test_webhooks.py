"""Mutating admission webhooks on pods: which they see, what they may change, how they fail."""

import base64
import secrets
import ssl
from functools import partial

import msgspec
import pytest
import trio

from liqod.apimachinery.kinds import MUTATING_WEBHOOKS, NAMESPACES, PODS
from liqod.identity import certificates
from liqod.kube.http.httpserver import HttpRequest, HttpResponse, serve
from tests.contract.api import Json, eventually

POD = {
    "metadata": {"generateName": "p-"},
    "spec": {"containers": [{"name": "c", "image": "i"}], "schedulerName": "nobody"},
}


class Hook:
    """A webhook on loopback, and how it behaves."""

    def __init__(self):
        self.ca = certificates.make_ca("hook")
        self.seen = []
        self.patch = [{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]
        self.allowed = True
        self.delay = 0.0
        self.status = 200
        self.port = 0
        self.connections = 0
        self.name = ""
        self.webhook: Json = {}

    async def greet(self) -> None:
        self.connections += 1

    async def handle(self, request: HttpRequest) -> HttpResponse:
        await trio.sleep(self.delay)
        review = msgspec.json.decode(request.body)
        self.seen.append(review["request"])
        response = {"uid": review["request"]["uid"], "allowed": self.allowed}
        if self.allowed and self.patch:
            patch = base64.b64encode(msgspec.json.encode(self.patch)).decode()
            response |= {"patch": patch, "patchType": "JSONPatch"}
        if not self.allowed:
            response["status"] = {"message": "not today", "code": 403}
        answer = {"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response}
        headers = {"content-type": "application/json"}
        return HttpResponse(self.status, msgspec.json.encode(answer), headers)

    def context(self, folder):
        pair = certificates.make_server(self.ca, ["127.0.0.1"])
        file = folder / "pair.pem"
        file.write_bytes(pair.certificate + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context


@pytest.fixture
async def hook(api, nursery, tmp_path):
    found = Hook()
    found.port = await nursery.start(
        partial(serve, found.handle, ssl_context=found.context(tmp_path), gate=found.greet)
    )
    mark = {"metadata": {"labels": {"hooked": api.namespace}}}
    await api.client.patch(NAMESPACES, api.namespace, mark)
    name = f"hook-{secrets.token_hex(4)}"
    webhook = {
        "name": "pods.hook.liqod.io",
        "clientConfig": {
            "url": f"https://127.0.0.1:{found.port}/mutate",
            "caBundle": base64.b64encode(found.ca.certificate).decode(),
        },
        "rules": [
            {
                "operations": ["CREATE"],
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "resources": ["pods"],
            }
        ],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "timeoutSeconds": 10,
        "namespaceSelector": {"matchLabels": {"hooked": api.namespace}},
        "objectSelector": {"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]},
    }
    await api.client.create(MUTATING_WEBHOOKS, {"metadata": {"name": name}, "webhooks": [webhook]})
    found.name, found.webhook = name, webhook

    async def called():
        answer = await api.create(PODS, POD, dryRun="All")
        return answer.body["metadata"].get("labels") == {"seen": "yes"}

    await eventually(called)
    yield found
    with trio.CancelScope(shield=True):
        await api.client.delete(MUTATING_WEBHOOKS, name)
    nursery.cancel_scope.cancel()


async def test_what_it_sees(api, hook):
    hook.seen.clear()
    made = await api.made(PODS, POD)
    assert made["metadata"]["labels"] == {"seen": "yes"}
    seen = hook.seen[-1]
    assert seen["operation"] == "CREATE"
    assert seen["namespace"] == api.namespace
    assert seen["kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert seen["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert seen["dryRun"] is False
    assert seen["oldObject"] is None
    assert seen["userInfo"]["username"]
    assert seen["object"]["kind"] == "Pod"
    assert seen["object"]["spec"]["serviceAccountName"] == "default"
    assert seen["object"]["spec"]["tolerations"][0]["tolerationSeconds"] == 300
    assert seen["object"]["metadata"]["generateName"] == "p-"


async def test_dry_run_is_told(api, hook):
    await api.create(PODS, POD, dryRun="All")
    assert hook.seen[-1]["dryRun"] is True


async def test_connections_are_kept(api, hook):
    before = hook.connections
    for _ in range(5):
        await api.create(PODS, POD, dryRun="All")
    assert hook.connections == before
    async with trio.open_nursery() as creators:
        for _ in range(4):
            creators.start_soon(partial(api.create, PODS, POD, dryRun="All"))
    assert hook.connections <= before + 3  # as many as there are reviews at once


async def test_selectors(api, hook):
    hook.seen.clear()
    skipped = {**POD, "metadata": {"name": "a", "labels": {"skip": "me"}}}
    made = await api.made(PODS, skipped)
    assert made["metadata"]["labels"] == {"skip": "me"}
    await api.client.patch(PODS, "a", {"metadata": {"labels": {"x": "y"}}}, api.namespace)
    assert hook.seen == []


async def test_change_of_the_spec_is_defaulted(api, hook):
    toleration = {"key": "k", "operator": "Exists"}
    hook.patch = [
        {"op": "add", "path": "/spec/tolerations/-", "value": toleration},
        {"op": "add", "path": "/spec/volumes/-", "value": {"name": "v"}},
    ]
    spec = (await api.made(PODS, POD))["spec"]
    assert spec["tolerations"][-1] == toleration
    assert spec["volumes"][-1] == {"name": "v", "emptyDir": {}}


async def test_refusal(api, hook):
    hook.allowed = False
    answer = await api.create(PODS, POD)
    assert answer.status == 403
    assert answer.message == 'admission webhook "pods.hook.liqod.io" denied the request: not today'


@pytest.mark.parametrize("trouble", ["slow", "broken"])
async def test_trouble_is_ignored_where_it_may_be(api, hook, trouble):
    if trouble == "slow":
        hook.delay = 30.0
        hurried = {**hook.webhook, "timeoutSeconds": 1}
        await api.client.patch(MUTATING_WEBHOOKS, hook.name, {"webhooks": [hurried]})
    else:
        hook.status = 500
    answer = await api.create(PODS, POD)
    assert answer.status == 201
    assert "labels" not in answer.body["metadata"]


async def test_patch_that_does_not_fit_is_nobodys_to_ignore(api, hook):
    hook.patch = [{"op": "remove", "path": "/spec/nothing/there"}]
    answer = await api.create(PODS, POD)
    assert (answer.status, answer.reason) == (500, "InternalError")


async def test_trouble_fails_where_it_must(api, hook):
    strict = {**hook.webhook, "failurePolicy": "Fail"}
    await api.client.patch(MUTATING_WEBHOOKS, hook.name, {"webhooks": [strict]})
    hook.status = 500

    async def failed():
        answer = await api.create(PODS, POD)
        return answer if answer.status == 500 else None

    answer = await eventually(failed)
    assert answer.reason == "InternalError"
    assert 'failed calling webhook "pods.hook.liqod.io"' in answer.message


async def test_wrong_authority(api, hook):
    other = certificates.make_ca("other").certificate
    config = {**hook.webhook["clientConfig"], "caBundle": base64.b64encode(other).decode()}
    changed = {**hook.webhook, "clientConfig": config}
    await api.client.patch(MUTATING_WEBHOOKS, hook.name, {"webhooks": [changed]})

    async def passed_by():
        answer = await api.create(PODS, POD)
        return "labels" not in answer.body["metadata"]

    await eventually(passed_by)


async def test_defaults_of_the_configuration(api, hook):
    found = await api.get(MUTATING_WEBHOOKS, hook.name)
    shown = found["webhooks"][0]
    assert shown["matchPolicy"] == "Equivalent"
    assert shown["reinvocationPolicy"] == "Never"
    assert shown["rules"][0]["scope"] == "*"
    assert found["metadata"]["generation"] == 1
