"""Gives this cluster another key, and shows the peers that follow, obstacles, and the rest.

The key is changed by one write (:func:`liqod.consumer.identities.clusterkeys.succeed`); the daemons
of both sides do the rest. A peer that does not follow goes on with the former key, which stays
beside the other one until no peer needs it.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.cluster.tenancy import is_from
from liqod.consumer.identities.clusterkeys import ClusterKeys, cluster_keys, succeed
from liqod.consumer.identities.formerkey import Bound, bound, listener_of, needing
from liqod.errors import ConfigError
from liqod.identity import keys
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.resources import (
    INCOMING_PEERINGS,
    INVITATIONS,
    OUTGOING_PEERINGS,
    IncomingPeering,
    Invitation,
    OutgoingPeering,
    Renew,
)
from liqod.resources.authentication import CONTROL_PLANE
from liqod.runtime.polling import poll_until
from liqod.runtime.progress import Progress

Follows = Literal["followed", "follows", "never"]
NEVER = "it runs Liqo, or a liqod that follows no key"


class Bond(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """A peer that has this cluster's key.

    Attributes:
        cluster_id: its id.
        role: its role for this cluster.
        state: ``followed`` to the present key, ``follows`` when its daemon runs, or ``never``.
    """

    cluster_id: str = msgspec.field(name="clusterID")
    role: Literal["provider", "consumer"]
    state: Follows


class RotationStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The progress of a change of the key.

    Attributes:
        key: SHA-256 of the present key, hexadecimal.
        former: of the one before, while it is kept; empty for none.
        peers: those that are bound to a key.
        invitations: names of those whose lines name the key, and that are not used up.
        made: whether the reporting command has made the present key.
    """

    key: str
    former: str
    peers: tuple[Bond, ...]
    invitations: tuple[str, ...] = ()
    made: bool = False

    @property
    def goes_on(self) -> bool:
        """True if an earlier change is not over, since a peer needs the former key."""
        return bool(self.former and (self.waits or self.never))

    @property
    def follow(self) -> tuple[str, ...]:
        """Ids of the peers that follow to the next key, or have followed to the present one."""
        return tuple(sorted({each.cluster_id for each in self.peers if each.state != "never"}))

    @property
    def waits(self) -> tuple[str, ...]:
        """Ids of the peers that will follow, and have not yet."""
        return self._of("follows")

    @property
    def never(self) -> tuple[str, ...]:
        """Ids of the peers that never follow."""
        return self._of("never")

    def _of(self, state: Follows) -> tuple[str, ...]:
        return tuple(sorted({each.cluster_id for each in self.peers if each.state == state}))


async def rotation_status(client: Client, namespace: str) -> RotationStatus:
    """The present progress of a change of the key."""
    own = await cluster_keys(client, namespace)
    found = await bound(client)
    open_ = await client.list(INVITATIONS, Selection(namespace), decode=Invitation)
    former = "" if own.former is None else keys.print_of(own.former.public)
    return RotationStatus(
        keys.print_of(own.public),
        former,
        bonds(own, found),
        tuple(sorted(each.name for each in open_ if not each.leaving)),
    )


def bonds(own: ClusterKeys, found: Bound) -> tuple[Bond, ...]:
    """Lists the peers that are bound to a key of this cluster's, and if they follow. Pure."""
    waiting = needing(own, found)
    providers = {
        each.spec.cluster_id: each for each in found.identities if each.spec.type == CONTROL_PLANE
    }
    made = [
        Bond(
            peer,
            "provider",
            _state(own, peer in waiting, _key_reported(found.renews, each.namespace)),
        )
        for peer, each in providers.items()
    ]
    for tenant in found.tenants:
        peer = tenant.spec.cluster_id
        if listener_of(tenant.spec.proxy_url):
            able = any(
                each.metadata.annotations.get(labels.PROVIDER_KEY)
                for each in found.renews
                if each.namespace == tenant.namespace and is_from(each.metadata.labels, peer)
            )
            made.append(Bond(peer, "consumer", _state(own, peer in waiting, able)))
    return tuple(sorted(made))


def _key_reported(renews: Iterable[Renew], namespace: str) -> bool:
    """True if a provider has reported which key of this cluster it has."""
    return any(
        each.metadata.annotations.get(labels.KNOWN_KEY)
        for each in renews
        if each.namespace == namespace
        and each.metadata.labels.get(labels.REPLICATION) == labels.TRUE
    )


def _state(own: ClusterKeys, waits: bool, able: bool) -> Follows:
    if own.former is not None and not waits:
        return "followed"
    return "follows" if able else "never"


async def in_the_way(client: Client, namespace: str) -> str:
    """The reason why the key cannot be changed now; empty where it can."""
    place = Selection(namespace)
    asked = await client.list(OUTGOING_PEERINGS, place, decode=OutgoingPeering)
    asking = await client.list(INCOMING_PEERINGS, place, decode=IncomingPeering)
    half = [each.name for each in asked if each.status.phase == "Accepted"]
    half += [each.name for each in asking if each.status.phase == "Accepted"]
    if not half:
        return ""
    names = ", ".join(sorted(half))
    return (
        f"a peering is being made by the present key ({names}): wait until it is there, or"
        " `kubectl delete` what is asked"
    )


async def start_rotation(client: Client, namespace: str, cluster_id: str) -> RotationStatus:
    """Change the key.

    Raises:
        ConfigError: it cannot be changed now, with the reason.
    """
    why = await in_the_way(client, namespace)
    if why:
        raise ConfigError(why)
    await succeed(client, namespace, cluster_id)
    return await rotation_status(client, namespace)


async def destroyed(
    client: Client, namespace: str, progress: Progress, *, within: float = float("inf")
) -> bool:
    """Wait for the end of a former key that no peer needs any more; True if it came in time.

    Args:
        client, namespace, progress, within: as :func:`followed` takes them.
    """

    async def look() -> bool:
        progress("wait for the daemon to destroy the former key, which it keeps for a minute")
        return (await cluster_keys(client, namespace)).former is None

    with trio.move_on_after(within):
        await poll_until(look)
        return True
    return False


async def followed(
    client: Client, namespace: str, progress: Progress, *, within: float = float("inf")
) -> RotationStatus:
    """Wait for the peers that follow.

    Args:
        client: of this cluster.
        namespace: liqod's own.
        progress: called with the awaited peers.
        within: longest wait, in seconds.

    Returns:
        The progress at the end of the wait.
    """

    async def look() -> RotationStatus | None:
        now = await rotation_status(client, namespace)
        if not now.former or not now.waits:
            return now
        progress(f"wait for {', '.join(now.waits)} to follow")
        return None

    with trio.move_on_after(within):
        return await poll_until(look)
    return await rotation_status(client, namespace)
