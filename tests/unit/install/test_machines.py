"""The nodes that an image is for, and what is said of the others."""

import platform
from typing import Any, cast

import msgspec
import pytest

from deploy import deb
from liqod.install import machines
from liqod.install.machines import Machine
from liqod.install.manifests import Options
from liqod.install.workload import ARCHITECTURES
from liqod.kube.client import Client

INTEL, ARM, BIG = Machine("a", "amd64"), Machine("b", "arm64"), Machine("c", "s390x")
FOR_ARM = Options(in_cluster=True, architectures=("arm64",))
FOR_BOTH = Options(in_cluster=True)


def test_images_are_made_for_what_an_installation_takes_for_granted():
    assert tuple(deb.ARCHITECTURES) == ARCHITECTURES


@pytest.mark.parametrize(
    ("found", "options", "said", "todo"),
    [
        ([INTEL], FOR_ARM, "the image is for arm64, and no node", "for amd64, too, and say so"),
        ([INTEL, BIG], FOR_ARM, "(amd64: a; s390x: c)", "--architecture amd64"),
        ([BIG], FOR_BOTH, "the image is for amd64 or arm64, and no", "add a node that is amd64 or"),
        # The daemon may not be on the one that the image is for.
        ([Machine("m", "arm64", is_barred=True), INTEL], FOR_ARM, "(amd64: a)", "amd64, too"),
        ([INTEL, ARM], FOR_ARM, "", ""),
        ([Machine("m", "amd64", is_barred=True)], FOR_ARM, "", ""),  # it is no matter of machines
        ([], FOR_ARM, "", ""),
    ],
)
def test_an_image_that_is_for_no_node_is_refused(
    found: list[Machine], options: Options, said: str, todo: str
):
    problem = machines.problem(found, options)
    assert (problem is not None) is bool(said)
    if problem is not None:
        assert said in problem[0]
        assert todo in problem[1]


def test_nodes_that_get_no_pod_are_named_where_that_costs_something(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    many = [Machine(f"n{number}", "amd64") for number in range(7)]
    [lost] = machines.told([ARM, *many], FOR_ARM)
    assert lost.startswith("the image is for arm64: these nodes get no liqod node")
    assert lost.endswith("amd64: n0, n1, n2, n3, n4 and 2 more")
    alone = Options(in_cluster=True, architectures=("arm64",), network=False)
    assert machines.told([ARM, *many], alone) == []
    assert machines.told([BIG], FOR_BOTH) == []  # it is refused
    assert machines.told([INTEL], FOR_BOTH) == []


def test_what_nobody_has_said_of_the_image_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    [both] = machines.told([INTEL, ARM], FOR_BOTH)
    assert both.startswith("nodes are amd64 and arm64, and the image has to be for both")
    [other] = machines.told([ARM], FOR_BOTH)
    assert other.startswith("nodes are arm64, and the image has to be for that")
    assert machines.told([ARM], FOR_ARM) == []
    assert machines.told(None, FOR_ARM) == [machines.NOT_LOOKED_AT]


async def test_virtual_nodes_are_none_and_only_lasting_taints_bar():
    class Cluster:
        async def list(self, kind: Any, selection: Any, *, decode: Any) -> list[Any]:
            assert selection.labels == "liqo.io/type!=virtual-node"
            lasting = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
            passing = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
            soft = {"key": "example.com/rather-not", "effect": "PreferNoSchedule"}
            made = {"a": [lasting], "b": [passing, soft], "c": []}
            labelled = {"labels": {"kubernetes.io/arch": "arm64"}}
            return [
                msgspec.convert(
                    {
                        "metadata": {"name": name, **(labelled if name != "c" else {})},
                        "spec": {"taints": taints},
                    },
                    decode,
                )
                for name, taints in made.items()
            ]

    found = await machines.look(cast("Client", Cluster()))
    assert found == [
        Machine("a", "arm64", is_barred=True),
        Machine("b", "arm64"),
        Machine("c", machines.UNKNOWN),
    ]
