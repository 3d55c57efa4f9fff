"""Joining the networks of two clusters, as ``liqod peer`` does: the objects of both, in order.

Each side's ranges are told to the other, one side gets a gateway that is dialled and the other one
that dials, and each is told the other's public key. These are the objects that ``liqoctl`` writes,
too, and everything is found before it is made. A side that cannot join (its daemon lacks rights or
tools, or keeps no ranges) says so, and nothing is left of what was begun.

A peering user may write them only until its consumer is accepted, so this comes before the
handshake, and :func:`wait_connected` after it.
"""

from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec
import trio

from liqod.errors import AlreadyExists, ConfigError, Forbidden
from liqod.kube.client import Client
from liqod.kube.ending import delete_all
from liqod.kube.kinds import SECRETS, Kind
from liqod.kube.meta import Partial
from liqod.kube.selection import Selection
from liqod.model import ids, labels
from liqod.model.objects import conditions
from liqod.polling import poll_until
from liqod.procedures import Progress
from liqod.procedures.networkobjects import (
    Asked,
    configuration,
    gateway_client,
    gateway_server,
    public_key,
)
from liqod.procedures.tenantrequest import Sides
from liqod.resources import CONFIGURATIONS, NETWORKS, Configuration, Network
from liqod.resources.networking import (
    CONNECTIONS,
    GATEWAY_CLIENTS,
    GATEWAY_SERVERS,
    PUBLIC_KEYS,
    RANGES_REFUSED,
    Connection,
    Endpoint,
    GatewayClient,
    GatewayServer,
    Ranges,
)

ANSWERS_WITHIN: Final = 15.0
"""Seconds that a daemon may take for its part of a step."""
CONNECTED_WITHIN: Final = 30.0
"""Seconds until packets have gone both ways."""
TAKEN_DOWN_WITHIN: Final = 5.0
"""Seconds that a daemon may take to have nothing of a peer's on its machine any more."""
CANNOT_JOIN: Final = "CannotJoin"
CONFIGURED: Final = "NetworkCIDRsConfigured"
ORDER: Final = (GATEWAY_CLIENTS, GATEWAY_SERVERS, PUBLIC_KEYS, CONFIGURATIONS)
"""What a joined network is made of, in the order in which it is taken away."""


R = TypeVar("R", GatewayServer, GatewayClient)


class CannotJoin(ConfigError):
    """A side cannot join its network; the peering goes on without."""


class Site(msgspec.Struct, frozen=True):
    """One of the two clusters.

    Attributes:
        client: of its API server.
        id: its own.
        peer: the other's.
        namespace: where it keeps the other.
        liqo: liqod's (or Liqo's) own namespace there.
    """

    client: Client
    id: str
    peer: str
    namespace: str
    liqo: str


def sites(sides: Sides, liqo: str, remote_liqo: str) -> tuple[Site, Site]:
    """This cluster and the other."""
    here = Site(sides.local, sides.here, sides.there, sides.local_namespace, liqo)
    there = Site(sides.remote, sides.there, sides.here, sides.remote_namespace, remote_liqo)
    return here, there


class Joining:
    """One joining of two networks.

    Args:
        asked: how.
        progress: told of each step.

    Attributes:
        without: why the clusters are peered without a network; empty where they are with one.
    """

    def __init__(self, asked: Asked, progress: Progress) -> None:
        self._asked = asked
        self._progress = progress
        self._sites: tuple[Site, Site] | None = None
        self.without = ""

    async def begin(self, here: Site, there: Site) -> None:
        """Write the objects of both sides; what cannot be is said in ``without``.

        Raises:
            ConfigError: a side refuses what is asked for.
            LiqodError: an API server does not answer, or refuses.
        """
        self._sites = here, there
        made = _Made()
        try:
            await _join(here, there, self._asked, made, self._progress)
        except CannotJoin as error:
            self.without = str(error)
            self._progress(f"peer without a network: {error}")
            await made.withdraw()
        except Forbidden as error:
            self.without = (
                f"the user of the kubeconfig may not write it at {there.id} ({error}): a peering "
                "user may until its cluster is accepted; an administrator's kubeconfig of "
                f"{there.id} joins the networks later"
            )
            self._progress(f"peer without a network: {self.without}")
            await made.withdraw()

    async def finish(self) -> None:
        """Wait until packets have gone both ways.

        Raises:
            ConfigError: they do not, and what each side says of it.
        """
        if not self.without and self._sites is not None:
            await wait_connected(self._sites, self._progress)


class _Made:
    """What was made so far, the newest last: it goes again where the network cannot be."""

    def __init__(self) -> None:
        self._objects: list[tuple[Site, Kind, str]] = []

    def note(self, site: Site, kind: Kind, name: str) -> None:
        self._objects.append((site, kind, name))

    async def withdraw(self) -> None:
        for site, kind, name in reversed(self._objects):
            await site.client.delete(kind, name, site.namespace)


