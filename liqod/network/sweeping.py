"""Orders the garbage of peers that are gone to be taken down on this machine.

The API server has the peers that are known. The machine's side finds the garbage of all others, and
takes it down by the names alone.

A peer's own task takes its network down while the peer is there. Where the tenant namespace went
first, or while no daemon ran, the private key of its tunnel shows that there may be something
(:class:`NetworkGarbageCollector`).

Garbage that has no key either is swept once, when a daemon leads (:func:`sweep`): objects that were
restored from an older copy, a namespace that was deleted by hand. It is found by this cluster's
mark. Nothing is taken away on one look: what is unknown has to be so twice, a minute apart, by the
API server's own answer, in a list that is not empty by mistake.
"""

import logging
from collections.abc import Collection, Iterator
from typing import Final

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, SECRETS
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.errors import LiqodError, NetworkError
from liqod.kube.cache.store import StoreChange
from liqod.kube.controller import Controller
from liqod.kube.selection import Selection
from liqod.kube.watched import DOUBT, Watched
from liqod.model import ids
from liqod.network.gateway import keysecrets
from liqod.network.remotemachine import RemoteMachine
from liqod.resources import FOREIGN_CLUSTERS, ForeignCluster
from liqod.telemetry.events import NetworkSwept

SETTLE: Final = 2.0
"""Seconds that a peer's own task has to do it."""
MANY: Final = 10
"""Of more than these nothing is swept where no peer is known at all: rather the list is wrong."""
UNKNOWN_FOR: Final = 60.0
"""Seconds for which a peer has to be unknown before its network is removed."""
TENANTS: Final = f"{labels.TENANT_NAMESPACE}={labels.TRUE}"
"""Labels of the tenant namespaces of peers."""
KEYS: Final = f"{labels.TUNNEL}={labels.TRUE}"
"""Labels of the Secrets that keep tunnels' private keys."""

log = logging.getLogger(__name__)


class NetworkGarbageCollector(Controller[str]):
    """Takes down the networks of peers that have no tenant namespace any more; keys are their ids.

    Args:
        machine: this machine.
    """

    def __init__(self, context: ClusterContext, machine: RemoteMachine) -> None:
        self._context = context
        self._machine = machine
        ours = Selection(context.namespace, labels=KEYS)
        self._keys = Watched(SECRETS, self._peers, ours, debounce=SETTLE)
        self._namespaces = Watched(NAMESPACES, self._left, debounce=SETTLE)
        super().__init__(
            context, "network", self._keys, self._namespaces, name="leftovers of networks"
        )

    def _peers(self, change: StoreChange) -> Iterator[str]:
        if change.new is not None:
            yield from _peer_of(change.new)

    def _left(self, change: StoreChange) -> Iterator[str]:
        if change.new is None and change.old is not None:
            yield from _peer_of(change.old)

    async def reconcile(self, peer: str) -> float | None:
        """Take down the rest of a peer that surely is gone."""
        client, own = self._context.client, self._context.namespace
        name = ids.gateway_resource(peer)
        if (own, name) not in self._keys.store:
            return None
        if self._namespaces.doubtful:
            return DOUBT
        selector = f"{TENANTS},{labels.REMOTE_CLUSTER_ID}={peer}"
        if await client.list(NAMESPACES, Selection(labels=selector), decode=Partial):
            return None
        await self._machine.end(peer)
        await keysecrets.forget(client, peer, own)
        self._context.hub.publish(NetworkSwept(peer=peer, did="taken down"))
        return None


def _peer_of(body: bytes) -> Iterator[str]:
    peer = msgspec.json.decode(body, type=Partial).metadata.labels.get(labels.REMOTE_CLUSTER_ID, "")
    if peer:
        yield peer


async def sweep(
    context: ClusterContext,
    machine: RemoteMachine,
    working: Collection[str] = (),
    unknown_for: float = UNKNOWN_FOR,
) -> tuple[str, ...]:
    """Have the rest of peers taken down that have been unknown for a minute; their marks.

    Args:
        machine: this machine.
        working: the ids of the peers whose tasks run, as a view.
        unknown_for: the seconds that count as a minute.

    Raises:
        LiqodError: it cannot be queried, or a part cannot be removed; it may be called again.
    """
    first = await machine.unknown(await known_peers(context, working))
    if not first:
        return ()
    await trio.sleep(unknown_for)
    peers = await known_peers(context, working)
    if len(first) > MANY and not peers:
        log.warning("%d networks are left on this machine, and no peer is known", len(first))
        return ()
    swept = await machine.sweep(first, peers)
    for mark in swept.marks:
        _, _, peer = mark.partition("/")
        context.hub.publish(NetworkSwept(peer=peer, did="swept"))
    if swept.problem:
        raise NetworkError(swept.problem)
    return swept.marks


async def known_peers(context: ClusterContext, working: Collection[str] = ()) -> list[str]:
    """The ids of all peers of which anything exists: by objects, and by tasks."""
    client, own = context.client, context.namespace
    found = [
        *await client.list(NAMESPACES, Selection(labels=TENANTS), decode=Partial),
        *await client.list(SECRETS, Selection(own, labels=KEYS), decode=Partial),
    ]
    known = {each.metadata.labels.get(labels.REMOTE_CLUSTER_ID, "") for each in found}
    clusters = await client.list(FOREIGN_CLUSTERS, decode=ForeignCluster)
    known |= {each.spec.cluster_id for each in clusters} | set(working)
    return sorted(each for each in known if each)


async def sweep_once(
    context: ClusterContext, machine: RemoteMachine, working: Collection[str]
) -> None:
    """As :func:`sweep`, until it was done; it begins once networks can be joined here."""
    await machine.wait_usable()
    while True:
        try:
            await sweep(context, machine, working)
            return
        except LiqodError as error:
            log.warning("what may be left of forgotten peers is not swept yet: %s", error)
            await trio.sleep(UNKNOWN_FOR)
