"""Policies over kinds of third parties, as any reflector writes them."""

from typing import Any

import msgspec
import pytest

from liqod.apimachinery.kinds import PODS
from liqod.model.crossing.overrides import Override, compiled
from liqod.plugins.contracts import Json, Kind, Plan, Reflector, RemoteKind, Several, View, Watch
from liqod.reflection.overrides import Overriding

GADGETS = Kind("example.com", "v1", "Gadget", "gadgets")
BOXES = Kind("example.com", "v1", "Box", "boxes")
GADGET: Json = {
    "apiVersion": "example.com/v1",
    "kind": "Gadget",
    "metadata": {"name": "lamp", "namespace": "shop", "labels": {"app": "shop"}},
    "spec": {"size": 2, "image": "lamps/led:1"},
}


def outgoing(gadget: Json, view: View) -> Plan:
    return Plan()


def reflector(**remote: Any) -> Reflector:
    return Reflector(
        name="gadgets",
        kind=GADGETS,
        outgoing=outgoing,
        remote=(RemoteKind(watch=Watch.FULL, **remote),),
        several=Several.FIRST,
    )


def policy(**spec: Any) -> Override:
    told = {"objects": [{"kind": "Gadget", "apiVersion": "example.com/v1"}], **spec}
    meta = {"name": "mirror", "namespace": "shop"}
    found = compiled(msgspec.json.encode({"metadata": meta, "spec": told}))
    assert not found.problem
    return found


LARGER = policy(
    labels={"site": "milan"}, patch=[{"op": "replace", "path": "/spec/size", "value": "9"}]
)


def test_a_kind_of_a_third_party_is_changed_as_those_of_the_core_are() -> None:
    overriding = Overriding(reflector(kind=GADGETS), GADGET, [LARGER], "milan")
    made = overriding.change(GADGET)
    assert made["spec"] == {"size": 9, "image": "lamps/led:1"}
    assert made["metadata"]["labels"] == {"app": "shop", "site": "milan"}
    assert GADGET["spec"]["size"] == 2
    assert overriding.problems == {}


@pytest.mark.parametrize(("content", "size"), [("spec.gadget", 9), ("", 2)], ids=["has", "none"])
def test_one_that_crosses_as_another_kind_is_changed_where_that_kind_has_its_spec(
    content: str, size: int
) -> None:
    box = {
        "apiVersion": "example.com/v1",
        "kind": "Box",
        "metadata": {"name": "lamp"},
        "spec": {"gadget": GADGET["spec"], "size": 1},
    }
    overriding = Overriding(reflector(kind=BOXES, content=content), GADGET, [LARGER], "milan")
    made = overriding.change(box)
    assert made["spec"]["gadget"]["size"] == size
    assert made["spec"]["size"] == 1


def test_an_operation_without_a_path_in_such_a_kind_is_told() -> None:
    lost = policy(patch=[{"op": "replace", "path": "/spec/colour", "value": '"red"'}])
    overriding = Overriding(reflector(kind=GADGETS), GADGET, [lost, LARGER], "milan")
    assert overriding.change(GADGET)["spec"]["size"] == 9
    assert overriding.problems == {"shop/mirror": "there is no /spec/colour to replace"}


def test_a_policy_for_another_kind_or_peer_changes_none_of_it() -> None:
    pods = compiled(
        msgspec.json.encode(
            {
                "metadata": {"name": "pods", "namespace": "shop"},
                "spec": {"objects": [{"kind": PODS.name}], "labels": {"a": "b"}},
            }
        )
    )
    turin = policy(peers=["turin"], labels={"a": "b"})
    overriding = Overriding(reflector(kind=GADGETS), GADGET, [pods, turin], "milan")
    assert overriding.change(GADGET) is GADGET
