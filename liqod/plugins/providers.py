"""The contracts of discovery plugins and tunnel backends: how to build a typed async object.

Hooks return descriptions; nothing is started while plugins are loaded. The daemon decodes the
plugin's own table of the configuration by ``config_type`` and calls ``build``. A discovery runs
inside a nursery whose wall holds every failure of it; a tunnel belongs to the task of the peer.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Literal, NoReturn, Protocol, TypeVar

import msgspec
import trio

from liqod.apimachinery.kinds import Kind
from liqod.errors import LiqodError
from liqod.plugins.contracts import API
from liqod.plugins.contracts import NoSettings as NoSettings
from liqod.plugins.tunnelspec import TUNNEL_ADDRESSES as TUNNEL_ADDRESSES
from liqod.plugins.tunnelspec import Side as Side
from liqod.plugins.tunnelspec import TunnelSpec as TunnelSpec

R = TypeVar("R")

MOST_ADVERT: Final = 1300
"""Characters of an advert that are taken: one packet of any network carries it, with a name."""
MOST_ADDRESSES: Final = 8
"""Addresses of one sighting."""
LONGEST_TTL: Final = 86400.0
"""Seconds for which a sighting may be declared valid."""


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """A discovery plugin's report that it saw a cluster; it reports as often as it likes.

    It is a hint without authority: the announcer of a cluster may not be the operator. Only its
    advert identifies a cluster, and the daemon verifies it.

    Attributes:
        cluster_id: the peer's id, as it was announced.
        plugin: name of the plugin that saw it.
        where: by which of its sources the plugin sees it, such as the name of a service or of an
            object; empty where there is one alone. Several sources may show one cluster.
        gone: it is not to be seen any more at that source (this alone ends no peering).
        ttl: seconds for which it is valid unless repeated; 0 until it is reported gone.
        addresses: ``HOST:PORT`` at which its daemon takes the handshake, as seen there.
        advert: the cluster's advert, signed by its key, as it came: at most
            :data:`MOST_ADVERT` characters; empty for nothing.
        proof: the proof of the source, such as ``DNSSEC``; empty for none.
        tenant_namespace: the local namespace that belongs to it, where known.
        secret: name of its kubeconfig Secret in that namespace, where there is one.
        kubeconfig: path of a peering user's kubeconfig, where there is one.
    """

    cluster_id: str
    plugin: str
    where: str = ""
    gone: bool = False
    ttl: float = 0.0
    addresses: tuple[str, ...] = ()
    advert: str = ""
    proof: str = ""
    tenant_namespace: str = ""
    secret: str = ""
    kubeconfig: str = ""


class Announcement(msgspec.Struct, frozen=True, kw_only=True):
    """This cluster's announcement of itself to other clusters.

    Attributes:
        advert: its advert, signed by its key: ASCII, at most :data:`MOST_ADVERT`
            characters. It is signed anew when its content changes, so read it before each use.
        port: where the daemon takes the handshake, at the addresses of this machine.
        addresses: ``HOST:PORT`` at which it is reached, where the operator sets it.
    """

    advert: str
    port: int
    addresses: tuple[str, ...] = ()


class Store(Protocol):
    """A snapshot that follows the API server (as :class:`liqod.kube.cache.store.IndexedStore`)."""

    def decode(self, key: tuple[str, str], type: type[Any], /) -> Any:
        """One object, decoded, or None."""
        ...


class Informer(Protocol):
    """A shared watch of one kind (as :class:`liqod.kube.cache.informer.SharedInformer`)."""

    @property
    def store(self) -> Store:
        """The objects as they are now."""
        ...

    def subscribe(self, handler: Callable[[Any], None], /) -> Callable[[], None]:
        """Call ``handler`` with each change, those so far included; returns how to end it."""
        ...


async def publishes_nothing(kind: Kind, manifest: Mapping[str, Any]) -> None:
    """Raises LiqodError: there is no cluster in which to write."""
    raise LiqodError(f"no {kind.name} can be written here")


Share = Callable[..., AbstractAsyncContextManager[Informer]]
"""``share(kind, namespace, labels=…)``: a shared informer for the length of an ``async with``."""


class Configured(msgspec.Struct, frozen=True):
    """A peer that the operator named in the configuration.

    Attributes:
        cluster_id: its id.
        kubeconfig: path of a peering user's kubeconfig, or empty.
        addresses: ``HOST:PORT`` at which its daemon takes the handshake, if there are any.
    """

    cluster_id: str
    kubeconfig: str = ""
    addresses: tuple[str, ...] = ()


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon's services for a discovery plugin.

    Attributes:
        cluster_id: this cluster's id.
        share: opens shared local informers.
        configured: the peers of the configuration.
        announcement: the data this cluster publishes now; None where there is none, as long as
            its daemon takes no handshake. Cheap: to be called again before each announcement.
        publish: makes an object of this cluster match a manifest, its status included;
            ``await publish(kind, manifest)``. Raises LiqodError, also where the object is somebody
            else's. The daemon needs the rights for it.
        in_cluster: whether the daemon runs as a pod, which is not in the network of its node.
    """

    cluster_id: str
    share: Callable[..., AbstractAsyncContextManager[Any]]
    configured: tuple[Configured, ...] = ()
    announcement: Callable[[], Announcement | None] = lambda: None
    publish: Callable[[Kind, Mapping[str, Any]], Awaitable[None]] = publishes_nothing
    in_cluster: bool = False


