"""The names of Events, which an API server has to take whatever the object is called."""

import re

import pytest

from liqod.apimachinery.kinds import CONFIG_MAPS
from liqod.apimachinery.meta import ObjectMeta
from liqod.kube import recorder

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
"""RFC 1123, as the API server holds it."""


@pytest.mark.parametrize(
    "name", ["conf", "a" * 253, "a" * 199 + "-" + "b" * 40, "a" * 198 + ".-." + "b" * 40]
)
def test_a_name_that_is_cut_is_one_that_an_api_server_takes(name: str) -> None:
    meta = ObjectMeta(name=name, namespace="shop", uid="u")
    made = recorder.event(CONFIG_MAPS, meta, "Refused", "why", at="2026-01-02T03:04:05Z")
    called = made["metadata"]["name"]
    assert SUBDOMAIN.fullmatch(called)
    assert len(called) <= 253
