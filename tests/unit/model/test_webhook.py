"""The webhook's answers and its announcement."""

import base64

import msgspec
import pytest

from liqod.apimachinery import labels
from liqod.errors import ProtocolError
from liqod.model.objects import webhook
from liqod.model.objects.eligibility import Placement
from liqod.model.objects.scheduling import TOLERATION


def review(pod, namespace="shop"):
    request = {"uid": "u1", "namespace": namespace, "operation": "CREATE", "object": pod}
    return msgspec.json.encode({"kind": "AdmissionReview", "request": request})


def answered(pod, placement):
    body = webhook.answer(webhook.read_review(review(pod)), placement)
    response = msgspec.json.decode(body)["response"]
    assert response["uid"] == "u1"
    assert response["allowed"] is True
    if "patch" not in response:
        return None
    assert response["patchType"] == "JSONPatch"
    return msgspec.json.decode(base64.b64decode(response["patch"]))


def test_patch_in_an_offloaded_namespace():
    pod = {"metadata": {"name": "p"}, "spec": {"containers": []}}
    expected = [{"op": "add", "path": "/spec/tolerations", "value": [dict(TOLERATION)]}]
    assert answered(pod, Placement()) == expected
    assert answered(pod, None) is None


def test_probe_is_answered_with_its_number():
    pod = webhook.probe_pod("liqo", "17")
    patch = answered(pod, None)
    assert patch == [{"op": "add", "path": "/metadata/annotations", "value": {webhook.PROBE: "17"}}]
    assert not webhook.proved(pod, "17")
    pod["metadata"]["annotations"] = patch[0]["value"]
    assert webhook.proved(pod, "17")
    assert not webhook.proved(pod, "18")


@pytest.mark.parametrize("body", [b"", b"{}", b'{"request": {"uid": "x"}}', b"\xff"])
def test_nonsense(body):
    with pytest.raises(ProtocolError):
        webhook.read_review(body)


@pytest.mark.parametrize(
    ("advertise", "service", "address", "expected"),
    [
        ("", None, "10.0.0.1", {"url": "https://10.0.0.1:9443/mutate-pod"}),
        ("", None, "fd00::1", {"url": "https://[fd00::1]:9443/mutate-pod"}),
        ("hook.example:8443", None, "10.0.0.1", {"url": "https://hook.example:8443/mutate-pod"}),
        ("https://h.example/", ("liqo", "liqod"), "", {"url": "https://h.example/mutate-pod"}),
        (
            "",
            ("liqo", "liqod"),
            "10.0.0.1",
            {
                "service": {
                    "namespace": "liqo",
                    "name": "liqod",
                    "path": "/mutate-pod",
                    "port": 443,
                }
            },
        ),
    ],
)
def test_where_the_api_server_calls(advertise, service, address, expected):
    found = webhook.client_config(advertise=advertise, service=service, address=address, port=9443)
    assert found == expected


def test_announcement_blocks_namespaces_that_chose_so_and_nothing_else():
    called = {"url": "https://x/mutate-pod", "caBundle": "YQ=="}
    made = webhook.configuration(called, {**called, "url": "https://x/closed"}, "liqo")
    policies = {each["name"]: each["failurePolicy"] for each in made["webhooks"]}
    assert policies == {
        "pods.liqod.io": "Ignore",
        "closed.liqod.io": "Fail",
        "probe.liqod.io": "Ignore",
    }
    asked, closed, _ = (each["namespaceSelector"] for each in made["webhooks"])
    # Each pod is asked about once.
    [but] = asked["matchExpressions"]
    assert (but["key"], but["operator"]) == (labels.FAIL_CLOSED, "NotIn")
    assert closed["matchLabels"] == {labels.SCHEDULING_ENABLED: "true", labels.FAIL_CLOSED: "true"}
    [never] = closed["matchExpressions"]
    assert never["operator"] == "NotIn"
    assert {"kube-system", "liqo"} <= set(never["values"])
    for each in made["webhooks"]:
        assert each["timeoutSeconds"] == 2
        assert each["sideEffects"] == "None"