async def _join(here: Site, there: Site, asked: Asked, made: _Made, progress: Progress) -> None:
    progress("tell each side the other's address ranges")
    for site, other in ((here, there), (there, here)):
        wanted = configuration(other.id, await own_ranges(other))
        await _have(site, CONFIGURATIONS, wanted, made)
    for site in (here, there):
        progress(f"wait for the aliases that {site.id} gives to {site.peer}'s addresses")
        await _configured(site)
    server, client = (there, here) if asked.server_at == "Provider" else (here, there)
    progress(f"make the gateway of {server.id}, which is dialled")
    name = await _have(
        server, GATEWAY_SERVERS, gateway_server(server.peer, server.liqo, asked), made
    )
    told = await _accepted(server, GATEWAY_SERVERS, GatewayServer, name)
    endpoint = asked.dialled(told.status.endpoint or Endpoint())
    where = ", ".join(endpoint.addresses)
    progress(f"make the gateway of {client.id}, which dials {where} UDP {endpoint.port}")
    wanted = gateway_client(client.peer, client.liqo, asked, endpoint)
    name = await _have(client, GATEWAY_CLIENTS, wanted, made)
    dials = await _accepted(client, GATEWAY_CLIENTS, GatewayClient, name)
    progress("tell each side the other's public key")
    await _tell_key(server, told, client, dials, made)
    await _tell_key(client, dials, server, told, made)


async def own_ranges(site: Site) -> Ranges:
    """The ranges of a cluster as its Networks say them.

    Raises:
        CannotJoin: it keeps none.
    """

    async def of(kind: str) -> tuple[str, ...]:
        selector = f"{labels.NETWORK_TYPE}={kind}"
        found = await site.client.list(
            NETWORKS, Selection(site.liqo, labels=selector), decode=Network
        )
        return tuple(one.status.cidr or one.spec.cidr for one in found)

    pods, external = await of(labels.POD_CIDR), await of(labels.EXTERNAL_CIDR)
    if not pods or not external:
        missing = labels.EXTERNAL_CIDR if pods else labels.POD_CIDR
        raise CannotJoin(f"{site.id} keeps no Network of the type {missing} in {site.liqo}")
    return Ranges(pods, external)


async def _have(site: Site, kind: Kind, wanted: dict[str, Any], made: _Made) -> str:
    """Have an object be as wanted; its name, which may be another where somebody made one before.

    A peering user lists and updates, and neither watches nor patches.
    """
    peer = wanted["metadata"]["labels"][labels.REMOTE_CLUSTER_ID]
    selector = f"{labels.REMOTE_CLUSTER_ID}={peer}"
    found = await site.client.list(kind, Selection(site.namespace, labels=selector))
    if not found:
        name = str(wanted["metadata"]["name"])
        try:
            await site.client.create(kind, wanted, site.namespace)
        except AlreadyExists:
            message = f"{kind.name} {site.namespace}/{name} at {site.id} is not of {peer}"
            raise ConfigError(message) from None
        made.note(site, kind, name)
        return name
    live = min(found, key=lambda one: str(one["metadata"]["creationTimestamp"]))
    spec = {**live.get("spec", {}), **wanted["spec"]}
    owners = wanted["metadata"].get("ownerReferences", [])
    if spec != live.get("spec", {}) or owners != live["metadata"].get("ownerReferences", []):
        live["spec"] = spec
        live["metadata"]["ownerReferences"] = owners
        await site.client.update(kind, live, site.namespace)
    return str(live["metadata"]["name"])


async def _configured(site: Site) -> None:
    """Until a side sees the other's ranges under aliases.

    Raises:
        ConfigError: it refuses them, or does nothing.
    """

    async def look() -> bool:
        selector = f"{labels.REMOTE_CLUSTER_ID}={site.peer}"
        found = await site.client.list(
            CONFIGURATIONS, Selection(site.namespace, labels=selector), decode=Configuration
        )
        told = next((conditions.of_type(one.status.conditions, CONFIGURED) for one in found), None)
        if told is not None and told.status == "False" and told.reason == RANGES_REFUSED:
            message = told.message or told.reason
            raise ConfigError(f"{site.id} refuses the ranges of {site.peer}: {message}")
        return told is not None and told.status == "True"

    await poll_until(
        look,
        within=ANSWERS_WITHIN,
        failing=lambda: CannotJoin(f"the daemon of {site.id} gives no aliases"),
    )


async def _accepted(site: Site, kind: Kind, type_: type[R], name: str) -> R:
    """A gateway, once its daemon has made keys for it, and a server is somewhere.

    Raises:
        CannotJoin: no network can be joined there.
        ConfigError: this gateway cannot be; why.
    """

    async def look() -> R | None:
        found = await site.client.get(kind, name, site.namespace, decode=type_)
        told = conditions.of_type(found.status.conditions, "Accepted")
        if told is not None and told.status == "False":
            if told.reason == CANNOT_JOIN:
                raise CannotJoin(f"{site.id}: {told.message}")
            raise ConfigError(f"{site.id} refuses the gateway {name}: {told.message}")
        if found.status.secret_ref is None:
            return None
        endpoint = found.status.endpoint if isinstance(found, GatewayServer) else Endpoint(("-",))
        return found if endpoint is not None and endpoint.addresses else None

    return await poll_until(
        look,
        within=ANSWERS_WITHIN,
        failing=lambda: CannotJoin(f"the daemon of {site.id} makes no gateway"),
    )


