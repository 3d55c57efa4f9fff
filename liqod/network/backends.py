"""Calls the functions of tunnel backends: each is named, type-checked, and has a time limit.

The daemon, and what sweeps after it, have tunnels from here and from nowhere else. An error that a
backend raises on purpose (a LiqodError) is a fault of the machine; any other error in it is
reported as the plugin's, to the peer's network and in the layer of plugins.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from liqod.errors import PluginError, PluginParked
from liqod.network.dataplane.names import PeerNames
from liqod.network.orders.tunnels import Listening
from liqod.plugins.callguard import CallGuard
from liqod.plugins.providers import (
    Place,
    Tunnel,
    TunnelProvider,
    TunnelServices,
    TunnelSpec,
    TunnelStatus,
)
from liqod.plugins.typecheck import shown, type_problem, waits
from liqod.runtime.ownfolder import own_folder

Functions = Mapping[str, Callable[..., Any]]
FUNCTIONS: Final = ("problem", "up", "status", "down")


class BackendTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Time limits of a backend, all in seconds.

    Attributes:
        looks: to report a lack of this machine, or a tunnel's state.
        changes: to make a tunnel, or to end one.
    """

    looks: float = 5.0
    changes: float = 60.0


ORDINARY = BackendTimings()
"""Those of a daemon."""


Backend = Callable[[PeerNames], Tunnel]
"""How a tunnel is had, for the names of a peer; nothing changes on the machine. Raises
PluginError."""


def is_allowed(provider: TunnelProvider, named: tuple[str, ...]) -> bool:
    """True if a backend may be used: those that are named, or else those that need no naming."""
    if named:
        return provider.name in named
    return provider.encrypted and not provider.on_request


def listening(provider: TunnelProvider) -> Listening:
    """How the servers of a backend listen."""
    return Listening(
        transport=provider.transport,
        port=provider.port,
        shared=provider.shared_port,
        carried=provider.carried,
    )


class LoadedBackend(msgspec.Struct, frozen=True):
    """A backend that was loaded.

    Attributes:
        provider: the backend.
        settings: the backend's own, as its ``config_type``.
        gauge: guards the calls of the plugin.
    """

    provider: TunnelProvider
    settings: Any
    gauge: CallGuard

    def tunnels(self, services: TunnelServices, underlay: str = "") -> Backend:
        """Makes its tunnels, with checked and timed calls.

        Args:
            services: what it is given.
            underlay: name of the node's network namespace; empty for this process's own.
        """

        def build(names: PeerNames) -> Tunnel:
            place = Place(interface=names.tunnel, namespace=names.namespace, underlay=underlay)
            known = (self.provider, self.settings, services, place, self.gauge)
            return guarded(*known, names.peer_id)

        return build


def guarded(
    provider: TunnelProvider,
    settings: Any,
    services: TunnelServices,
    place: Place,
    gauge: CallGuard,
    peer: str,
    timings: BackendTimings = ORDINARY,
) -> Tunnel:
    """A tunnel of a backend, with checked calls. Raises PluginError where it cannot be built."""
    refuse(gauge)
    try:
        functions = gauge.call(_built, provider, settings, services, place)
    except PluginError as error:
        gauge.rest((peer, "build"), str(error))
        raise
    gauge.resting.pop((peer, "build"), None)
    return GuardedTunnel(functions, gauge, peer, Path(services.folder), timings)


class GuardedTunnel:
    """One tunnel of a backend, with checked and timed calls.

    Args:
        functions: of the plugin, by their names.
        gauge: guards the calls of the plugin.
        peer: the tunnel's peer.
        folder: for the files of the backend; it is made before the first is written.
    """

    def __init__(
        self,
        functions: Functions,
        gauge: CallGuard,
        peer: str,
        folder: Path,
        timings: BackendTimings = ORDINARY,
    ) -> None:
        self._functions, self._gauge, self._peer, self._folder = functions, gauge, peer, folder
        self._timings = timings

    async def problem(self) -> str | None:
        """As :meth:`liqod.plugins.providers.Tunnel.problem`. Raises PluginError."""
        found: str | None = await self._run("problem", _is_text, self._timings.looks)
        return found

    async def up(self, spec: TunnelSpec, /, *, silent: float = 0.0) -> float:
        """As :meth:`liqod.plugins.providers.Tunnel.up`. Raises LiqodError."""
        own_folder(self._folder)
        pause: float = await self._run("up", _is_time, self._timings.changes, spec, silent=silent)
        return pause

    async def status(self) -> TunnelStatus | None:
        """As :meth:`liqod.plugins.providers.Tunnel.status`. Raises LiqodError."""
        found: TunnelStatus | None = await self._run("status", _is_status, self._timings.looks)
        return found

    async def down(self) -> None:
        """As :meth:`liqod.plugins.providers.Tunnel.down`. Raises LiqodError."""
        await self._run("down", _is_nothing, self._timings.changes)
        self._gauge.forget_peer(self._peer)

    async def _run(
        self, name: str, odd: Callable[[Any], str | None], within: float, *args: Any, **named: Any
    ) -> Any:
        """Await a function, and check its result."""
        gauge, what = self._gauge, (self._peer, name)
        refuse(gauge)
        try:
            function = partial(self._functions[name], *args, **named)
            answer = await gauge.run(function, odd=odd, within=within)
        except PluginError as error:
            gauge.rest(what, str(error))
            raise
        gauge.resting.pop(what, None)
        return answer


def refuse(gauge: CallGuard) -> None:
    """Raise PluginParked where a backend is parked: it is not to be called now."""
    if gauge.rests:
        raise PluginParked(f"{gauge} is {gauge.trouble}")


def _built(
    provider: TunnelProvider, settings: Any, services: TunnelServices, place: Place
) -> Functions:
    """The functions of a tunnel that is built. Raises TypeError where it is none."""
    tunnel = provider.build(settings, services, place)
    found: dict[str, Any] = {name: getattr(tunnel, name, None) for name in FUNCTIONS}
    for name, function in found.items():
        if not waits(function):
            what = f"build returned {shown(tunnel)}, without a function {name} to be awaited"
            raise TypeError(what)
    return found


def _is_text(value: Any) -> str | None:
    return None if value is None or type(value) is str else f"{shown(value)}, not a text or None"


def _is_time(value: Any) -> str | None:
    good = type(value) in (int, float) and value >= 0
    return None if good else f"{shown(value)}, not a number of seconds"


def _is_status(value: Any) -> str | None:
    if value is None:
        return None
    if type(value) is not TunnelStatus:
        return f"{shown(value)}, not a TunnelStatus"
    return type_problem(value)


def _is_nothing(value: Any) -> str | None:
    return None if value is None else f"{shown(value)}, not None"
