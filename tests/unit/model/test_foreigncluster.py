"""The status of a ForeignCluster: in the words of a real one, on both sides."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from liqod.model import conditions
from liqod.model.foreigncluster import NODES, VIRTUAL_NODES, Facts, role, status
from liqod.resources import VirtualNode
from liqod.resources.core import STATUSES, TYPES
from liqod.resources.nodes import VirtualNodeCondition, VirtualNodeSpec, VirtualNodeStatus

OBJECTS = Path(__file__).parents[2] / "fixtures" / "objects"


def node(kubelet="Running", core="Running", *, create=True) -> VirtualNode:
    found = (VirtualNodeCondition("VirtualKubelet", kubelet), VirtualNodeCondition("Node", core))
    return VirtualNode(
        spec=VirtualNodeSpec(cluster_id="lz", create_node=create),
        status=VirtualNodeStatus(conditions=found),
    )


def of_real_peering(side: str) -> dict[str, Any]:
    path = OBJECTS / side / "cr-foreignclusters.core.liqo.io.yaml"
    found: dict[str, Any] = yaml.safe_load(path.read_text())["items"][0]["status"]
    return found


def without_times(found: dict[str, Any]) -> dict[str, Any]:
    def plain(part: dict[str, Any]) -> dict[str, Any]:
        listed = [
            {key: value for key, value in each.items() if key != "lastTransitionTime"}
            for each in part.get("conditions", ())
        ]
        return {**part, **({"conditions": listed} if listed else {})}

    modules = {name: plain(module) for name, module in found["modules"].items()}
    return {**plain(found), "modules": modules}


def test_a_provider_in_liqos_own_words():
    facts = Facts(
        lends=True,
        identity_ready=True,
        api_server="https://127.0.0.1:20112",
        local="liqo-tenant-lz",
        remote="liqo-tenant-ly",
        link_up=True,
        virtual_nodes=(node(),),
        generation=1,
    )
    assert status(facts) == without_times(of_real_peering("consumer"))


def test_a_consumer_in_liqos_own_words():
    facts = Facts(borrows=True, tenant_ready=True, local="liqo-tenant-ly", generation=1)
    assert status(facts) == without_times(of_real_peering("provider"))


@pytest.mark.parametrize(
    ("lends", "borrows", "expected"),
    [
        (False, False, "Unknown"),
        (True, False, "Provider"),
        (False, True, "Consumer"),
        (True, True, "ConsumerAndProvider"),
    ],
)
def test_roles(lends, borrows, expected):
    assert role(Facts(lends=lends, borrows=borrows)) == expected


@pytest.mark.parametrize(
    ("nodes", "kubelets", "cores"),
    [
        ([node()], ("Ready", "VirtualNodesReady"), ("Ready", "NodesReady")),
        (
            [node(), node("Creating", "Draining")],
            ("SomeNotReady", "VirtualNodesSomeNotReady"),
            ("SomeNotReady", "NodesSomeNotReady"),
        ),
        (
            [node("Creating", "Creating")],
            ("NotReady", "VirtualNodesNotReady"),
            ("NotReady", "NodesNotReady"),
        ),
        ([node(create=False)], ("Ready", "VirtualNodesReady"), None),
    ],
)
def test_virtual_nodes_are_summed_up(nodes, kubelets, cores):
    module = status(Facts(lends=True, virtual_nodes=tuple(nodes)))["modules"]["offloading"]
    assert module["enabled"] is True
    for kind, expected in ((VIRTUAL_NODES, kubelets), (NODES, cores)):
        found = conditions.find(module["conditions"], kind)
        assert (found and (found["status"], found["reason"])) == expected


@pytest.mark.parametrize("link", [None, True, False])
@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize("both", [True, False])
def test_types_and_statuses_are_those_that_the_crd_takes(link, ready, both):
    facts = Facts(
        lends=True,
        borrows=both,
        identity_ready=ready,
        tenant_ready=ready,
        link_up=link,
        link_reason="connection refused",
    )
    found = status(facts)
    listed = [*found.get("conditions", ())]
    for module in found["modules"].values():
        listed += module.get("conditions", ())
    assert {each["type"] for each in listed} <= set(TYPES)
    assert {each["status"] for each in listed} <= set(STATUSES)
    assert all(each["reason"] and each["message"] for each in listed)