async def _tell_key(
    site: Site,
    gateway: GatewayServer | GatewayClient,
    other: Site,
    theirs: GatewayServer | GatewayClient,
    made: _Made,
) -> None:
    """Have a gateway's public key be known on the other side, beside the gateway there."""
    try:
        key = await _key(site, gateway)
    except Forbidden:
        # A peering user whose cluster was accepted: it has told the key already.
        selection = Selection(other.namespace, labels=f"{labels.REMOTE_CLUSTER_ID}={site.id}")
        if not await other.client.list(PUBLIC_KEYS, selection, decode=Partial):
            raise
    else:
        await _have(other, PUBLIC_KEYS, public_key(site.id, key, theirs), made)


async def _key(site: Site, gateway: GatewayServer | GatewayClient) -> bytes:
    """The public key of a gateway.

    Raises:
        ConfigError: it is not where the gateway says.
    """
    ref = gateway.status.secret_ref
    assert ref is not None
    found = await site.client.get(SECRETS, ref.name, ref.namespace or site.namespace, decode=_Keys)
    key = (found.data or {}).get(labels.PUBLIC_KEY_FIELD, b"")
    if not key:
        raise ConfigError(f"the Secret {ref.name} at {site.id} has no public key in it")
    return key


class _Keys(msgspec.Struct, frozen=True):
    data: dict[str, bytes] | None = None


async def wait_connected(both: Iterable[Site], progress: Progress) -> None:
    """Until each side says that packets come through its tunnel.

    Raises:
        ConfigError: they do not within :data:`CONNECTED_WITHIN`; what each side says.
    """
    every = tuple(both)
    waiting = {site.id: "no Connection yet" for site in every}

    async def look() -> bool:
        for site in every:
            if site.id in waiting and await _connected(site, waiting):
                del waiting[site.id]
        progress("wait until packets go both ways" + _said(waiting))
        return not waiting

    await poll_until(
        look,
        within=CONNECTED_WITHIN,
        failing=lambda: ConfigError(
            f"the clusters are peered, but no packet goes from one to the other{_said(waiting)}; "
            "is the gateway's UDP port let through? `liqod network status` shows each part"
        ),
    )


async def _connected(site: Site, waiting: dict[str, str]) -> bool:
    selector = f"{labels.REMOTE_CLUSTER_ID}={site.peer}"
    found = await site.client.list(
        CONNECTIONS, Selection(site.namespace, labels=selector), decode=Connection
    )
    for one in found:
        waiting[site.id] = one.status.value or "Connecting"
    return any(one.status.value == "Connected" for one in found)


def _said(waiting: dict[str, str]) -> str:
    return (
        ": " + ", ".join(f"{id_} says {what}" for id_, what in waiting.items()) if waiting else ""
    )


async def parts(client: Client, namespace: str) -> list[str]:
    """What a joined network is made of in a tenant namespace, one line for each object."""
    lines = []
    for kind in ORDER:
        found = await client.list(kind, Selection(namespace), decode=Partial)
        lines += [f"{kind.name} {each.metadata.name}" for each in found]
    return lines


async def take(client: Client, namespace: str) -> list[str]:
    """Delete what a joined network is made of; what went, one line for each object."""
    lines = []
    for kind in ORDER:
        found = await client.list(kind, Selection(namespace), decode=Partial)
        gone = await delete_all(client, kind, found)
        lines += [f"{kind.name} {namespace}/{each.metadata.name}" for each in gone]
    return lines


async def leave(client: Client, peer: str, namespace: str, liqo: str) -> None:
    """Take the network of a peer away on this side, and wait until the daemon has.

    The private key of the tunnel goes last of all that is on the machine. A daemon that does not
    run holds nothing up: it takes down what is left when it starts.

    Args:
        client: an administrator's.
        peer: its id.
        namespace: its tenant namespace.
        liqo: liqod's own.
    """
    for kind in ORDER:
        await client.delete_selected(kind, Selection(namespace))

    async def gone() -> bool:
        kept = await client.find(SECRETS, ids.gateway_resource(peer), liqo, decode=Partial)
        return kept is None or labels.TUNNEL not in kept.metadata.labels

    with trio.move_on_after(TAKEN_DOWN_WITHIN):
        await poll_until(gone)


async def clear(remote: Client, namespace: str) -> None:
    """Take away what is ours at a peer, with a peering user's rights: it deletes by name."""
    for kind in ORDER:
        for each in await remote.list(kind, Selection(namespace), decode=Partial):
            await remote.delete(kind, each.metadata.name, namespace)
