"""The package's own tests: the contract that liqod ships, and what its two functions say."""

from typing import Any

from liqod_gadgets import (  # type: ignore[import-not-found]  # a package of its own
    GADGETS,
    REFLECTOR,
    incoming,
    outgoing,
)

from liqod.kube.kinds import CONFIG_MAPS, Kind
from liqod.plugins.testing import ReflectorContract, StaticView


def manifest(kind: Kind, name: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}"},
        **more,
    }


LAMP = manifest(GADGETS, "lamp", spec={"size": 2})
PAINT = manifest(CONFIG_MAPS, "paint", data={"colour": "red"})
TWIN = manifest(GADGETS, "lamp", spec={"size": 2, "colour": "red"}, status={"lit": True})


class TestGadgets(ReflectorContract):
    reflector = REFLECTOR
    sources = (LAMP,)
    local = (PAINT,)
    remote = (TWIN,)


def test_a_gadget_is_painted() -> None:
    (twin,) = outgoing(LAMP, StaticView(REFLECTOR, local=[PAINT])).there
    assert twin["spec"] == {"size": 2, "colour": "red"}


def test_a_gadget_without_paint_says_so() -> None:
    plan = outgoing(LAMP, StaticView(REFLECTOR))
    assert plan.there == ()
    assert [reason.code for reason in plan.reasons] == ["NoPaint"]


def test_the_status_comes_back_where_it_differs() -> None:
    view = StaticView(REFLECTOR)
    assert incoming(LAMP, (TWIN,), view).status == {"lit": True}
    assert incoming({**LAMP, "status": {"lit": True}}, (TWIN,), view).status is None
