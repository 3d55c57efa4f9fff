"""Peers with a discovered cluster that the operator has configured, as ``liqod peer`` does."""

import time
from contextlib import suppress
from pathlib import Path

import trio

from liqod.cluster.context import ClusterContext
from liqod.errors import ProtocolError
from liqod.identity import certificates
from liqod.kube.client import Client
from liqod.kube.credentials import credentials
from liqod.model import ids
from liqod.procedures import kubeconfigpeering
from liqod.procedures.resourcerequest import ResourceRequest
from liqod.resources import IDENTITIES, Identity
from liqod.runtime.progress import Progress
from liqod.telemetry.events import PeeringStep

CHECK_EVERY = 30.0
"""Seconds between checks of the end of a certificate."""


async def until_expired(
    context: ClusterContext, peer: str, check_every: float = CHECK_EVERY
) -> None:
    """Wait until the certificate that a peer issued for the control plane has expired.

    A certificate that is renewed in time never expires; one that could not be renewed, as the peer
    was unreachable too long, cannot be used to get another. After an unpeering there is no new
    peering.

    Args:
        peer: the cluster's id.
        check_every: seconds between checks.
    """
    name = ids.control_plane_identity(peer)
    async with context.informers.share(IDENTITIES) as identities:
        while True:
            await trio.sleep(check_every)
            found = (each for each in identities.store.values(Identity) if each.name == name)
            given = next((each.spec.auth_params.signed_crt for each in found), b"")
            with suppress(ProtocolError):
                if given and certificates.read(given).not_after <= time.time():
                    return


async def peer_with(
    context: ClusterContext, peer: str, path: Path, progress: Progress | None = None
) -> None:
    """Peer with a cluster as ``liqod peer`` does, with the daemon's own rights in this cluster.

    Args:
        peer: the cluster's id.
        path: a peering user's kubeconfig.
        progress: called with each step; without one the hub gets it.

    Raises:
        ConfigError: the kubeconfig cannot be used, or leads to another cluster than ``peer``.
        LiqodError: as the handshake.
    """

    def publish(step: str) -> None:
        context.hub.publish(PeeringStep(step=str(step)), peer)

    settings = context.config.peer(peer)
    asked = ResourceRequest(resources=settings.resources, virtual_nodes=settings.virtual_nodes)
    async with Client(credentials.from_other_side(path), user_agent="liqod") as remote:
        await kubeconfigpeering.peer(
            context.client,
            remote,
            asked,
            progress=progress or publish,
            liqo=context.namespace,
            expected=peer,
        )
