"""A cluster that borrows, and naples, which lends it a real node; their pods reach each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from tests.testbed.api import wait_until
from tests.testbed.clusters import DAEMONS_OWN
from tests.testbed.controlplane import ControlPlane, Settings
from tests.testbed.federation import Federation, Member
from tests.testbed.fixtures import start_all
from tests.testbed.node import NodeCluster

ROUTED = {"peer_defaults": {"pod_network": "routed", "pod_cidrs": ["10.0.0.0/8"]}}
"""Fake nodes and the real one's link need no tunnel."""


@contextmanager
def pair(
    lender: NodeCluster,
    name: str,
    planes: Settings,
    *,
    own: Mapping[str, Any] | None = None,
    lent: Mapping[str, Any] | None = None,
    nodes: int = 1,
    spare: int = 0,
) -> Iterator[Federation]:
    """Both with their daemons, not peered yet.

    Args:
        lender: naples, which stays.
        name: the borrower's.
        planes: of the borrower's control plane.
        own: more settings of the borrower's daemon.
        lent: more of the lender's.
        nodes: fake ones of the borrower.
        spare: fake ones of the lender, beside the real one.
    """
    plane = ControlPlane(name, planes)
    start_all([plane])
    made = Federation()
    try:
        borrows = {"cluster": {"pod_cidrs": [planes.pod_cidr]}, **ROUTED, **(own or {})}
        made.join(plane, borrows, nodes=nodes)
        # The API server in there calls the daemon on this host by the link's address.
        webhook = {"host": lender.machine.gateway}
        lends = {"cluster": {"pod_cidrs": ["10.244.0.0/16"]}, "webhook": webhook}
        naples = made.join(lender.plane, {**lends, **ROUTED, **(lent or {})}, nodes=spare)
        for path in DAEMONS_OWN:
            wait_until(f"{path} at {naples.name}", partial(naples.api.exists, path), 60)
        yield made
    finally:
        made.close()
        plane.destroy()


@contextmanager
def offloading(made: Federation) -> Iterator[tuple[Member, Member]]:
    """Both, peered, and the borrower's namespace `shop`, whose pods all run at the lender."""
    borrower, lender = made.members.values()
    made.peer(borrower, lender)
    borrower.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    borrower.liqod("offload", "namespace", "shop", "--pod-offloading-strategy", "Remote")
    yield borrower, lender
    borrower.liqod("unoffload", "namespace", "shop", "--yes")
    borrower.liqod("unpeer", lender.name, "--yes")
    lender.liqod("unpeer", borrower.name, "--yes")
