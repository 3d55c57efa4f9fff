"""Validation of a provider's grant: the parts that are believed."""

import pytest

from liqod.consumer.slices.sliceobjects import amounts, node_labels


@pytest.mark.parametrize(
    "key",
    [
        "node-role.kubernetes.io/control-plane",
        "node-restriction.kubernetes.io/pci",
        "kubernetes.io/hostname",
        "node.kubernetes.io/exclude-from-external-load-balancers",
        "liqo.io/type",
        "liqod.io/anything",
        "offloading.liqo.io/origin",
        "not a label",
        "/empty",
        "",
    ],
)
def test_labels_that_mean_something_here_are_not_a_providers(key: str):
    found = {key: "x", "example.com/gpu": "a100"}
    assert node_labels(found, ("*/*",)) == {"example.com/gpu": "a100"}
    assert node_labels(found, (key, "example.com/*")) == {"example.com/gpu": "a100"}


def test_labels_that_tell_of_the_provider_are():
    good = {
        "topology.kubernetes.io/zone": "milan-1",
        "kubernetes.io/arch": "arm64",
        "tier": "gold",
        "empty": "",
    }
    assert node_labels(good, ("*/*",)) == good
    assert node_labels({"tier": "x" * 64, "other": "-"}, ("*/*",)) == {}
    assert node_labels({f"l{number}": "x" for number in range(65)}, ("*/*",)) == {}


def test_a_provider_is_not_believed_what_nobody_said_it_may_declare():
    found = {
        "compliance": "pci",
        "topology.kubernetes.io/region": "eu",
        "kubernetes.io/os": "linux",
    }
    assert node_labels(found) == {"kubernetes.io/os": "linux"}
    assert node_labels(found, ("topology.kubernetes.io/*",)) == {
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/region": "eu",
    }


def test_quantities_that_no_node_can_show_are_left_out_or_cut():
    found = amounts(
        {"cpu": "4", "memory": "1e30", "pods": -1, "x": "lots", "a b": "1", "example.com/fpga": 2}
    )
    assert found == {"cpu": "4", "memory": "1P", "example.com/fpga": 2}
    assert len(amounts({f"r{number}": "1" for number in range(9999)})) == 64
