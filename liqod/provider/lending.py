"""The provider's side of one peer: everything that lends to it, in one nursery."""

from typing import NoReturn

import trio

from liqod.cluster.guestpolicies import GuestPolicies
from liqod.identity.signingrequests import SigningRequests
from liqod.peers.peer import Peer
from liqod.provider.namespaces.namespacemaps import NamespaceMaps
from liqod.provider.slices.lentslices import LentSlices
from liqod.provider.slices.sharedquotas import QuotaBalancer
from liqod.provider.tenants.certificateissuer import CertificateIssuer
from liqod.provider.tenants.nonces import Nonces
from liqod.provider.tenants.renewals import Renewals
from liqod.provider.tenants.tenants import Tenants
from liqod.provider.timings import ORDINARY, ProviderTimings
from liqod.provider.workloads.shadowendpointslices import ShadowEndpointSlices
from liqod.provider.workloads.shadowpods import ShadowPods


async def lend(
    peer: Peer,
    guest_policies: GuestPolicies,
    signing_requests: SigningRequests,
    timings: ProviderTimings = ORDINARY,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Lend to one peer until cancelled; idle where it borrows nothing.

    Args:
        peer: the consumer.
        guest_policies: the state of the policies that restrict consumers.
        signing_requests: those of consumers that are being worked on.
        timings: the times that the controllers wait.
    """
    context, settings = peer.context, peer.context.config.certificates
    issuer = CertificateIssuer(
        context.client,
        signing_requests,
        lifetime=settings.lifetime,
        renew_at=settings.renew_at,
    )
    maps = NamespaceMaps(peer, guest_policies, timings)
    async with trio.open_nursery() as nursery:
        await nursery.start(Nonces(peer).run)
        await nursery.start(Tenants(peer, issuer, guest_policies, timings).run)
        await nursery.start(LentSlices(peer, issuer, guest_policies, timings).run)
        await nursery.start(Renewals(peer).run)
        # The quotas of namespaces are known before another one gets its share.
        await nursery.start(QuotaBalancer(peer, maps.shared, timings).run)
        await nursery.start(maps.run)
        await nursery.start(ShadowPods(peer, guest_policies, timings).run)
        await nursery.start(ShadowEndpointSlices(peer, timings).run)
        task_status.started()
    raise AssertionError("controllers never end by themselves")
