"""The conditions of a VirtualNode that stands for more than was asked for."""

import msgspec
import pytest

from liqod.consumer.nodes.virtualnodestatus import instead_of_parts
from liqod.resources import VirtualNode

GROUP = '{"groups":[{"nodes":3}]}'
MACHINE = '{"groups":[{"nodes":1,"key":"0a1b2c3d"}]}'


@pytest.mark.parametrize(
    ("asked", "part", "told", "reason"),
    [
        ("", "", "", ""),
        ("groups", "", "", "NotTold"),
        ("groups", "0a1b2c3d", GROUP, ""),
        ("nodes", "", "", "NotTold"),
        ("nodes", "0a1b2c3d", GROUP, "NotTold"),
        ("nodes", "0a1b2c3d", MACHINE, ""),
    ],
)
def test_what_a_provider_does_not_tell_is_a_reason(
    asked: str, part: str, told: str, reason: str
) -> None:
    notes = {"liqod.io/virtual-nodes": asked, "liqod.io/free-capacity": told}
    marks = {"liqod.io/part": part} if part else {}
    metadata = {"name": "milan", "labels": marks, "annotations": notes}
    node = msgspec.convert({"metadata": metadata}, VirtualNode)
    assert instead_of_parts(node).get("reason", "") == reason
