"""Makes the state that viewers see, of informers' objects, components, and summed events.

It opens no watch of its own and asks nobody. The tables of ``liqod status`` come from the same
pure functions (:mod:`liqod.model.view.overview`), so that both say the same.
"""

import os
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from liqod import __version__
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES, PODS
from liqod.cluster.context import ClusterContext
from liqod.consumer.nodes.virtualnodes import SELECTOR
from liqod.identity import certificates
from liqod.inspect import roomrows
from liqod.inspect.caches import Cache, Placed, itself
from liqod.inspect.components import Components
from liqod.inspect.facts import FactsInMemory
from liqod.inspect.summary import EventSummary
from liqod.kube.selection import Selection
from liqod.model.objects.partial import Node
from liqod.model.objects.podsight import LivePod, guest_of
from liqod.model.peering import capacity
from liqod.model.view import objectfacts, peerview, requests
from liqod.model.view.facts import REACHABLE, PeerFacts
from liqod.model.view.overview import Overview, overview
from liqod.model.view.peerview import Counted, counted
from liqod.model.view.problems import Problem
from liqod.model.view.requests import Request
from liqod.model.view.rows import Ladder
from liqod.model.view.snapshot import LISTED, Guest, Snapshot
from liqod.model.view.state import State
from liqod.plugins import examination
from liqod.plugins.host import PluginHost
from liqod.resources import (
    IDENTITIES,
    INCOMING_PEERINGS,
    OUTGOING_PEERINGS,
    Identity,
    IncomingPeering,
    OutgoingPeering,
    ResourceSlice,
    VirtualNode,
)

Expiry = tuple[str, str, float]


