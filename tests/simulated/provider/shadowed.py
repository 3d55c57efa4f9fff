"""A lender with a mapped namespace, and the component that makes pods of its ShadowPods."""

from contextlib import asynccontextmanager

import trio

from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.provider.timings import ORDINARY, ProviderTimings
from liqod.provider.workloads.shadowpods import ShadowPods
from liqod.runtime.backoff import Backoff
from tests.simulated.lender import lender

SOON = ProviderTimings(pauses=Backoff(first=0.05, last=0.2))
"""Timings with which a refused object is soon tried again."""


@asynccontextmanager
async def lending(cluster):
    """A lender with a mapped namespace, before any grant and before the component runs."""
    async with (
        Client(from_kubeconfig(cluster.kubeconfig)) as admin,
        lender(admin, cluster.kubeconfig) as made,
    ):
        await made.map_namespace()
        yield made


@asynccontextmanager
async def at_work(made, timings=ORDINARY):
    async with trio.open_nursery() as nursery:
        await nursery.start(ShadowPods(made.peer, made.guest_policies, timings).run)
        yield
        nursery.cancel_scope.cancel()
