"""The part of the Services of the set that all peers have in common: kinds, and who shares.

The kinds may be missing, or in another version than liqod's own, or come later: nothing of the set
is begun before they are served, and nothing is withdrawn because they are gone.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

import msgspec
import trio

from liqod.apimachinery.kinds import CUSTOM_RESOURCES, Kind
from liqod.apimachinery.labels import ENDPOINT_SLICE_MANAGED_BY
from liqod.errors import LiqodError, NotFound
from liqod.kube.cache.store import Key
from liqod.kube.client import Client
from liqod.kube.definitions import name_of
from liqod.model.clusterset.admission import Scope
from liqod.model.clusterset.byway import end_of
from liqod.resources.exchanges import SERVICE_EXCHANGES
from liqod.resources.multicluster import (
    SERVICE_EXPORTS,
    SERVICE_IMPORTS,
    SLICE_MANAGER,
    VERSIONS,
    served_version,
)
from liqod.runtime.observable import Notifier
from liqod.runtime.ticks import sleep_until_tick

if TYPE_CHECKING:
    from liqod.clusterset.byway import Offers

MADE_HERE: Final = f"{ENDPOINT_SLICE_MANAGED_BY}={SLICE_MANAGER}"
"""Selects the EndpointSlices that liqod makes of imports."""
LOOK_AGAIN = 10.0
"""Seconds until another look for the kinds, while they are missing."""
LOOK_FOR_DAY: Final = 600.0
"""Seconds between two looks at whether another day has begun."""


class Kinds(msgspec.Struct, frozen=True):
    """The kinds in the version that this cluster serves."""

    exports: Kind
    imports: Kind


class KindsMissing(NotFound):
    """The kinds of the API are not served, though an installation shares Services."""


async def kinds_here(client: Client) -> Kinds | None:
    """Find the kinds that a cluster serves; None where no installation shares Services.

    Raises:
        KindsMissing: one does, and a kind of the API is missing.
    """
    if await client.find(CUSTOM_RESOURCES, name_of(SERVICE_EXCHANGES)) is None:
        return None
    exports = await _version(client, SERVICE_EXPORTS[VERSIONS[0]])
    imports = await _version(client, SERVICE_IMPORTS[VERSIONS[0]])
    if exports is None or imports is None:
        raise KindsMissing("the kinds of the Multi-Cluster Services API are not served")
    return Kinds(SERVICE_EXPORTS[exports], SERVICE_IMPORTS[imports])


async def _version(client: Client, kind: Kind) -> str | None:
    """The version in which a kind is served here."""
    found: Any = await client.find(CUSTOM_RESOURCES, name_of(kind))
    versions = (found or {}).get("spec", {}).get("versions", ())
    return served_version({each["name"] for each in versions if each.get("served")})


class SharingPeer(Protocol):
    """A peer, as far as Services of the set are shared with it."""

    def scope(self, namespace: str) -> Scope | None:
        """The bounds of its exports to a namespace; None while they are not known."""

    def reached(self) -> bool | None:
        """True if anything gets through to its pods; None while that is not known."""

    def charge(self, used: float) -> None:
        """Note seconds of work that its exports have caused."""

    def debt(self) -> float:
        """Seconds for which work that it causes waits, as it has caused too much."""

    @property
    def offers(self) -> "Offers":
        """Its exports that other peers may have by way of this cluster."""

    def heard(self, namespace: str, peer: str, after: float) -> None:
        """Have a namespace looked at, as a peer that shares by way of this cluster has news."""

    def passed_on(self, key: Key, mark: str) -> dict[str, bool | None]:
        """The clusters that may have an export by way of it, and whether they have taken it; None
        where it has no room for it."""

    def delivery(self, key: Key, mark: str) -> str | None:
        """``taken``, ``waits`` or ``failed`` for an export of that mark it may have; empty for
        others, None while that is not known."""

    def left_out(self, key: Key) -> str:
        """The bound of this cluster that keeps it from being told an export; or empty."""


class Sharing:
    """The kinds of the set, and the peers that Services are shared with.

    Args:
        client: this cluster's.

    Attributes:
        peers: by id, while the peer's task runs.
        private: this cluster's private key, PEM; empty until it is known.
        until: the Unix time until which what is signed now counts.
        clock: the Unix time.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kinds: Kinds | None = None
        self._news = Notifier()
        self._bounds = Notifier()
        self._at_bounds: set[Key] = set()
        self.peers: dict[str, SharingPeer] = {}
        self.private = b""
        self.clock: Callable[[], float] = time.time
        self.until = end_of(self.clock())

    async def kinds(self) -> Kinds:
        """Wait until both kinds, and that of exchanges, are served."""
        while self._kinds is None:
            with suppress(LiqodError):
                self._kinds = await kinds_here(self._client)
            if self._kinds is None:
                await trio.sleep(LOOK_AGAIN)
        return self._kinds

    async def known_key(self) -> None:
        """Wait until this cluster's key is known."""
        while not self.private:
            await self.wait_changed()

    def take(self, private: bytes) -> None:
        """Sign with a key from now on."""
        if private != self.private:
            self.private = private
            self.notify()

    async def renew_daily(self) -> NoReturn:
        """Sign anew each day, and have others' signatures looked at that may have ended."""
        while True:
            self.renew()  # the kinds may have come days after this was made
            await sleep_until_tick(LOOK_FOR_DAY)

    def renew(self) -> None:
        """Do so once another day has begun."""
        until = end_of(self.clock())
        if until != self.until:
            self.until = until
            self.notify()

    @contextmanager
    def sharing(self, peer: str, shared: SharingPeer) -> Iterator[None]:
        """Have a peer among those that Services are shared with."""
        self.peers[peer] = shared
        self.notify()
        try:
            yield
        finally:
            del self.peers[peer]
            self.notify()

    def notify(self) -> None:
        """Notify of a change of what a peer may say, or of the link to it."""
        self._news.notify()

    async def wait_changed(self) -> None:
        """Wait for the next change."""
        await self._news.wait()

    def notify_bounds(self, keys: Iterable[Key]) -> None:
        """Notify of exports that a bound leaves out from now on, or no more."""
        self._at_bounds.update(keys)
        self._bounds.notify()

    async def wait_bounds(self) -> None:
        """Wait for the next such exports."""
        await self._bounds.wait()

    def take_bounds(self) -> set[Key]:
        """The exports that were notified since they were last taken."""
        found, self._at_bounds = self._at_bounds, set()
        return found
