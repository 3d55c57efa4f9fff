"""The ranges of a cluster's pods, from those of its nodes."""

import pytest

from liqod.network.ipam.own import uncovered, whole


@pytest.mark.parametrize(
    ("nodes", "others", "found"),
    [
        ((), (), ()),
        (("10.244.0.0/24",), (), ("10.244.0.0/16",)),
        (("10.244.0.0/24", "10.244.7.0/24"), ("192.168.1.1",), ("10.244.0.0/16",)),
        (("10.244.0.0/24", "10.9.7.0/24"), (), ("10.9.0.0/16", "10.244.0.0/16")),
        # A node or a Service lies in what would be the whole.
        (("10.0.1.0/24", "10.0.2.0/24"), ("10.0.200.4",), ("10.0.1.0/24", "10.0.2.0/24")),
        (("10.96.0.0/24",), ("10.96.128.0/20",), ("10.96.0.0/24",)),
        # Set up with care: it stays as it is.
        (("10.128.0.0/20",), (), ("10.128.0.0/20",)),
        (("10.0.0.0/15",), (), ("10.0.0.0/15",)),
        (("fd00:244::/64", "10.244.1.0/24"), (), ("10.244.0.0/16", "fd00:244::/56")),
        # One lies in the other.
        (("10.244.0.0/16", "10.244.3.0/24"), ("10.244.9.0/24",), ("10.244.0.0/16",)),
    ],
)
def test_a_clusters_ranges(
    nodes: tuple[str, ...], others: tuple[str, ...], found: tuple[str, ...]
) -> None:
    assert whole(nodes, others) == found
    assert uncovered(nodes, found) == ()


def test_what_was_told_is_not_told_again() -> None:
    told = ("10.244.0.0/16",)
    assert uncovered(("10.244.0.0/16", "10.245.0.0/16", "fd00::/56"), told) == (
        "10.245.0.0/16",
        "fd00::/56",
    )
