"""Clusters that were seen: what discovery plugins report, and the peerings that follow from it.

A sighting alone peers with nobody. One that brings a peering user's kubeconfig is the operator's
word that this cluster shall borrow there: the daemon then does what ``liqod peer`` does, as often
as it takes, each peer behind a wall of its own. From the tenant namespace on, the peer is
:mod:`liqod.peers`' affair.
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import msgspec
import trio

from liqod.consumer import handshake
from liqod.errors import PluginError, ProtocolError
from liqod.home import Home
from liqod.identity import certificates
from liqod.kube import credentials
from liqod.kube.client import Client
from liqod.log import PEER, Seldom
from liqod.model import ids
from liqod.plugins import loader
from liqod.plugins.providers import Configured, DiscoveryProvider, Services, Sighting
from liqod.resources import IDENTITIES, Identity
from liqod.supervise import Failure, Supervision, explain

MOST_SEEN = 1024
"""Sightings that are kept: whoever is in the same network may announce any number."""
LOOK_EVERY = 30.0
"""Seconds between looks at the end of a certificate."""

logger = logging.getLogger(__name__)


class Inbox:
    """Runs the discovery plugins and keeps what they have seen.

    Args:
        home: this cluster.

    Attributes:
        home: the same, with the configuration as it was read last.
        sightings: the newest of each plugin and cluster.
    """

    def __init__(self, home: Home) -> None:
        self.home = home
        self._introduced: set[str] = set()
        self._seldom = Seldom()
        self._restart = trio.CancelScope()
        self.sightings: dict[tuple[str, str], Sighting] = {}

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Run the plugins until cancelled."""
        task_status.started()
        while True:
            self._introduced.clear()
            self.sightings.clear()
            with trio.CancelScope() as self._restart:
                async with trio.open_nursery() as nursery:
                    for provider in self.home.plugins.discovery:
                        nursery.start_soon(self._watch, nursery, provider)
                    await trio.sleep_forever()

    def reload(self, home: Home) -> None:
        """Begin anew with another configuration; peerings that exist are not touched."""
        self.home = home
        self._restart.cancel()

    async def _watch(self, nursery: trio.Nursery, provider: DiscoveryProvider) -> None:
        """One plugin behind its wall."""
        home = self.home
        services = Services(
            cluster_id=home.cluster_id,
            share=home.informers.share,
            configured=tuple(
                Configured(peer.id, kubeconfig=peer.kubeconfig) for peer in home.config.peers
            ),
        )
        table = home.config.plugins.settings.get(provider.name, {})

        async def live() -> None:
            plugin = provider.build(loader.settings_of(provider, table), services)
            await plugin.run(lambda seen: self._sighted(nursery, provider.name, seen))
            raise PluginError("it ended by itself")

        report = _reporter(home, f"discovery plugin {provider.name}")
        await Supervision(live, report).forever()

    def _sighted(self, nursery: trio.Nursery, plugin: str, seen: Sighting) -> None:
        """Take note of a sighting; a cluster id that cannot be one is dropped, and said so."""
        problem = ids.cluster_id_problem(seen.cluster_id)
        if problem is not None:
            if self._seldom.allows((plugin, "cannot be")):
                logger.warning("the plugin %s saw a cluster that cannot be: %s", plugin, problem)
            return
        key = (plugin, seen.cluster_id)
        if self.sightings.get(key) == seen:
            return
        if key not in self.sightings and len(self.sightings) >= MOST_SEEN and not seen.gone:
            if self._seldom.allows((plugin, "too many")):
                logger.warning("the plugin %s sees more clusters than are kept", plugin)
            return
        if seen.gone:
            self.sightings.pop(key, None)
        else:
            self.sightings[key] = seen
        self.home.hub.publish("discovery.sighting", **msgspec.to_builtins(seen))
        wanted = seen.kubeconfig and not seen.gone and seen.cluster_id != self.home.cluster_id
        if wanted and seen.cluster_id not in self._introduced:
            self._introduced.add(seen.cluster_id)
            nursery.start_soon(self._introduce, seen.cluster_id, seen.kubeconfig)

    async def _introduce(self, peer: str, path: str) -> None:
        """Peer with one cluster, until it has worked, and again when what it gave has expired."""
        PEER.set(peer)
        home = self.home

        async def live() -> NoReturn:
            while True:
                await introduce(home, peer, Path(path))
                logger.info("peered, as the configuration asks")
                await until_expired(home, peer)

        await Supervision(live, _reporter(home, f"peering with {peer}")).forever()


async def until_expired(home: Home, peer: str) -> None:
    """Wait until the certificate that a peer gave for the control plane has ended.

    One that is renewed in time never does; one that could not be, for the peer was away too long,
    opens no door through which another could come. A peer that was left stays left.
    """
    name = ids.control_plane_identity(peer)
    async with home.informers.share(IDENTITIES) as identities:
        while True:
            await trio.sleep(LOOK_EVERY)
            found = (each for each in identities.store.values(Identity) if each.name == name)
            given = next((each.spec.auth_params.signed_crt for each in found), b"")
            with suppress(ProtocolError):
                if given and certificates.read(given).ends <= time.time():
                    return


async def introduce(
    home: Home, peer: str, path: Path, progress: handshake.Progress | None = None
) -> None:
    """Do what ``liqod peer`` does, with the daemon's own rights in this cluster.

    Args:
        home: this cluster.
        peer: the cluster's id.
        path: a peering user's kubeconfig.
        progress: told each step; without one the hub is.

    Raises:
        ConfigError: the kubeconfig cannot be used, or leads to another cluster than ``peer``.
        LiqodError: as the handshake.
    """

    def publish(step: str) -> None:
        home.hub.publish("peer.introduction", peer=peer, step=step)

    asked = handshake.Asked(resources=home.config.peer(peer).resources)
    async with Client(credentials.from_other_side(path), user_agent="liqod") as remote:
        await handshake.peer(
            home.client,
            remote,
            asked,
            progress=progress or publish,
            liqo=home.namespace,
            expected=peer,
        )


def _reporter(home: Home, what: str) -> Callable[[Failure | None, BaseException | None], None]:
    """Says of a task that failed why, and when it is tried again."""

    def report(failure: Failure | None, error: BaseException | None) -> None:
        if failure is None or error is None:
            return
        home.hub.publish("discovery.failed", what=what, **msgspec.to_builtins(failure))
        logger.warning("%s failed: %s; next try in %.0f s", what, explain(error), failure.retry_in)

    return report
