"""Joins the networks of two clusters, as ``liqod peer`` does: the objects of both, in order.

Each side gets the other's ranges, one side gets a gateway that is dialled and the other one that
dials, and each gets the other's public key. These are the objects that ``liqoctl`` writes, too, and
every object is looked up before it is made. A side that cannot join (its daemon lacks rights or
tools, or keeps no ranges) reports that, and all new objects are deleted. A peering in the other
direction, later or at the same time, keeps the tunnel that exists: it carries the packets of both.

A peering user may write them only until its consumer is accepted, so this comes before the
handshake, and waiting for packets (:func:`.networksites.wait_connected`) after it.
"""

from functools import partial
from typing import Any, Final, TypeVar

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SECRETS, Kind
from liqod.apimachinery.meta import Partial
from liqod.errors import AlreadyExists, ConfigError, Conflict, Forbidden, NotFound
from liqod.kube.selection import Selection
from liqod.model.objects import conditions
from liqod.model.objects.partial import Secret
from liqod.network.gateway.gatewayobjects import reported_websocket
from liqod.network.gateway.gatewayplan import NOT_MADE
from liqod.procedures.networkobjects import (
    WEBSOCKET,
    WIREGUARD,
    NetworkOptions,
    configuration,
    gateway_client,
    gateway_server,
    public_key,
)
from liqod.procedures.networksites import Site, wait_connected
from liqod.procedures.relaying import Relay
from liqod.procedures.timings import ORDINARY, PeeringTimings
from liqod.resources import CONFIGURATIONS, NETWORKS, Configuration, Network
from liqod.resources.networking import (
    GATEWAY_CLIENTS,
    GATEWAY_SERVERS,
    PUBLIC_KEYS,
    RANGES_REFUSED,
    GatewayClient,
    GatewayEndpoint,
    GatewayServer,
    Ranges,
)
from liqod.runtime.polling import poll_until
from liqod.runtime.progress import Progress, Step

ANSWERS_WITHIN: Final = 15.0
"""Seconds that a daemon may take for its part of a step."""
EXPOSED_WITHIN: Final = 60.0
"""Seconds that a cloud may take for the address of a load balancer."""
BEGUN_WITHIN: Final = 5.0
"""Seconds in which a side that has sent the ranges makes a gateway, too."""
LOOK_EVERY: Final = 0.25
TRIES: Final = 5
"""Number of times that an object is looked up or made, while another client does the same."""
TAKEN: Final = (WIREGUARD, WEBSOCKET)
"""Backends of the tunnel where none is named: the first that both sides have. Both encrypt."""
CANNOT_JOIN: Final = "CannotJoin"
CONFIGURED: Final = "NetworkCIDRsConfigured"


R = TypeVar("R", GatewayServer, GatewayClient)


class CannotJoin(ConfigError):
    """A side cannot join its network; the peering goes on without."""


