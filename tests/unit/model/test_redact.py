"""No secret leaves: not in a field of its name, not in a text, not in base64."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.model.view.redact import HIDDEN, redact, redact_value, scrub

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
        r"{\"token\": \"PLANTED\"}",
        "mysqldump --password PLANTED --all-databases",
        "--db-password 'PLANTED and more'",
        'DB_PASSWORD="PLANTED PLANTED" run',
        "DB_PASSWORD=PLANTED",
        "AWS_SECRET_ACCESS_KEY=PLANTED",
        "AccountName=a;AccountKey=PLANTED;x=y",
        "Authorization: Basic UExBTlRFRA==",
        "curl -H 'authorization: token PLANTED' https://x",
        "Proxy-Authorization: PLANTED",
        "git clone https://PLANTED@example.org/x.git",
        "https://user:PLANTED@PLANTED@example.org/",
        "HTTPS_PROXY=user:PLANTED@proxy:3128",
        "GET /x?a=b&X-Amz-Signature=PLANTED&access_token=PLANTED",
        KEY[:60],
        "peer liqod://milan.example:6446/#v1.PLANTED-_x at once",
        f"the rest is v1.{'A' * 60}PLANTED",
        "LS0tLS1CRUdJTiBQUklWQVRFUExBTlRFRA==PLANTED"[:38] + "== done",
    ],
)
def test_a_text_is_without_its_secrets(text: str):
    assert "PLANTED" not in scrub(text)
    assert "UExBTlRFRA" not in scrub(text)


def test_ordinary_texts_stay_as_they_are():
    for text in (
        "its API server answers",
        "https://milan:6443",
        "pod shop/web: no such image",
        "registry:5000/team/web:1.2@sha256:0123456789abcdef",
        'MountVolume.SetUp failed: secret "web" not found',
        "its certificate is from 10:20:30 on, token-less",
        f"its advert is v1.{'A' * 300}.{'B' * 86}",
        "Basic features and a bearer of news",
    ):
        assert scrub(text) == text


SECRETS = st.text("ABCabc0189+_.~-", min_size=8, max_size=40).map("Zq7".__add__)
FORMS = st.sampled_from(
    [
        "{n}={s}",
        "{n}: {s}",
        "x --{n} {s} y",
        'a "{n}": "{s}", b',
        "export {n}='{s} {s}'",
        "--{n}={s}",
        "Authorization: Basic {s}",
        "authorization=Bearer {s}",
        "https://{s}@host/path",
        "socks5://user:{s}@host:1080",
        "ALL_PROXY=user:{s}@host:1080",
    ]
)
NAMES = st.tuples(
    st.sampled_from(["", "DB_", "my-", "X-Amz-", "root."]),
    st.sampled_from(
        [
            "password",
            "PASSWD",
            "secret",
            "Token",
            "api_key",
            "apikey",
            "ACCESS-KEY",
            "credential",
            "pwd",
        ]
    ),
    st.sampled_from(["", "_ID", "-1", "s"]),
).map("".join)


@given(FORMS, NAMES, SECRETS, st.text(max_size=20), st.text(max_size=20))
def test_no_secret_that_is_named_so_is_left_in_any_text(form, name, secret, before, after):
    text = f"{before} {form.format(n=name.replace('.', '-'), s=secret)} {after}"
    assert secret not in scrub(text)


@given(NAMES, SECRETS, st.sampled_from(["args", "command", "env", "httpHeaders", "params"]))
def test_no_secret_is_left_in_the_lists_of_an_object(name, secret, field):
    words = ["run", f"--{name.replace('.', '-')}", secret, "--name", "web"]
    found = redact(
        {"kind": "Pod", "spec": {field: words, "more": [{"name": name, "value": secret}]}}
    )
    assert secret not in json.dumps(found)
    assert found["spec"][field][-2:] == ["--name", "web"]


@given(st.text(), SECRETS)
def test_variables_are_hidden_whatever_they_are_called(name, value):
    plain = redact({"kind": "Pod", "spec": {"env": [{"name": name, "value": value}]}})
    assert plain["spec"]["env"][0]["value"] == HIDDEN


@given(st.text(), FORMS, NAMES, SECRETS)
def test_what_is_redacted_stays_as_it_is(before, form, name, secret):
    once = scrub(before + form.format(n=name, s=secret))
    assert scrub(once) == once


@given(st.text("abcdfghijlmnop 0123456789./-_(),"))
def test_texts_without_such_words_are_not_touched(text):
    assert scrub(text) == text


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "a:",
        "=a:b",
        "eyJ",
        "-eyJaaaaaaaa",
        "://a",
        "-----BEGIN PRIVATE KEY-----",
        "secret ",
        "--secret-",
        'password="',
        "authorization: basic ",
        "-",
        "_token_",
        "user:pass",
    ],
)
def test_a_long_text_takes_no_longer_than_its_length(piece: str):
    text = piece * (256 * 1024 // len(piece))
    began = time.process_time()
    scrub(text)
    assert time.process_time() - began < 1.25


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
