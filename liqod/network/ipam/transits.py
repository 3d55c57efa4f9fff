"""The external addresses by which pods of one peer reach endpoints at another (``transit``).

One for each endpoint at one peer that is published to another. It is an IP, so that it lasts; it is
lent to nobody, and opened to the one peer that its annotation names
(:class:`liqod.network.ipam.peercidrs.PeerCIDRs`). The endpoints come from
:class:`~liqod.cluster.transitaddresses.TransitAddresses`. An IP that is not wanted any more is
closed at once, and goes later: pods that still know its address find nothing there, and not the
next endpoint.
"""

import hashlib
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.cluster.transitaddresses import Passage
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.controller import Controller
from liqod.kube.deletion import delete_all
from liqod.kube.ensure import ensure
from liqod.kube.selection import Selection
from liqod.kube.watched import DOUBT, Watched
from liqod.model.network.ranges import holds
from liqod.network.ipam.configurations import TENANTS
from liqod.network.ipam.joinedpeers import JoinedPeers
from liqod.network.ipam.networks import TOPIC
from liqod.resources import CONFIGURATIONS, IP, IPS

PREFIX: Final = "transit-"
"""How names of these IPs begin; digits made of what it is for follow."""
CLOSED: Final = 60.0
"""Seconds for which an address that was released is given to nobody else."""

ADDRESSED: Final = 15.0
"""Seconds within which an IP has its address, if there is one for it."""
NO_ADDRESS: Final = "this cluster's external range has no address left"


class Transits(Controller[str]):
    """Keeps those IPs; a key is the name of one."""

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        self._wanted: dict[str, Passage] = {}
        self._released: set[str] = set()
        """Names of IPs that were wanted since this daemon began, and are no more."""
        self._closed: dict[str, float] = {}
        """When IPs were closed, by name."""
        self._waiting: dict[str, float] = {}
        """Since when IPs have no address, by name."""
        configurations = Watched(CONFIGURATIONS, self._on_change)
        namespaces: Watched[str] = Watched(NAMESPACES, self._on_change, Selection(labels=TENANTS))
        self._ips = Watched(IPS, self._on_ip, within=(context.namespace,))
        self._joined = JoinedPeers(context.client, namespaces, configurations)
        wishes = partial(self.whenever, context.transit.wishes(), self._on_wishes)
        super().__init__(
            context,
            TOPIC,
            namespaces,
            configurations,
            self._ips,
            name="transit",
            tasks=(wishes,),
        )

    async def prepare(self) -> None:
        """Take up all that was published before this began to listen."""
        for name in self._on_wishes():
            self.queue.add(name)

    def _on_ip(self, change: StoreChange) -> tuple[str, ...]:
        name = change.key[1]
        return (name,) if name.startswith(PREFIX) else ()

    def _on_change(self, change: StoreChange) -> Iterable[str]:
        """The ranges of a peer, or a peer, have changed."""
        return tuple(self._every())

    def _every(self) -> set[str]:
        there = {name for _, name in self._ips.store if name.startswith(PREFIX)}
        return there | self._wanted.keys()

    def _on_wishes(self) -> set[str]:
        """The names of IPs about which something else is wanted than before."""
        before = self._wanted
        self._wanted = {name_of(each): each for each in self._context.transit.wanted()}
        self._released = (self._released | before.keys()) - self._wanted.keys()
        # Those of before this daemon began go once their readers are settled.
        return self._every() - (before.keys() & self._wanted.keys())

    async def reconcile(self, name: str) -> float | None:
        """Have the IP of an endpoint, closed or not, or have none."""
        place: Key = (self._context.namespace, name)
        live = self._ips.store.decode(place, IP)
        passage = self._wanted.get(name) or passage_of(live)
        if passage is not None and self._context.transit.allows(passage.reader, passage.owner):
            problem = await self._problem(passage)
            if problem is None:
                return DOUBT
            lacks = "" if problem else self._lacks(name, live)
            self._context.transit.refuse(passage, problem or lacks)
            known = name in self._released or self._context.transit.is_settled(passage.reader)
            if not problem and (name in self._wanted or not known):
                self._closed.pop(name, None)
                await self._ensure(ip(self._context.namespace, passage))
                return ADDRESSED if name in self._waiting and not lacks else None
        self._waiting.pop(name, None)
        if live is None:
            self._closed.pop(name, None)
            self._released.discard(name)
        if live is None or labels.MANAGED_BY_LIQOD not in live.metadata.labels:
            return None
        await self._close(live)
        left = self._closed.setdefault(name, trio.current_time()) + CLOSED - trio.current_time()
        if left > 0:
            return left
        exact = self._ips.store.decode(place, Partial)
        await delete_all(self._context.client, IPS, [exact] if exact is not None else [])
        del self._closed[name]
        return None

    def _lacks(self, name: str, live: IP | None) -> str:
        """The reason why an IP that is to be open has no address; empty where it may get one."""
        if live is not None and live.status.ip:
            self._waiting.pop(name, None)
            return ""
        now = trio.current_time()
        since = self._waiting.setdefault(name, now)
        return NO_ADDRESS if now - since >= ADDRESSED else ""

    async def _close(self, live: IP) -> None:
        """Have an IP name nobody any more who reaches it."""
        passage = passage_of(live)
        if passage is not None:
            await self._ensure(ip(self._context.namespace, passage, opened=False))

    async def _ensure(self, wanted: dict[str, Any]) -> None:
        live = self._ips.store.get((self._context.namespace, wanted["metadata"]["name"]))
        await ensure(self._context.client, IPS, wanted, live=live)

    async def _problem(self, passage: Passage) -> str | None:
        """The reason why a passage leads nowhere; None while that is not sure, empty for none."""
        for peer in (passage.reader, passage.owner):
            found = self._joined.find(peer)
            if found is None:
                if await self._joined.is_there(peer):
                    return None
                if peer == passage.reader:
                    self._context.transit.forget(peer)
                return f"{peer} is not joined"
            if peer == passage.reader:
                continue
            if found.status.remote is None:
                return None  # It has no aliases yet.
            if not any(holds(each, passage.address) for each in found.status.remote.cidr.pod):
                return f"an address there is no pod's of {peer}"
        return ""


def name_of(passage: Passage) -> str:
    """The name of the IP of a passage."""
    text = "/".join((passage.reader, passage.owner, passage.address))
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()[:16]


def passage_of(found: IP | None) -> Passage | None:
    """The passage that an IP is opened for; None where it is for none."""
    if found is None:
        return None
    marks = found.metadata.annotations
    reader, owner = (marks.get(each) for each in (labels.TRANSIT_FROM, labels.TRANSIT_TO))
    passage = Passage(reader, owner, found.spec.ip) if reader and owner else None
    return passage if passage is not None and name_of(passage) == found.name else None


def ip(namespace: str, passage: Passage, *, opened: bool = True) -> dict[str, Any]:
    """The IP object of a passage; one that is closed names nobody who reaches it."""
    reader = {labels.TRANSIT_FROM: passage.reader} if opened else {}
    metadata = {
        "name": name_of(passage),
        "namespace": namespace,
        "labels": {labels.IP_TYPE: labels.TRANSIT, labels.MANAGED_BY_LIQOD: labels.TRUE},
        "annotations": {labels.TRANSIT_TO: passage.owner, **reader},
    }
    return {"metadata": metadata, "spec": {"ip": passage.address}}