class _NotMade(ConfigError):
    """The error of a side that makes no tunnels of a kind.

    Args:
        site: id of the cluster.
        makes: those that it makes.
        message: its own message.
    """

    def __init__(self, site: str, makes: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.site, self.makes = site, makes


class Joining:
    """Joins two networks once.

    Args:
        asked: the options.
        progress: called with each step.
        relay: by which the gateway is dialled, too; None for none.

    Attributes:
        without: the reason why the clusters are peered without a network; empty for none.
    """

    def __init__(
        self, asked: NetworkOptions, progress: Progress, relay: Relay | None = None
    ) -> None:
        self._asked = asked
        self._relay = relay
        self._progress = progress
        self._sites: tuple[Site, Site] | None = None
        self._backend = asked.backend
        self.without = ""

    async def start(self, here: Site, there: Site) -> None:
        """Write the objects of both sides; ``without`` gets the reason if that is impossible.

        Raises:
            ConfigError: a side refuses the options.
        """
        self._sites = here, there
        made = _Made()
        try:
            self._backend = await _join(
                *(here, there, self._asked, made), self._progress, self._relay
            )
        except CannotJoin as error:
            self.without = str(error)
            self._progress(Step("peer without a network", self.without))
            await made.withdraw()
        except Forbidden as error:
            self.without = (
                f"the user of the kubeconfig may not write it at {there.id} ({error}): a peering "
                "user may until its cluster is accepted; an administrator's kubeconfig of "
                f"{there.id} joins the networks later"
            )
            self._progress(Step("peer without a network", self.without))
            await made.withdraw()

    async def finish(self, timings: PeeringTimings = ORDINARY) -> None:
        """Wait until packets have gone both ways.

        Args:
            timings: the longest wait.

        Raises:
            ConfigError: they do not, with the report of each side.
        """
        if not self.without and self._sites is not None:
            await wait_connected(self._sites, self._progress, self._backend, timings=timings)


class _Made:
    """The objects made so far, the newest last: deleted again where the join fails."""

    def __init__(self) -> None:
        self._objects: list[tuple[Site, Kind, str]] = []

    def __len__(self) -> int:
        return len(self._objects)

    def note(self, site: Site, kind: Kind, name: str) -> None:
        self._objects.append((site, kind, name))

    async def withdraw(self) -> None:
        for site, kind, name in reversed(self._objects):
            await site.client.delete(kind, name, site.namespace)


async def _join(
    here: Site,
    there: Site,
    asked: NetworkOptions,
    made: _Made,
    progress: Progress,
    relay: Relay | None,
) -> str:
    """Makes the objects of both sides; returns the backend of the tunnel."""
    progress("tell each side the other's address ranges")
    # In one order on both sides: where both peer at once, one of them makes the first of these.
    begins: list[Site] = []
    for site, other in sorted(((here, there), (there, here)), key=lambda pair: pair[0].id):
        wanted = configuration(other.id, await own_ranges(other))
        before = len(made)
        await _have(site, CONFIGURATIONS, wanted, made)
        begins += [site] * (len(made) - before)
    for site in (here, there):
        progress(f"wait for the aliases that {site.id} gives to {site.peer}'s addresses")
        await _configured(site)
    server, client = (there, here) if asked.server_at == "Provider" else (here, there)
    if min(here.id, there.id) not in {each.id for each in begins}:
        await _somebody_begins(here, there)
    if await _is_started(client, server) and not await _is_started(server, client):
        progress(f"keep the tunnel that is there, in which {client.id} is dialled")
        await _kept(client, server)
        return await _made_before(client)
    return await _have_gateways(server, client, asked, made, progress, relay)


async def _have_gateways(
    server: Site,
    client: Site,
    asked: NetworkOptions,
    made: _Made,
    progress: Progress,
    relay: Relay | None,
) -> str:
    """Make both gateways with the chosen backend, else the first that both have; its name.

    Raises:
        CannotJoin: there is none.
        ConfigError: a gateway is impossible, with the reason.
    """
    backend = asked.backend or await _made_before(server) or WIREGUARD
    makes: dict[str, tuple[str, ...]] = {}
    tried: list[str] = []
    while True:
        tried.append(backend)
        each = msgspec.structs.replace(asked, backend=backend)
        try:
            await _gateways(server, client, each, made, progress, relay)
            return backend
        except _NotMade as error:
            if asked.backend:
                raise
            makes[error.site] = error.makes
        left = [each for each in TAKEN if each not in tried]
        backend = next((each for each in left if all(each in has for has in makes.values())), "")
        if not backend:
            raise CannotJoin(_differing(makes, tried))
        progress(f"take {backend} in the place of {tried[-1]}, which one of the two does not make")


async def _made_before(server: Site) -> str:
    """The backend of the tunnel that exists; empty where there is none."""
    name = await _oldest(server, GATEWAY_SERVERS)
    if name is None:
        return ""
    found = await server.client.find(GATEWAY_SERVERS, name, server.namespace, decode=GatewayServer)
    ref = found.spec.server_template_ref if found is not None else None
    return ref.name.removesuffix("-server") if ref is not None else ""


def _differing(makes: dict[str, tuple[str, ...]], tried: list[str]) -> str:
    said = "; ".join(f"{site} makes {', '.join(has) or 'none'}" for site, has in makes.items())
    return f"no kind of tunnel is made on both sides ({', '.join(tried)} tried): {said}"


async def _gateways(
    server: Site,
    client: Site,
    asked: NetworkOptions,
    made: _Made,
    progress: Progress,
    relay: Relay | None,
) -> None:
    progress(f"make the gateway of {server.id}, which is dialled")
    name = await _have(
        server, GATEWAY_SERVERS, gateway_server(server.peer, server.liqo, asked), made
    )
    told = await _accepted(server, GATEWAY_SERVERS, GatewayServer, name)
    endpoint = asked.dialled(told.status.endpoint or GatewayEndpoint())
    if relay is not None:
        endpoint = await relay.behind(endpoint, asked, client.client, server.id)
    where = ", ".join(endpoint.addresses)
    progress(
        f"make the gateway of {client.id}, which dials {where} {endpoint.protocol} {endpoint.port}"
    )
    websocket = reported_websocket(told)
    if websocket:
        progress(f"offer it TCP {websocket} of the same, for where no UDP passes")
    wanted = gateway_client(client.peer, client.liqo, asked, endpoint, websocket)
    name = await _have(client, GATEWAY_CLIENTS, wanted, made)
    dials = await _accepted(client, GATEWAY_CLIENTS, GatewayClient, name)
    progress("tell each side the other's public key")
    await _publish_key(server, told, client, dials, made)
    await _publish_key(client, dials, server, told, made)


async def _oldest(site: Site, kind: Kind) -> str | None:
    """The name of the gateway of that kind that a side has for the other."""
    selection = Selection(site.namespace, labels=f"{labels.REMOTE_CLUSTER_ID}={site.peer}")
    found = await site.client.list(kind, selection, decode=Partial)
    if not found:
        return None
    return min(found, key=lambda one: one.metadata.creation_timestamp or "").metadata.name


async def _is_started(server: Site, client: Site) -> bool:
    """True if any object exists of a tunnel in which that side is dialled by the other."""
    return bool(await _oldest(server, GATEWAY_SERVERS) or await _oldest(client, GATEWAY_CLIENTS))


async def _somebody_begins(one: Site, other: Site) -> None:
    """Waits, where ranges exist already, for their maker to make a gateway first."""
    with trio.move_on_after(BEGUN_WITHIN):
        while not (  # noqa: ASYNC110  # of another's doing
            await _is_started(one, other) or await _is_started(other, one)
        ):
            await trio.sleep(LOOK_EVERY)


async def _kept(server: Site, client: Site) -> None:
    """Waits until both gateways of a tunnel of other clients are as complete as own ones would be.

    Raises:
        CannotJoin: the network cannot be joined.
        ConfigError: a gateway is impossible, with the reason.
    """
    await _taken(server, GATEWAY_SERVERS, GatewayServer)
    await _taken(client, GATEWAY_CLIENTS, GatewayClient)


async def _taken(site: Site, kind: Kind, type_: type[R]) -> None:
    def missing() -> CannotJoin:
        return CannotJoin(f"{site.id} has no {kind.name} for {site.peer}, who peered before")

    name = await poll_until(partial(_oldest, site, kind), within=ANSWERS_WITHIN, failing=missing)
    try:
        await _accepted(site, kind, type_, name)
    except NotFound:
        raise missing() from None


async def own_ranges(site: Site) -> Ranges:
    """The ranges of a cluster from its Networks.

    Raises:
        CannotJoin: it keeps none.
    """

    found = await site.client.list(NETWORKS, Selection(site.liqo), decode=Network)

    def of(kind: str) -> tuple[str, ...]:
        return tuple(
            each.status.cidr or each.spec.cidr for each in found if each.kind_of_range == kind
        )

    pods, external = of(labels.POD_CIDR), of(labels.EXTERNAL_CIDR)
    if not pods or not external:
        missing = labels.EXTERNAL_CIDR if pods else labels.POD_CIDR
        raise CannotJoin(f"{site.id} keeps no Network of the type {missing} in {site.liqo}")
    return Ranges(pods, external)


async def _have(site: Site, kind: Kind, wanted: dict[str, Any], made: _Made) -> str:
    """Make or update an object; its name, which may be another where one existed before.

    A peering user lists and updates, and neither watches nor patches. The other side may be joining
    at the same time: an object that it made meanwhile is found, and one that it deleted is made.
    """
    for left in reversed(range(TRIES)):
        try:
            return await _found_or_made(site, kind, wanted, made)
        except AlreadyExists:
            if not left:
                peer = wanted["metadata"]["labels"][labels.REMOTE_CLUSTER_ID]
                name = f"{site.namespace}/{wanted['metadata']['name']}"
                message = f"{kind.name} {name} at {site.id} is not of {peer}"
                raise ConfigError(message) from None
        except (Conflict, NotFound):
            if not left:
                raise
    raise AssertionError("the last try returns or raises")


async def _found_or_made(site: Site, kind: Kind, wanted: dict[str, Any], made: _Made) -> str:
    peer = wanted["metadata"]["labels"][labels.REMOTE_CLUSTER_ID]
    selector = f"{labels.REMOTE_CLUSTER_ID}={peer}"
    found = await site.client.list(kind, Selection(site.namespace, labels=selector))
    if not found:
        name = str(wanted["metadata"]["name"])
        await site.client.create(kind, wanted, site.namespace)
        made.note(site, kind, name)
        return name
    live = min(found, key=lambda one: str(one["metadata"]["creationTimestamp"]))
    spec = {**live.get("spec", {}), **wanted["spec"]}
    owners = wanted["metadata"].get("ownerReferences", [])
    notes = dict(live["metadata"].get("annotations", {}))
    notes.pop(labels.WEBSOCKET, None)
    notes |= wanted["metadata"].get("annotations", {})
    is_so = (
        spec == live.get("spec", {})
        and owners == live["metadata"].get("ownerReferences", [])
        and notes == live["metadata"].get("annotations", {})
    )
    if not is_so:
        live["spec"] = spec
        live["metadata"]["ownerReferences"] = owners
        live["metadata"]["annotations"] = notes
        await site.client.update(kind, live, site.namespace)
    return str(live["metadata"]["name"])


async def _configured(site: Site) -> None:
    """Wait until a side sees the other's ranges under aliases.

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
    """A gateway, once its daemon has made keys for it, and a server has an endpoint.

    Raises:
        CannotJoin: no network can be joined at that site.
        ConfigError: this gateway is impossible, with the reason.
    """
    undecided = ""

    async def look() -> R | None:
        nonlocal undecided
        found = await site.client.get(kind, name, site.namespace, decode=type_)
        told = conditions.of_type(found.status.conditions, "Accepted")
        if told is not None and told.observed_generation not in (None, found.metadata.generation):
            return None  # it is about an earlier request, such as another port
        undecided = told.message if told is not None and told.status == "Unknown" else ""
        if told is not None and told.status == "False":
            if told.reason == CANNOT_JOIN:
                raise CannotJoin(f"{site.id}: {told.message}")
            message = f"{site.id} refuses the gateway {name}: {told.message}"
            makes = found.status.backends
            # An older daemon has those in its message alone.
            if told.reason == NOT_MADE and makes is not None:
                raise _NotMade(site.id, makes, message)
            raise ConfigError(message)
        if found.status.secret_ref is None:
            return None
        return found if is_told(found) or pending(found) else None

    def is_told(found: R) -> bool:
        endpoint = (
            found.status.endpoint if isinstance(found, GatewayServer) else GatewayEndpoint(("-",))
        )
        return endpoint is not None and bool(endpoint.addresses)

    def pending(found: R) -> str:
        told = conditions.of_type(found.status.conditions, "Exposed")
        return told.message if told is not None and told.status == "False" else ""

    found = await poll_until(
        look,
        within=ANSWERS_WITHIN,
        failing=lambda: CannotJoin(
            f"{site.id}: {undecided}" if undecided else f"the daemon of {site.id} makes no gateway"
        ),
    )
    if is_told(found):
        return found

    async def exposed() -> R | None:
        now = await look()
        return now if now is not None and is_told(now) else None

    return await poll_until(
        exposed,
        within=EXPOSED_WITHIN,
        failing=lambda: CannotJoin(f"{site.id}: {pending(found)}"),
    )


async def _publish_key(
    site: Site,
    gateway: GatewayServer | GatewayClient,
    other: Site,
    theirs: GatewayServer | GatewayClient,
    made: _Made,
) -> None:
    """Write a gateway's public key on the other side, beside the gateway of that side."""
    try:
        key = await _key(site, gateway)
    except Forbidden:
        # A peering user whose cluster was accepted: it has written the key already.
        selection = Selection(other.namespace, labels=f"{labels.REMOTE_CLUSTER_ID}={site.id}")
        if not await other.client.list(PUBLIC_KEYS, selection, decode=Partial):
            raise
    else:
        await _have(other, PUBLIC_KEYS, public_key(site.id, key, theirs), made)


async def _key(site: Site, gateway: GatewayServer | GatewayClient) -> bytes:
    """The public key of a gateway.

    Raises:
        ConfigError: it is not in the Secret that the gateway names.
    """
    ref = gateway.status.secret_ref
    assert ref is not None
    found = await site.client.get(SECRETS, ref.name, ref.namespace or site.namespace, decode=Secret)
    key = found.value(labels.PUBLIC_KEY_FIELD)
    if not key:
        raise ConfigError(f"the Secret {ref.name} at {site.id} has no public key in it")
    return key
