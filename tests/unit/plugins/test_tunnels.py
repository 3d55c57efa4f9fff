"""Descriptions of tunnel backends are looked at when they are loaded; a spec shows no key."""

from typing import Any

import pytest

from liqod.plugins.providers import TunnelProvider, TunnelSpec
from liqod.plugins.validation import provided_problem


def provider(**changed: Any) -> TunnelProvider:
    said: dict[str, Any] = {"name": "rope", "encrypted": True, "overhead": 60}
    return TunnelProvider(**{"build": lambda settings, services, place: None, **said, **changed})


def test_a_tunnel_backend_fits():
    assert provided_problem(provider()) is None
    assert provided_problem(provider(encrypted=False, on_request=True)) is None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"build": lambda settings, services: None}, "build has to take 3 values"),
        ({"encrypted": False}, "what does not encrypt is to have on_request=True"),
        ({"encrypted": "yes"}, "encrypted is to be True or False"),
        ({"overhead": 500}, "overhead is to be 0 to 220 bytes"),
        ({"port": 0}, "port is to be 1 to 65535"),
        ({"transport": "SCTP"}, "transport is to be 'UDP' or 'TCP'"),
        ({"name": "A Rope"}, "name is to be of small letters"),
    ],
)
def test_one_that_does_not_is_named_by_its_field(changed: dict[str, Any], said: str):
    assert said in (provided_problem(provider(**changed)) or "")


def test_a_spec_does_not_show_its_key():
    key = b"k" * 32
    spec = TunnelSpec(
        side="client",
        private_key=key,
        public_key=b"m" * 32,
        peer_public_key=key,
        endpoints=("[::1]:1",),
    )
    for shown in (repr(spec), str(spec), f"{spec}"):
        assert "k" * 32 not in shown
        assert "[::1]:1" in shown
