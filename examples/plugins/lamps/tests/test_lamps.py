"""The contract of reflectors, and what this one says."""

from typing import Any

from liqod_lamps.plugin import KIND, REFLECTOR, outgoing

from simulator.suites import ReflectorContract, StaticView


def made(**more: Any) -> dict[str, Any]:
    """An object as an API server has it."""
    return {
        "apiVersion": KIND.api_version,
        "kind": KIND.name,
        "metadata": {"name": "first", "namespace": "shop", "uid": "uid-first"},
        "spec": {"size": 2},
        **more,
    }


class TestLamps(ReflectorContract):
    reflector = REFLECTOR
    sources = (made(),)
    remote = (made(status={"ready": True}),)
    elsewhere = (made(status={"ready": False}),)


def test_the_same_is_wanted_at_the_peer() -> None:
    (wanted,) = outgoing(made(), StaticView(REFLECTOR)).remote
    assert wanted["spec"] == {"size": 2}