class Collector:
    """Collects while somebody watches; see :meth:`collect`.

    Args:
        context: this cluster.
        components: those that work now.
        plugins: the plugins, and their calls.
        summary: what events added up to.
        facts: what was measured last.
        ladders: what the doctor found last.
    """

    def __init__(
        self,
        context: ClusterContext,
        components: Components,
        plugins: PluginHost,
        summary: EventSummary,
        facts: FactsInMemory,
        ladders: Callable[[], dict[str, Ladder]],
    ) -> None:
        self._context, self._components, self._plugins = context, components, plugins
        self._summary = summary
        self._facts = facts
        self._ladders = ladders
        self._listed = {field: Cache[Any](type_, itself) for field, (_, type_) in LISTED.items()}
        self._slices: Cache[ResourceSlice] = self._listed["slices"]
        self._virtual: Cache[VirtualNode] = self._listed["virtual_nodes"]
        self._expiries = Cache[Expiry](Identity, expiry)
        self._incoming = Cache[Request](IncomingPeering, requests.incoming)
        self._outgoing = Cache[Request](OutgoingPeering, requests.outgoing)
        self._nodes = Cache[tuple[str, str]](Node, peerview.readiness)
        self._own_nodes = Cache[Node](Node, itself)
        self._guests = Cache[Guest](LivePod, guest_of)
        self._pods = Placed[Counted](LivePod, counted)
        self._state = State()
        self._problems: tuple[Problem, ...] = ()

    async def collect(self, *, whole: bool) -> State:
        """The state now.

        Args:
            whole: look at everything; else only at what informers reported since the last time.
        """
        *others, pods = self._sit()
        changed = [await cache.refresh() for cache in others]
        # Which nodes there are is known now; their pods belong into the first state, too.
        self._pods.on(each.name for each in self._virtual.rows.values())
        changed.append(await pods.refresh())
        if whole or any(changed):
            self._state = self._tables(self._state)
        if whole:
            self._state = self._figured(self._state)
        return self._state

    def leave(self) -> None:
        """Release everything, as nobody watches."""
        for cache in self._sit(leave=True):
            cache.leave()
        self._state = State()

    def _sit(self, *, leave: bool = False) -> list[Cache[Any]]:
        """Have each cache sit on the informer that is open now."""
        find = self._context.informers.find
        plain: list[tuple[Cache[Any], Any]] = [
            *((self._listed[field], kind) for field, (kind, _) in LISTED.items()),
            (self._expiries, IDENTITIES),
        ]
        if not leave:
            for cache, kind in plain:
                cache.sit_on(find(kind))
            here = Selection(self._context.namespace)
            self._incoming.sit_on(find(INCOMING_PEERINGS, here))
            self._outgoing.sit_on(find(OUTGOING_PEERINGS, here))
            self._nodes.sit_on(find(NODES, Selection(labels=SELECTOR)))
            self._own_nodes.sit_on(find(NODES))
            self._guests.sit_on(find(PODS, Selection(labels=labels.GUEST_PODS)))
            self._pods.sit_on(find(PODS, self._context.own_pods.selection))
        asking = (self._incoming, self._outgoing)
        nodes = (self._nodes, self._own_nodes)
        return [*(cache for cache, _ in plain), *asking, *nodes, self._guests, self._pods]

    def _snapshot(self) -> Snapshot:
        now = time.time()
        webhook = self._summary.webhook
        listed: dict[str, Any] = {
            field: tuple(cache.rows.values()) for field, cache in self._listed.items()
        }
        return Snapshot(
            cluster_id=self._context.cluster_id,
            leader=f"{os.getpid()}",
            leader_age=0.0,
            webhook=labels.TRUE if webhook == REACHABLE else webhook,
            **listed,
            nodes=dict(self._nodes.rows.values()),
            pods=tuple(each.row for each in self._pods.rows.values()),
            expiries={
                (peer, name): ends - now
                for peer, name, ends in self._expiries.rows.values()
                if ends < float("inf")
            },
            guests=tuple(self._guests.rows.values()),
            incoming=tuple(self._incoming.rows.values()),
            outgoing=tuple(self._outgoing.rows.values()),
            policies=self._components.guest_policies.missing,
            capacity=capacity.of_nodes(self._own_nodes.rows.values()),
        )

    def _tables(self, before: State) -> State:
        snapshot = self._snapshot()
        own = objectfacts.cluster(snapshot)
        noted = objectfacts.peers(snapshot, own)
        view = overview(snapshot, own, noted)
        self._problems = examination.problems(own, objectfacts.everyone(snapshot, own))
        return msgspec.structs.replace(
            before,
            peers=self._peers(view, noted),
            nodes={row.name: row for row in view.nodes},
            namespaces={row.name: row for row in view.namespaces},
            pods=self._pod_rows(view),
            guests={f"{each.namespace}/{each.name}": each for each in self._guests.rows.values()},
            slices=peerview.slices(self._slices.rows.values()),
            incoming={each.name: each for each in self._incoming.rows.values()},
            outgoing={each.name: each for each in self._outgoing.rows.values()},
            problems=self._all_problems(before),
        )

    def _peers(self, view: Overview, noted: Iterable[PeerFacts]) -> dict[str, Any]:
        ladders = self._ladders()
        quotas = peerview.quotas(
            self._virtual.rows.values(),
            ((each.row.node, each.cost) for each in self._pods.rows.values()),
        )
        return {
            row.id: peerview.peer(
                row,
                facts,
                self._facts.now(row.id),
                quota=quotas.get(row.id, {}),
                ladder=ladders.get(row.id),
            )
            for row, facts in zip(view.peers, noted, strict=True)
        }

    def _pod_rows(self, view: Overview) -> dict[str, Any]:
        peers = {row.name: row.peer for row in view.nodes}
        rows = (each.row for each in self._pods.rows.values())
        return {
            f"{row.namespace}/{row.name}": msgspec.structs.replace(
                row, peer=peers.get(row.node, "")
            )
            for row in rows
        }

    def _all_problems(self, state: State) -> tuple[Problem, ...]:
        """Problems in the custom resources, and those that only this daemon knows."""
        more = examination.problems(*objectfacts.of_state(state))
        return tuple(sorted({*self._problems, *more}))[: peerview.PROBLEMS]

    def _figured(self, before: State) -> State:
        components = self._components
        after = msgspec.structs.replace(
            before,
            daemon=msgspec.structs.replace(
                self._facts.daemon,
                cluster_id=self._context.cluster_id,
                version=__version__,
                kubernetes=self._context.version,
                webhook=self._summary.webhook,
                key="" if components.discovery is None else components.discovery.own_key,
                met_at="" if components.handshake is None else components.handshake.met_at,
            ),
            pulses={name: peerview.pulse(self._facts.measured.get(name)) for name in before.peers},
            ladders=dict(self._ladders()),  # the doctor goes on writing into its own
            networks=roomrows.networks(components),
            reflections=roomrows.reflections(components, self._summary),
            reasons=roomrows.reasons(components),
            plugins=roomrows.plugins(self._plugins, self._summary),
            sightings=roomrows.sightings(components, self._summary, before.peers.keys()),
        )
        return msgspec.structs.replace(after, problems=self._all_problems(after))


def expiry(found: Identity) -> Expiry:
    """The peer and the identity of a certificate, and the Unix second at which it ends."""
    pem = found.spec.auth_params.signed_crt
    ends = certificates.read(pem).ends if pem else float("inf")
    return found.spec.cluster_id, found.name, ends
