"""A consumer that floods its provider: what the provider's daemon holds and does meanwhile."""

from __future__ import annotations

import base64
import time

import pytest
import trio

from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.resources import SHADOW_PODS
from tests.cluster.test_offloading import offload, settle
from tests.simulated.lender import shadow_pod
from tests.testbed.api import wait_until
from tests.testbed.clusters import Clusters
from tests.testbed.federation import Member
from tests.testbed.workloads import core, deployment, deployments, group

pytestmark = [pytest.mark.cluster, pytest.mark.load]

HUGE = 60
MIB = 1 << 20
BOUND = 32 * MIB
"""Bytes by which the daemon's memory may grow under sixty megabytes."""
SLICES_KUBECONFIG = "kubeconfig-resourceslice-milan"


def kubeconfig_of_slice(rome: Member) -> bytes:
    """Returns the kubeconfig that the provider issued to the slice's user."""
    secret = rome.api.get(core("liqo-tenant-milan", "secrets", SLICES_KUBECONFIG))
    return base64.b64decode(secret["data"]["kubeconfig"])


async def flood(kubeconfig: bytes, namespace: str) -> None:
    """ShadowPods of a megabyte each, eight at a time."""
    fat = {"env": [{"name": "FAT", "value": "x" * 1_000_000}]}
    limit = trio.CapacityLimiter(8)
    async with Client(from_kubeconfig(kubeconfig)) as client, trio.open_nursery() as nursery:

        async def one(number: int) -> None:
            # Not as this consumer's daemon marks its own, which would clear them away.
            marks = {"offloading.liqo.io/destination": "elsewhere"}
            body = shadow_pod(f"huge-{number}", user="", labels=marks)
            body["spec"]["pod"]["containers"][0] |= fat
            async with limit:
                await client.create(SHADOW_PODS, body, namespace)

        for number in range(HUGE):
            nursery.start_soon(one, number)


def test_huge_shadow_pods_are_not_held_and_hold_nobody_up(peered: Clusters) -> None:
    rome, milan = peered.rome, peered.milan
    shop = peered.namespace(rome)
    offload(rome, shop, "--pod-offloading-strategy", "Remote")
    rome.create(deployments(shop), deployment("web", 2))
    settle(rome, shop, 2)
    before = milan.daemon.usage()
    started = time.monotonic()
    trio.run(flood, kubeconfig_of_slice(rome), f"{shop}-rome")
    took = time.monotonic() - started
    during = milan.daemon.usage()
    shadows = group("offloading.liqo.io/v1beta1", f"{shop}-rome", "shadowpods", f"huge-{HUGE - 1}")

    def told() -> bool:
        status = milan.api.get(shadows).get("status", {})
        return status.get("reason") == "TooLarge" and "max_pod_bytes" in status["message"]

    wait_until("the last one to be told", told, 60)
    rome.patch(deployments(shop, "web"), {"spec": {"replicas": 4}})
    started = time.monotonic()
    settle(rome, shop, 4)
    honest = time.monotonic() - started
    after = milan.daemon.usage()
    resident = [f"{each.rss / MIB:.0f}" for each in (before, during, after)]
    print(
        f"{HUGE} MB in {took:.1f} s: resident {', '.join(resident)} MiB "
        f"(peak {after.peak / MIB:.0f}), {after.cpu - before.cpu:.2f} s of CPU; "
        f"two more pods Ready in {honest:.1f} s"
    )
    assert after.peak - before.rss < BOUND
    assert len(milan.ready_pods(f"{shop}-rome")) == 4
