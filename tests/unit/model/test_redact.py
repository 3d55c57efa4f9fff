"""No secret leaves: not in a field of its name, not in a text, not in base64."""

import json

import pytest

from liqod.model.redact import redact, redact_value, scrub

KEY = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIPLANTED\n-----END EC PRIVATE KEY-----"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJQTEFOVEVEIn0.PLANTEDsignature"


@pytest.mark.parametrize(
    "text",
    [
        f"key: {KEY} and on",
        f"token is {JWT}",
        "Authorization: Bearer PLANTEDPLANTED",
        "proxy http://user:PLANTED@proxy:3128/",
        "--password=PLANTED --verbose",
        '{"token": "PLANTED"}',
        "LS0tLS1CRUdJTiBQUklWQVRFUExBTlRFRA==PLANTED"[:38] + "== done",
    ],
)
def test_a_text_is_without_its_secrets(text: str):
    assert "PLANTED" not in scrub(text)
    assert "UExBTlRFRA" not in scrub(text)


def test_ordinary_texts_stay_as_they_are():
    for text in ("its API server answers", "https://milan:6443", "pod shop/web: no such image"):
        assert scrub(text) == text


def test_an_object_keeps_its_shape_and_loses_its_secrets():
    found = {
        "kind": "Pod",
        "metadata": {
            "name": "web",
            "managedFields": [{}],
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "PLANTED",
                "note": "kept",
            },
        },
        "spec": {
            "containers": [
                {
                    "name": "web",
                    "args": ["--password=PLANTED"],
                    "env": [
                        {"name": "A", "value": "PLANTED"},
                        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "b"}}},
                    ],
                }
            ],
            "volumes": [{"name": "v", "secret": {"secretName": "kept"}}],
        },
    }
    plain = redact(found)
    text = json.dumps(plain)
    assert "PLANTED" not in text
    assert "managedFields" not in text
    assert plain["metadata"]["annotations"] == {"note": "kept"}
    assert plain["spec"]["volumes"] == found["spec"]["volumes"]  # type: ignore[index]
    env = plain["spec"]["containers"][0]["env"]
    assert env[0]["name"] == "A"
    assert env[1] == {"name": "B", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "b"}}}
    assert "managedFields" in found["metadata"], "the argument is not changed"


def test_secrets_and_configmaps_keep_the_names_of_their_fields():
    for kind in ("Secret", "ConfigMap"):
        found = redact({"kind": kind, "metadata": {"name": "x"}, "data": {"a": "UExBTlRFRA=="}})
        assert found["data"] == {"a": "(redacted)"}


def test_fields_are_hidden_by_their_names_wherever_they_are():
    found = redact_value(
        [{"user": {"token": "PLANTED", "client-key-data": "PLANTED", "name": "u"}}]
    )
    assert found == [
        {"user": {"token": "(redacted)", "client-key-data": "(redacted)", "name": "u"}}
    ]
