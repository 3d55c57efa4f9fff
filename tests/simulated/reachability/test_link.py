"""The link over real sockets, with the waits cut to a twentieth."""

from types import SimpleNamespace

import pytest
import trio

from liqod.consumer.link import PeerLink
from liqod.consumer.remotes import Remotes
from liqod.consumer.timings import ORDINARY, ConsumerTimings
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.runtime.backoff import Backoff
from simulator import EmbeddedCluster
from simulator.faults import Fault

SOON = ConsumerTimings(
    probe_every=ORDINARY.probe_every / 20,
    first_deadline=ORDINARY.first_deadline / 20,
    second_deadline=ORDINARY.second_deadline / 20,
    retries=Backoff(ORDINARY.retries.first / 20, ORDINARY.retries.last / 20),
)
"""A twentieth of the usual waits."""


class OneRemote(Remotes):
    """One identity, for ever."""

    def __init__(self, kubeconfig):
        self.remote = SimpleNamespace(credentials=from_kubeconfig(kubeconfig))

    def control(self):
        return self.remote

    def any_slice(self):
        return None

    async def changed(self):
        await trio.sleep_forever()


@pytest.fixture
async def cluster():
    async with EmbeddedCluster("milan") as embedded:
        yield embedded


@pytest.fixture
async def link(cluster, nursery):
    watched = PeerLink(timings=SOON)
    nursery.start_soon(watched.run, OneRemote(cluster.kubeconfig))
    await becomes(watched, True)
    return watched


async def becomes(link, up):
    """Wait for it; returns the reason."""
    with trio.fail_after(5):
        while link.up is not up or not link.probed:
            await link.wait_changed()
    return link.reason


async def test_a_frozen_server_is_down_until_it_thaws(cluster, link):
    began = trio.current_time()
    cluster.faults.freeze()
    assert "answers nothing" in await becomes(link, False)
    assert trio.current_time() - began < 25 / 20 + 0.5
    cluster.faults.thaw()
    await becomes(link, True)


async def test_a_stopped_server_is_down_at_once(cluster, link):
    began = trio.current_time()
    await cluster.stop()
    assert "cannot connect" in await becomes(link, False)
    assert trio.current_time() - began < 1
    await cluster.start()
    await becomes(link, True)


async def test_a_server_that_fails_is_down(cluster, link):
    fault = Fault(path="/livez", status=503)
    with cluster.faults.during(fault):
        assert "503" in await becomes(link, False)
    await becomes(link, True)


async def test_a_refused_certificate_is_named(cluster, nursery):
    watched = PeerLink(timings=SOON)
    nursery.start_soon(watched.run, OneRemote(cluster.kubeconfig_with_token("no such token")))
    assert "refuses" in await becomes(watched, False)
