"""Sends requests to clusters that are seen, by policy: no sighting begins a peering otherwise.

Anybody may announce a cluster, so a policy names whom it means, and what is asked of it
(``borrow``). The key that is asked is the one that has signed the cluster's advert. A cluster that
was asked is not asked again while it is seen, whatever came of it; where it is not seen any more
before it has agreed, the request is taken back.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final, NoReturn

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.cluster.tenancy import find_tenant
from liqod.configsections import PeerPolicy
from liqod.discovery.sightings import SeenCluster
from liqod.errors import LiqodError
from liqod.handshake.requests import policies
from liqod.handshake.requests.policies import PolicySubject
from liqod.handshake.timings import ORDINARY, HandshakeTimings
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.procedures import peeringrequest
from liqod.procedures.peeringrequest import ENDED, PeeringRequest
from liqod.procedures.revocations import revoked_provider_keys
from liqod.resources import IDENTITIES, OUTGOING_PEERINGS, OutgoingPeering
from liqod.runtime.log import Seldom
from liqod.runtime.ticks import sleep_until_tick

MOST: Final = 16
"""Requests by policy that wait at once: a flood of announced clusters is not asked at once."""

ListSeenClusters = Callable[[], Iterable[SeenCluster]]
"""All that is seen."""

log = logging.getLogger(__name__)


def none_seen() -> tuple[SeenCluster, ...]:
    """Nothing is seen."""
    return ()


def request_for(wishes: tuple[PeerPolicy, ...], seen: SeenCluster) -> PeeringRequest | None:
    """The request to a cluster that is seen; None for none.

    Of the policies that ask or deny the first that fits counts. Where two keys sign for one id, it
    has to name the one that is asked.

    Args:
        wishes: of the configuration.
        seen: the cluster.
    """
    speaks = [each for each in wishes if each.borrow or each.action == "deny"]
    for key in seen.keys:
        who = PolicySubject(seen.cluster_id, key, seen.plugins(key))
        policy = next((each for each in speaks if policies.fits(each, who)), None)
        if policy is None or not policy.borrow or (seen.conflict and policy.key != key):
            continue
        return PeeringRequest(
            name=seen.cluster_id,
            cluster_id=seen.cluster_id,
            key=key,
            resources=dict(policy.borrow),
            sought=True,
        )
    return None


class PolicyRequests:
    """Looks at the clusters that are seen, and sends requests.

    Args:
        list_seen: all that is seen.
        requests: the requests that there are, from memory.
    """

    def __init__(
        self,
        context: ClusterContext,
        list_seen: ListSeenClusters,
        requests: Callable[[], Iterable[OutgoingPeering]],
        timings: HandshakeTimings = ORDINARY,
    ) -> None:
        self._timings = timings
        self._context, self._list_seen, self._requests = context, list_seen, requests
        self._requested: set[tuple[str, str]] = set()
        """Ids with their keys: who was asked, or is lent from already."""
        self._unseen: dict[str, float] = {}
        """Since when those that wait are not seen, by the request's name."""
        self._seldom = Seldom()

    def reload(self, context: ClusterContext) -> None:
        """Go by another configuration from now on."""
        self._context = context

    async def run(self) -> NoReturn:
        """Look until cancelled."""
        while True:
            await sleep_until_tick(self._timings.policy_check)
            try:
                await self._look()
            except LiqodError as error:
                if self._seldom.allows(str(error)):
                    log.warning("nobody is asked by policy: %s", error)

    async def _look(self) -> None:
        wishes = self._context.config.policies
        around = self._list_seen() if any(each.borrow for each in wishes) else ()
        found = (request_for(wishes, each) for each in around)
        wanted = {
            each.name: each for each in found if each and each.name != self._context.cluster_id
        }
        self._requested &= {(each.name, each.key) for each in wanted.values()}
        open_ = await self._take_back(wanted)
        for request in wanted.values():
            if open_ >= MOST:
                break
            if (request.name, request.key) not in self._requested:
                open_ += await self._request(request)

    async def _request(self, request: PeeringRequest) -> bool:
        """Ask, unless there is a reason not to: whether a request was made."""
        peer, namespace = request.name, self._context.namespace
        known = {name for each in self._requests() for name in (each.name, each.spec.cluster_id)}
        makes = peer not in known and not await self._is_known(peer, request.key)
        if makes:
            await peeringrequest.ensure_request(self._context.client, namespace, request)
            log.info("%s is seen, and asked to lend, by policy", peer)
        self._requested.add((peer, request.key))
        return makes

    async def _is_known(self, peer: str, key: str) -> bool:
        """True if this cluster borrows from a cluster, or it was revoked, under any id."""
        client = self._context.client
        tenants = Selection(labels=f"{labels.TENANT_NAMESPACE}={labels.TRUE}")
        for each in await client.list(NAMESPACES, tenants, decode=Partial):
            if key in revoked_provider_keys(each.metadata.annotations):
                return True
        tenant = await find_tenant(client, peer)
        if tenant is None:
            return False
        identity = ids.control_plane_identity(peer)
        lent = await client.find(IDENTITIES, identity, tenant.name, decode=Partial)
        return lent is not None or labels.REVOKED_PROVIDER in tenant.annotations

    async def _take_back(self, wanted: dict[str, PeeringRequest]) -> int:
        """Withdraw requests to clusters that are gone; returns how many by policy wait then."""
        now, waits = trio.current_time(), 0
        mine = [each for each in self._requests() if labels.SOUGHT in each.metadata.labels]
        for each in mine:
            if each.leaving or each.status.phase in ("Done", *ENDED):
                continue
            waits += 1
            if each.name in wanted:
                self._unseen.pop(each.name, None)
            elif now - self._unseen.setdefault(each.name, now) >= self._timings.unseen:
                uid = each.metadata.uid
                await self._context.client.delete(
                    OUTGOING_PEERINGS, each.name, self._context.namespace, uid=uid
                )
                log.info("%s is not seen any more, and asked no more", each.name)
        self._unseen = {
            each.name: self._unseen[each.name] for each in mine if each.name in self._unseen
        }
        return waits
