"""What discovery and network plugins are: descriptions of how to build a typed async object.

Hooks return descriptions; nothing is started while plugins are loaded. The daemon decodes the
plugin's own table of the configuration by ``config_type``, calls ``build`` and runs what comes
back inside a nursery whose wall holds every failure of it.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, NoReturn, Protocol

import msgspec
import trio

from liqod.kube.kinds import Kind
from liqod.plugins.contracts import API
from liqod.plugins.contracts import NoSettings as NoSettings


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """ "I saw a cluster": what a discovery plugin says, as often as it likes.

    Attributes:
        cluster_id: the peer's id.
        plugin: name of the plugin that saw it.
        gone: it is not to be seen any more (this alone ends no peering).
        tenant_namespace: the local namespace that belongs to it, where one is known.
        secret: name of its kubeconfig Secret in that namespace, where there is one.
        kubeconfig: path of a peering user's kubeconfig, where there is one.
    """

    cluster_id: str
    plugin: str
    gone: bool = False
    tenant_namespace: str = ""
    secret: str = ""
    kubeconfig: str = ""


class Store(Protocol):
    """A snapshot that follows the API server (:class:`liqod.kube.cache.store.Store` is one)."""

    def decode(self, key: tuple[str, str], type: type[Any], /) -> Any:
        """One object, decoded, or None."""
        ...


class Informer(Protocol):
    """A shared watch of one kind (:class:`liqod.kube.cache.informer.Informer` is one)."""

    @property
    def store(self) -> Store:
        """The objects as they are now."""
        ...

    def subscribe(self, handler: Callable[[Any], None], /) -> Callable[[], None]:
        """Call ``handler`` with each change, those so far included; returns how to end it."""
        ...


Share = Callable[..., AbstractAsyncContextManager[Informer]]
"""``share(kind, namespace, labels=…)``: a shared informer for the length of an ``async with``."""


class Configured(msgspec.Struct, frozen=True):
    """A peer that the operator named in the configuration.

    Attributes:
        cluster_id: its id.
        kubeconfig: path of a peering user's kubeconfig, or empty.
    """

    cluster_id: str
    kubeconfig: str = ""


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """What a discovery or network plugin is given of the daemon.

    Attributes:
        cluster_id: this cluster's id.
        share: opens shared local informers.
        configured: the peers of the configuration.
    """

    cluster_id: str
    share: Callable[..., AbstractAsyncContextManager[Any]]
    configured: tuple[Configured, ...] = ()


class Discovery(Protocol):
    """Sees clusters."""

    async def run(
        self,
        sighted: Callable[[Sighting], None],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        """Report sightings until cancelled; ``started()`` once the first round is through."""
        ...


class Tunnel(Protocol):
    """A link to a peer's gateway."""

    async def run(
        self, *, task_status: trio.TaskStatus[Mapping[str, Any]] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Keep the link until cancelled; ``started`` with what the other side must know."""
        ...


class DiscoveryProvider(msgspec.Struct, frozen=True, kw_only=True):
    """How to build a discovery plugin.

    Attributes:
        name: what configuration and ``liqod plugins`` call it.
        build: from its decoded settings and the services.
        config_type: the struct its table of the configuration is decoded as.
        api: the version of the contract.
    """

    name: str
    build: Callable[[Any, Services], Discovery]
    config_type: type[Any] = NoSettings
    api: int = API


class NetworkProvider(msgspec.Struct, frozen=True, kw_only=True):
    """How to build a tunnel backend; attributes as :class:`DiscoveryProvider`'s.

    Attributes:
        name: what configuration and ``liqod plugins`` call it.
        build: from its decoded settings, the services and the facts the peer published.
        config_type: the struct its table of the configuration is decoded as.
        reads: kinds of local objects it shares informers of.
        api: the version of the contract.
    """

    name: str
    build: Callable[[Any, Services, Mapping[str, Any]], Tunnel]
    config_type: type[Any] = NoSettings
    reads: tuple[Kind, ...] = ()
    api: int = API
