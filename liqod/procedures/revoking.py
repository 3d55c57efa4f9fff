"""Revokes a peer: deletes its trust, rights and bindings at once and for good.

Works on objects alone, with and without a running daemon: objects that the daemon would still make
are looked for again, until none comes back.
"""

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.cluster.tenancy import find_tenant_namespace
from liqod.errors import ConfigError
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.procedures import (
    agreements,
    networkleaving,
    revokedconsumer,
    revokedprovider,
)
from liqod.procedures.revocations import Living
from liqod.runtime.progress import Progress

QUIET = 1.0
"""Seconds between two checks; objects that a daemon has begun to make exist by then."""

AGAIN = "the way to ask anew, which a policy of the configuration may answer"
TUNNEL = "the tunnel on its machine, until a daemon runs here, which takes it down"


class Revoked(msgspec.Struct, frozen=True):
    """The result of a revocation.

    Attributes:
        peer: the peer's cluster id.
        roles: its roles for this cluster: ``consumer``, ``provider``, or both.
        removed: the objects that were removed now, one line for each.
        lives: the rights that remain.
    """

    peer: str
    roles: tuple[str, ...]
    removed: tuple[str, ...]
    lives: tuple[Living, ...]


async def roles_of(client: Client, peer: str, liqo: str = labels.LIQO_NAMESPACE) -> tuple[str, ...]:
    """The roles of the peer for this cluster: ``consumer``, ``provider``, or as yet ``invited``.

    Raises:
        ConfigError: nothing.
    """
    namespace = await find_tenant_namespace(client, peer)
    roles = []
    if namespace is not None and await revokedconsumer.is_known(client, peer, namespace):
        roles.append("consumer")
    if namespace is not None and await revokedprovider.is_known(client, namespace):
        roles.append("provider")
    if not roles and await agreements.of_peer(client, liqo, peer, revoking=True):
        roles.append("invited")
    if not roles:
        known = await client.list(
            NAMESPACES, Selection(labels=f"{labels.TENANT_NAMESPACE}={labels.TRUE}"), decode=Partial
        )
        names = sorted(each.metadata.labels.get(labels.REMOTE_CLUSTER_ID, "") for each in known)
        others = f"peers are {', '.join(names)}" if names else "there are no peers"
        raise ConfigError(f"there is nothing of {peer} to revoke here; {others}")
    return tuple(roles)


async def carry_out(
    client: Client,
    peer: str,
    roles: tuple[str, ...],
    progress: Progress,
    liqo: str = labels.LIQO_NAMESPACE,
) -> Revoked:
    """Marks the peer as revoked, and deletes its rights and objects until none comes back.

    Agreements of the handshake end first, so that no cluster is accepted anew by them.

    Raises:
        ConfigError: there is no such peer any more.
    """
    progress(f"revoke {peer}")
    keys = {role: await agreements.keys_of(client, liqo, peer, role) for role in roles}
    removed = dict.fromkeys(await agreements.end(client, liqo, peer, revoking=True))
    namespace = await find_tenant_namespace(client, peer)
    if namespace is None and removed:
        return Revoked(peer, roles, tuple(removed), (Living(AGAIN),))
    if namespace is None:
        raise ConfigError(f"{peer} has just gone")
    await revokedconsumer.note_keys(client, namespace, keys)
    lives: list[Living] = []
    # The daemon begins at the mark, so the objects that it deletes are looked for before.
    if "consumer" in roles:
        removed |= dict.fromkeys(await revokedconsumer.remaining_bindings(client, peer, namespace))
        issued = await revokedconsumer.certificates_of(client, peer, namespace)
        noted = await revokedconsumer.mark(client, namespace, labels.REVOKED_TENANT, issued)
        lives += noted.lives
    if "provider" in roles:
        held = await revokedprovider.remaining_rights(client, peer, namespace)
        given = tuple(Living(what, until) for what, until in held)
        noted = await revokedconsumer.mark(client, namespace, labels.REVOKED_PROVIDER, given)
        lives += noted.lives
    lives = [each for each in lives if not each.over]
    quiet = False
    while True:
        removed |= dict.fromkeys(await agreements.end(client, liqo, peer, revoking=True))
        now = await revokedconsumer.take(client, peer, namespace) if "consumer" in roles else []
        now += await revokedprovider.take(client, namespace) if "provider" in roles else []
        # Whichever side it was: no packet of it comes in any more.
        now += await networkleaving.take(client, namespace)
        removed |= dict.fromkeys(now)
        if not now and quiet:
            if not await networkleaving.is_taken_down(client, peer, liqo):
                lives.append(Living(TUNNEL))
            return Revoked(peer, roles, tuple(removed), tuple(lives))
        quiet = not now
        progress("look whether anything comes back")
        await trio.sleep(QUIET)
