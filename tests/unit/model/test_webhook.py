"""The webhook's answers and its announcement."""

import base64

import msgspec
import pytest

from liqod.errors import ProtocolError
from liqod.model.objects import webhook
from liqod.model.objects.scheduling import TOLERATION, Placement


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


def test_announcement_never_blocks_anything():
    made = webhook.configuration({"url": "https://x/mutate-pod", "caBundle": "YQ=="}, "liqo")
    for each in made["webhooks"]:
        assert each["failurePolicy"] == "Ignore"
        assert each["timeoutSeconds"] == 2
        assert each["sideEffects"] == "None"
