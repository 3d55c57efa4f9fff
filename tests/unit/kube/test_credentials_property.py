"""Any kubeconfig gives credentials or a ConfigError, never another error."""

from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from liqod.errors import ConfigError
from liqod.kube.credentials.credentials import Credentials, from_kubeconfig
from liqod.kube.http.tls import client_context
from tests.unit.kube.test_credentials import config

WORDS = st.sampled_from(
    [
        *("name", "cluster", "clusters", "user", "users", "context", "contexts", "kind", "Config"),
        *("server", "certificate-authority-data", "client-certificate-data", "client-key-data"),
        *("token", "tokenFile", "exec", "auth-provider", "current-context", "proxy-url", "c", "k"),
        *("https://k:6443", "https://[::1]", "http://x:0", "//x", "LS0tLS1CRUdJTiA=", "namespace"),
        *("insecure-skip-tls-verify", "tls-server-name", "certificate-authority", "u", ""),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.dates() | WORDS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=20,
)


def check(text: str | bytes, base: Path | None) -> None:
    try:
        found = from_kubeconfig(text, base=base)
        assert isinstance(found, Credentials)
        assert found.server.startswith(("http://", "https://"))
    except ConfigError:
        return  # a reason is given: test_credentials looks at them


@settings(max_examples=50, deadline=None)
@given(VALUES, st.sampled_from([None, Path("/nowhere")]))
def test_any_value(value, base):
    check(yaml.safe_dump(value), base)


@settings(max_examples=75, deadline=None)
@given(
    st.dictionaries(WORDS, VALUES, max_size=3),
    st.dictionaries(WORDS, VALUES, max_size=3),
    st.dictionaries(WORDS, VALUES, max_size=2),
    st.sampled_from([None, Path("/nowhere")]),
)
def test_nearly_right(cluster, user, more, base):
    check(yaml.safe_dump({**config(cluster, user), **more}), base)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_text(text):
    check(text, None)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_broken_pem(data):
    pem = b"-----BEGIN CERTIFICATE-----\n" + data
    for given_ in (
        Credentials("https://x", ca=pem),
        Credentials("https://x", insecure=True, client_cert=pem, client_key=pem),
    ):
        with pytest.raises(ConfigError):
            client_context(given_)


def test_credentials_survive_being_sent():
    """They are values: what is encoded comes back the same."""
    whole = Credentials("https://x", ca=b"a", client_cert=b"b", client_key=b"c", token="d")
    assert msgspec.json.decode(msgspec.json.encode(whole), type=Credentials) == whole
