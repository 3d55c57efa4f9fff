"""The mapping of namespaces to peers, and of nodes to peers."""

import msgspec
import pytest

from liqod.plugins.contracts import Absence
from liqod.reflection.timings import ORDINARY
from liqod.reflection.topology import (
    NamespaceMapping,
    PartialVirtualNode,
    absence,
    mapping,
    virtual_nodes,
)
from liqod.resources.offloading import NamespaceMap


def the_map(name="milan", labels=None, phase="Accepted"):
    return msgspec.convert(
        {
            "metadata": {"name": name, "labels": labels or {"liqo.io/replication": "true"}},
            "spec": {"desiredMapping": {"shop": "shop-rome", "late": "late-rome"}},
            "status": {
                "currentMapping": {"shop": {"remoteNamespace": "shop-rome", "phase": phase}}
            },
        },
        NamespaceMap,
    )


def test_the_peers_own_map_counts():
    found = mapping([the_map("rome", {"liqo.io/replicated": "true"}), the_map()], "milan")
    assert found == NamespaceMapping(
        known=True, accepted={"shop": "shop-rome"}, desired=frozenset({"shop", "late"})
    )


def test_without_a_map_nothing_is_known():
    assert mapping([the_map("rome")], "milan") == NamespaceMapping()


def test_only_accepted_namespaces_are_mapped():
    assert mapping([the_map(phase="Terminating")], "milan").accepted == {}


def test_a_namespace_that_stays_is_not_mapped_whoever_wrote_it_into_the_map():
    assert mapping([the_map()], "milan", lambda local: local == "shop").accepted == {}
    assert mapping([the_map()], "milan", lambda local: local == "late").accepted


def test_a_peer_has_no_namespace_that_was_not_asked_of_it():
    body = msgspec.to_builtins(the_map())
    accepted = {"phase": "Accepted"}
    body["status"]["currentMapping"] |= {
        "kube-system": {"remoteNamespace": "kube-system-rome", **accepted},
        "late": {"remoteNamespace": "elsewhere", **accepted},
    }
    found = mapping([msgspec.convert(body, NamespaceMap)], "milan")
    assert found.accepted == {"shop": "shop-rome"}
    assert found.withdrawn == {"kube-system"}
    assert absence(found, "kube-system", None, ORDINARY.grace) is Absence.UNKNOWN
    assert absence(found, "late", None, ORDINARY.grace) is Absence.AWAITED


@pytest.mark.parametrize(
    ("namespace", "known", "unmapped_for", "expected"),
    [
        ("shop", True, None, Absence.MAPPED),
        ("late", True, 1e6, Absence.AWAITED),
        ("other", True, None, Absence.BRIEF),
        ("other", True, ORDINARY.grace - 1, Absence.BRIEF),
        ("other", True, ORDINARY.grace, Absence.LASTING),
        ("other", False, 1e6, Absence.UNKNOWN),
    ],
)
def test_absence_needs_a_map_and_time(namespace, known, unmapped_for, expected):
    current = mapping([the_map()], "milan") if known else NamespaceMapping()
    assert absence(current, namespace, unmapped_for, ORDINARY.grace) is expected


def test_virtual_nodes_are_those_of_the_peer():
    nodes = [
        msgspec.convert(
            {
                "metadata": {"name": name, "labels": labels},
                "spec": {"clusterID": peer, "offloadingPatch": {"labelsNotReflected": ["x"]}},
            },
            PartialVirtualNode,
        )
        for name, peer, labels in [
            ("milan", "milan", {"liqo.io/resourceslice-name": "small"}),
            ("milan-2", "milan", {}),
            ("turin", "turin", {}),
        ]
    ]
    found = virtual_nodes(nodes, "milan")
    assert {node.name: node.slice for node in found.values()} == {
        "milan": "small",
        "milan-2": "milan-2",
    }
    assert all(node.patch == {"labelsNotReflected": ["x"]} for node in found.values())
