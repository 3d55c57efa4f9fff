"""The two clusters whose networks are joined, and the wait until packets go both ways."""

from collections.abc import Iterable
from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.errors import ConfigError
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model.network import podpath
from liqod.model.network.podpath import NOT_TRIED, PodPath
from liqod.procedures.networkobjects import WEBSOCKET, WIREGUARD
from liqod.procedures.tenantrequest import Sides
from liqod.procedures.timings import ORDINARY, PeeringTimings
from liqod.resources.networking import CONNECTIONS, Connection
from liqod.runtime.polling import poll_until
from liqod.runtime.progress import Progress, Step

CONNECTED: Final = "Connected"
"""Status of a Connection whose tunnel is up."""


class Site(msgspec.Struct, frozen=True):
    """One of the two clusters.

    Attributes:
        client: of its API server.
        id: its own.
        peer: the other's.
        namespace: its tenant namespace of the other.
        liqo: liqod's (or Liqo's) own namespace in it.
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


class _UnconnectedSide(msgspec.Struct, frozen=True):
    """A side whose Connection does not report yet that packets go both ways.

    Attributes:
        state: of its tunnel; empty where there is no Connection yet.
        pods: the path from pod to pod.
    """

    state: str = ""
    pods: PodPath = NOT_TRIED

    @property
    def connected(self) -> bool:
        """True if the tunnel itself is connected."""
        return self.state == CONNECTED

    @property
    def text(self) -> str:
        """The state of the tunnel and of the pods behind it, in words."""
        if self.connected:
            return f"{CONNECTED}, pods {self.pods.text}"
        return self.state or "no Connection yet"


async def wait_connected(
    both: Iterable[Site],
    progress: Progress,
    backend: str = WIREGUARD,
    *,
    timings: PeeringTimings = ORDINARY,
) -> None:
    """Waits until each side reports that its tunnel is up, and that pods are reached through it.

    A gateway that runs Liqo, or has no address among its pods, cannot report the latter.

    Raises:
        ConfigError: they do not in time, with the report of each side.
    """
    every = tuple(both)
    waiting = {site.id: _UnconnectedSide() for site in every}
    told: dict[str, str] = {}

    async def look() -> bool:
        for site in every:
            if site.id in waiting and await _connected(site, waiting, told):
                del waiting[site.id]
        progress(Step("wait until packets go both ways", _text(waiting)))
        return not waiting

    await poll_until(
        look,
        within=timings.connected_within,
        failing=lambda: ConfigError(
            f"the clusters are peered, but no packet goes from one to the other: {_text(waiting)}; "
            f"{_remedy(waiting, backend)}; `liqod network status` shows each part"
        ),
    )
    for site in every:
        progress(Step(site.id, told[site.id]))


def _remedy(waiting: dict[str, _UnconnectedSide], backend: str) -> str:
    if all(each.connected for each in waiting.values()):
        return "the tunnel stands: what filters packets between a gateway and its pods?"
    if backend == WEBSOCKET:
        return "are the gateway's TCP port, and `CONNECT` to it by a proxy on the way, let through"
    return (
        "is the gateway's UDP port let through? Where no UDP passes, `[network] websocket = true` "
        "on the side that is dialled and `liqod peer` again, or `liqod unpeer` and the same "
        f"command with --tunnel {WEBSOCKET}, go by TCP port 443"
    )


async def _connected(
    site: Site, waiting: dict[str, _UnconnectedSide], told: dict[str, str]
) -> bool:
    selector = f"{labels.REMOTE_CLUSTER_ID}={site.peer}"
    found = await site.client.list(
        CONNECTIONS, Selection(site.namespace, labels=selector), decode=Connection
    )
    for one in found:
        pods = podpath.read(one.metadata.annotations.get(labels.PODS, ""))
        waiting[site.id] = side = _UnconnectedSide(one.status.value or "Connecting", pods)
        if side.connected and not pods.open:
            reached = f"a packet went to a pod's address of {site.peer}, and came back"
            told[site.id] = reached if pods.state == "reached" else _plain(pods)
            return True
    return False


def _plain(pods: PodPath) -> str:
    return f"{CONNECTED}; from pod to pod {pods.text}" if pods.state else CONNECTED


def _text(waiting: dict[str, _UnconnectedSide]) -> str:
    return ", ".join(f"{id_} says {each.text}" for id_, each in waiting.items())
