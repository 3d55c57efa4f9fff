"""The machine's part of the overlay: carried out once, repaired, retried, released and reported."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from liqod.model.crossing.addresses import within
from liqod.network.dataplane.overlaychecks import RangeIndex
from liqod.network.dataplane.overlayplan import Overlay, OverlayNode
from liqod.network.machine.overlayservice import OverlayService
from liqod.network.orders.overlay import (
    LeadOverlay,
    OverlayReport,
    OverlayState,
    ReadUplink,
    ReleaseOverlay,
    RemoveOverlay,
    Uplink,
)
from tests.unit.network.kernels import NotedKernel

ONE = OverlayNode(name="one", address="192.168.1.10", index=1, pods=("10.244.0.0/24",))
TWO = OverlayNode(name="two", address="192.168.1.11", index=2, pods=("10.244.1.0/24",))
OVERLAY = Overlay(pods=("10.244.0.0/16",), aliases={"10.71.0.0/16": 1400})
LEAD = LeadOverlay(ONE, (ONE, TWO), OVERLAY)


@dataclass
class Machine:
    """One machine, and the reports of it that its daemon got."""

    kernel: NotedKernel = field(default_factory=NotedKernel)
    reports: list[OverlayReport] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.service = OverlayService("rome", self.kernel, self.reports.append)

    async def receive(self, *orders: LeadOverlay | RemoveOverlay | ReleaseOverlay) -> None:
        for each in orders:
            self.service.receive(each)
        await wait_all_tasks_blocked()


@asynccontextmanager
async def machine() -> AsyncIterator[Machine]:
    made = Machine()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.service.run)
        await wait_all_tasks_blocked()
        yield made
        nursery.cancel_scope.cancel()


async def test_the_same_order_is_carried_out_once_and_reported_to_each_daemon():
    async with machine() as made:
        await made.receive(LEAD)
        assert (len(made.kernel.plans), made.reports) == (1, [OverlayState()])
        await made.receive(LEAD)
        assert (len(made.kernel.plans), made.reports) == (1, [OverlayState()] * 2)


async def test_what_others_change_is_repaired_without_a_daemon():
    async with machine() as made:
        await made.receive(LEAD)
        made.kernel.disturbed.notify()
        await wait_all_tasks_blocked()
        assert (len(made.kernel.plans), made.reports) == (2, [OverlayState()])


async def test_a_refusal_is_reported_and_tried_again(autojump_clock: MockClock):
    async with machine() as made:
        made.kernel.refuses = "no lqx here"
        await made.receive(LEAD)
        await trio.sleep(5.0)
        assert made.reports == [OverlayState("no lqx here")]
        made.kernel.refuses = ""
        await trio.sleep(30.0)
        assert (len(made.kernel.plans), made.reports[1:]) == (1, [OverlayState()])


async def test_an_order_that_makes_no_plan_is_reported():
    async with machine() as made:
        wrong = OverlayNode(name="three", address="nowhere", index=3)
        await made.receive(LeadOverlay(ONE, (ONE, wrong), OVERLAY))
        (report,) = made.reports
        assert isinstance(report, OverlayState)
        assert report.problem


@pytest.mark.parametrize(
    ("node", "pods", "why"),
    [
        ({"address": "fd00::b%; flush ruleset"}, {}, "no address of a node"),
        ({"address": "127.0.0.1"}, {}, "no address of a node"),
        ({"address": ONE.address}, {}, "of the node"),
        ({"index": 1}, {}, "number 1 of the node"),
        ({"index": 4095}, {}, "index 4095"),
        ({"pods": ("0.0.0.0/0",)}, {}, "none of this cluster's pods"),
        ({"pods": ("192.168.1.0/24",)}, {}, "none of this cluster's pods"),
        ({"pods": ("10.244.1.0/24; drop",)}, {}, "no range"),
        ({"pods": ("10.244.1.0/24",) * 17}, {}, "17 ranges"),
        ({}, {"pods": ()}, "no range"),
        ({}, {"pods": ("0.0.0.0/0",)}, "every address"),
        ({}, {"pods": ("10.244.0.0/16", "fe80::1%; flush ruleset; /64")}, "host bits"),
        ({}, {"port": 65536}, "port"),
        ({}, {"vni": 0}, "vni"),
        ({}, {"mtu": 68}, "mtu"),
    ],
)
async def test_no_part_of_an_order_that_cannot_be_reaches_the_kernel(
    node: dict[str, Any], pods: dict[str, Any], why: str
):
    wrong = msgspec.structs.replace(TWO, **node)
    overlay = msgspec.structs.replace(OVERLAY, **pods)
    async with machine() as made:
        await made.receive(LEAD)
        await made.receive(LeadOverlay(ONE, (ONE, wrong), overlay))
        assert len(made.kernel.plans) == 1
        report = made.reports[-1]
        assert isinstance(report, OverlayState)
        assert why in report.problem
        await made.receive(LEAD)
        assert (len(made.kernel.plans), made.reports[-1]) == (2, OverlayState())


NETWORKS = st.builds(
    lambda number, length: f"{IPv4Address(number >> (32 - length) << (32 - length))}/{length}",
    st.integers(0, 255).map(lambda n: n << 24 | n << 12),
    st.integers(4, 30),
) | st.builds(
    lambda number, length: f"{IPv6Address(number >> (128 - length) << (128 - length))}/{length}",
    st.integers(0, 255).map(lambda n: n << 120 | n << 60),
    st.integers(4, 126),
)


@given(st.lists(NETWORKS, max_size=8), NETWORKS)
def test_a_range_lies_in_one_of_many(kept: list[str], one: str):
    found = ip_network(one) in RangeIndex(kept)
    assert found == any(within(ip_network(one), ip_network(each)) for each in kept)


async def test_a_machine_that_is_the_gateway_no_more_leaves_all_as_it_is():
    async with machine() as made:
        await made.receive(LEAD, ReleaseOverlay())
        made.kernel.disturbed.notify()
        await wait_all_tasks_blocked()
        assert made.kernel.removed == 0
        assert len(made.kernel.plans) == 0


async def test_the_overlay_is_removed_once_also_that_of_an_earlier_process():
    async with machine() as made:
        await made.receive(RemoveOverlay())
        await made.receive(RemoveOverlay())
        assert made.kernel.removed == 1
        await made.receive(LEAD)
        await made.receive(RemoveOverlay())
        assert made.kernel.removed == 2


async def test_a_machine_without_an_overlay_observes_nothing():
    async with machine() as made:
        await made.receive(ReleaseOverlay())
        assert made.kernel.attended == 0
        await made.receive(LEAD)
        assert made.kernel.attended == 1


async def test_the_mtu_of_an_uplink_is_read():
    async with machine() as made:
        made.service.receive(ReadUplink("192.168.1.10"))
        await wait_all_tasks_blocked()
        made.service.receive(ReadUplink("192.168.1.99"))
        await wait_all_tasks_blocked()
        assert made.reports == [
            Uplink("192.168.1.10", 1500),
            Uplink("192.168.1.99", problem="no interface"),
        ]