class Discovery(Protocol):
    """Sees clusters."""

    async def run(
        self,
        sighted: Callable[[Sighting], None],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        """Report sightings until cancelled. It minds its cancellation, and never returns.

        Args:
            sighted: called with each.
            task_status: ``started()`` as soon as it looks; the contract suite waits for that.
        """
        ...


class DiscoveryProvider(msgspec.Struct, frozen=True, kw_only=True):
    """How to build a discovery plugin.

    Attributes:
        name: what configuration and ``liqod plugins`` call it.
        build: from its decoded settings and the services.
        on_request: it runs only where the configuration names it, by a table
            ``[plugins.settings.NAME]``, which may be empty.
        config_type: the struct its table of the configuration is decoded as.
        api: the version of the contract.
    """

    name: str
    build: Callable[[Any, Services], Discovery]
    on_request: bool = False
    config_type: type[Any] = NoSettings
    api: int = API


class Host(Protocol):
    """The machine, as far as a tunnel has to do with it."""

    async def within(self, namespace: str, function: Callable[[], R], /) -> R:
        """Call a blocking function in a thread whose network namespace is that one.

        Sockets and netlink sockets that it opens, and processes that it starts, belong to that
        namespace for as long as they live.

        Args:
            namespace: name below ``/run/netns``; empty for the daemon's own.
            function: is not interrupted; its exception is raised here.

        Raises:
            LiqodError: there is no such namespace, or the right is missing.
        """
        ...


class TunnelServices(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon's services for a tunnel backend.

    Attributes:
        cluster_id: this cluster's id.
        host: the machine.
        folder: path of a folder of root's alone that lasts until the machine starts anew, for
            sockets and what is needed to find a process again. It is there before ``up`` is called.
    """

    cluster_id: str
    host: Host
    folder: str


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where one tunnel is on this machine; the same each time the daemon starts.

    Attributes:
        interface: name of its interface, at most 15 characters, used once on the machine.
        namespace: name of the network namespace where the interface is to be.
        underlay: the one where its packets travel; empty for the daemon's own.
    """

    interface: str
    namespace: str
    underlay: str = ""


class TunnelStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a tunnel is.

    Attributes:
        path: the carrier of the packets: ``kernel``, ``userspace``, ``websocket`` …
        endpoint: the present address of the other side; empty for unknown.
        received, sent: bytes since the interface is there.
        handshake_age: seconds since the sides last agreed on keys; None where they never did, or
            where there is nothing to agree on.
        why: the reason it is blocked, in a sentence; empty where none is known.
    """

    path: str
    endpoint: str = ""
    received: int = 0
    sent: int = 0
    handshake_age: float | None = None
    why: str = ""


class Tunnel(Protocol):
    """An interface whose packets come out at the peer's gateway. It outlives the daemon.

    Packets of either family go through it by the peer's tunnel address as next hop
    (:data:`TUNNEL_ADDRESSES`), so that the interface may be point-to-point or an Ethernet. Its
    addresses and routes are the caller's.
    """

    async def problem(self) -> str | None:
        """A missing requirement on this machine (a program, a device, a right), in a sentence.

        Raises:
            LiqodError: it cannot be found out now; it is asked again soon.
        """
        ...

    async def up(self, spec: TunnelSpec, /, *, silent: float = 0.0) -> float:
        """Make the tunnel as it is to be; of one that is so already nothing is touched.

        A running tunnel is adopted, also that of a daemon before this one: no packet is lost.
        Afterwards the interface is up, in its namespace, and has the MTU.

        Args:
            silent: seconds for which nothing has come from the other side, by the probes that are
                sent through the tunnel; 0 while they come back. In silence it tries its means:
                other endpoints, new keys.

        Returns:
            Seconds until it wants to be called again, such as to look a name up; ``inf`` for not
            before something changes. It may be called sooner, and is when the interface goes and
            when silence begins.

        Raises:
            LiqodError: why there is no tunnel. It is called again after a pause.
        """
        ...

    async def status(self) -> TunnelStatus | None:
        """How it is; None where there is no tunnel. Cheap, and changes nothing."""
        ...

    async def down(self) -> None:
        """End it, also an earlier daemon's: no interface, process or file is left. Idempotent."""
        ...


class TunnelProvider(msgspec.Struct, frozen=True, kw_only=True):
    """How to build a tunnel backend.

    Attributes:
        name: what configuration and ``liqod plugins`` call it.
        build: one tunnel, from its decoded settings, the services and its place; changes nothing
            on the machine.
        encrypted: whether nobody on the path can read or forge its packets. One without encryption
            is used only where it is requested by name.
        overhead: bytes that it adds to a packet, at most; 0 where its packets are not bound to
            those of the underlay, as with a stream.
        stands_by: whether its tunnels can be quiet and marked. Of others a standby machine
            has none, and makes them when it takes over.
        carried: whether its packets can go in a websocket where no UDP passes.
        transport: the protocol that a firewall has to pass.
        port: the default port of a server.
        shared_port: whether the servers of several peers listen at one port.
        on_request: it is used only where it is requested by name.
        order: of the usable ones, the one with the lowest is taken.
        config_type: the struct its table of the configuration is decoded as.
        api: the version of the contract.
    """

    name: str
    build: Callable[[Any, TunnelServices, Place], Tunnel]
    encrypted: bool
    overhead: int
    stands_by: bool = False
    carried: bool = False
    transport: Literal["UDP", "TCP"] = "UDP"
    port: int = 51840
    shared_port: bool = False
    on_request: bool = False
    order: int = 50
    config_type: type[Any] = NoSettings
    api: int = API
