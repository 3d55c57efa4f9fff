"""Bare VXLAN: the kernel's, fast, and open to anybody on the path. Only where it is named.

The client has the server's address; the server learns the client's from its frames. Both
use the port at which the server is reached, so there may be no translation of ports between them.
"""

from hashlib import sha256
from ipaddress import ip_address

import trio

from liqod.errors import ConfigError, NetworkError
from liqod.model.endpoints import join
from liqod.netlink import Attribute, attributes, read_number
from liqod.plugins.contracts import NoSettings
from liqod.plugins.hookspecs import hookimpl
from liqod.plugins.network.endpointselection import EndpointResolver, Race, parted
from liqod.plugins.network.interface import Interface
from liqod.plugins.network.processrights import NET_ADMIN, may
from liqod.plugins.network.rtnetlink import Link
from liqod.plugins.providers import (
    Place,
    Side,
    TunnelProvider,
    TunnelServices,
    TunnelSpec,
    TunnelStatus,
)

PORT = 4789
MACS: dict[Side, str] = {"server": "0a:18:71:78:00:01", "client": "0a:18:71:78:00:02"}
"""The sides' link-layer addresses; locally administered."""
_VNI, _REMOTE, _PORT, _REMOTE6 = 1, 2, 15, 16


class VxlanTunnel:
    """One tunnel.

    Args:
        settings: none.
        services: of the daemon.
        place: where the interface is to be.
    """

    def __init__(self, settings: NoSettings, services: TunnelServices, place: Place) -> None:
        self._place = place
        self._interface = Interface(services.host, place)
        self._race, self._names = Race(), EndpointResolver()

    async def problem(self) -> str | None:
        """As :meth:`liqod.plugins.providers.Tunnel.problem`."""
        return None if may(NET_ADMIN) else "the right CAP_NET_ADMIN is missing"

    async def up(self, spec: TunnelSpec, /, *, silent: float = 0.0) -> float:
        """As :meth:`liqod.plugins.providers.Tunnel.up`."""
        problem = await self.problem()
        if problem is not None:
            raise ConfigError(problem)
        now, link = trio.current_time(), await self._interface.find("vxlan")
        current = remote_of(link) if link is not None else ""
        candidates, pause = await self._names.candidates(spec.endpoints, silent=silent, now=now)
        # There are no keys to agree on: a received packet is the only sign of life.
        step = self._race.step(candidates, current, silent=silent, handshake=0.0, now=now)
        endpoint = step.endpoint or current
        if spec.side == "client" and not endpoint:
            raise NetworkError("no address of the server is known")
        port = parted(endpoint)[1] if endpoint else spec.listen_port or PORT
        wanted = (vni(spec), port, endpoint)
        if link is None or (number_of(link), port_of(link), remote_of(link)) != wanted:
            await self.down()
            await self._make(spec, port, endpoint)
        await self._interface.settle(spec.mtu)
        again = min(step.again, pause)
        return min(again, 1.0) if spec.endpoints and not candidates else again

    async def status(self) -> TunnelStatus | None:
        """As :meth:`liqod.plugins.providers.Tunnel.status`."""
        link = await self._interface.find("vxlan")
        if link is None:
            return None
        return TunnelStatus(
            path="kernel", endpoint=remote_of(link), received=link.received, sent=link.sent
        )

    async def down(self) -> None:
        """As :meth:`liqod.plugins.providers.Tunnel.down`."""
        await self._interface.delete()

    async def _make(self, spec: TunnelSpec, port: int, endpoint: str) -> None:
        """Make the interface where its packets travel, and move it.

        Raises:
            NetworkError: there is no such namespace, or the kernel refuses.
        """
        data: list[Attribute] = [
            ("IFLA_VXLAN_ID", vni(spec)), ("IFLA_VXLAN_LEARNING", 1), ("IFLA_VXLAN_PORT", port)
        ]  # fmt: skip
        if endpoint:
            address = ip_address(parted(endpoint)[0])
            remote = "IFLA_VXLAN_GROUP" if address.version == 4 else "IFLA_VXLAN_GROUP6"
            data.append((remote, str(address)))
        await self._interface.make("vxlan", *data, mac=MACS[spec.side])
        try:
            await self._interface.move()
        except OSError as error:
            why = error.strerror or error
            raise NetworkError(f"vxlan {self._place.interface}: {why}") from error


def vni(spec: TunnelSpec) -> int:
    """Number of the overlay: of the server's key, which both sides have."""
    key = spec.public_key if spec.side == "server" else spec.peer_public_key
    return int.from_bytes(sha256(key).digest()[:3], "big") or 1


def number_of(link: Link) -> int:
    """The overlay's number of an interface."""
    return read_number(attributes(link.data).get(_VNI))


def port_of(link: Link) -> int:
    """Its UDP port."""
    return int.from_bytes(attributes(link.data).get(_PORT, b""), "big")


def remote_of(link: Link) -> str:
    """The endpoint it sends to; empty where it learns that."""
    said = attributes(link.data)
    packed = said.get(_REMOTE) or said.get(_REMOTE6) or b""
    if not any(packed):
        return ""
    return join(str(ip_address(packed)), port_of(link))


VXLAN = TunnelProvider(
    name="vxlan",
    build=VxlanTunnel,
    encrypted=False,
    on_request=True,
    # 20 or 40 for IP, 8 for UDP, 8 of its own, 14 for Ethernet.
    overhead=70,
    port=PORT,
    order=90,
)


@hookimpl
def liqod_network() -> list[TunnelProvider]:
    """VXLAN."""
    return [VXLAN]
