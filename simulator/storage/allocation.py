"""Cluster IPs and node ports: which are free, which are held by Services."""

import ipaddress
import random

import msgspec

from simulator.storage.storage import Change, Item, Storage
from simulator.wire.failures import ApiError


class Allocations:
    """The addresses and ports of one cluster; those of stored Services are held.

    Args:
        storage: whose Services are followed.
        cidr: where cluster IPs come from.
        second: where those of the second family do; empty in a cluster of one.
    """

    def __init__(self, storage: Storage, cidr: str, second: str = "") -> None:
        networks = [ipaddress.ip_network(each) for each in (cidr, second) if each]
        self._networks = {f"IPv{each.version}": each for each in networks}
        self._addresses: set[str] = set()
        self._ports: set[int] = set()
        storage.of("services").listeners.append(self._note_service)

    def first(self) -> str:
        """The cluster IP of the ``kubernetes`` Service."""
        return str(self._networks[self.families[0]][1])

    @property
    def families(self) -> list[str]:
        """The address families of the cluster, the first one first."""
        return list(self._networks)

    def address(self, family: str, wanted: str = "") -> str:
        """A free cluster IP, or the wanted one; it is held once the service is stored."""
        network = self._networks[family]
        if wanted:
            why = ""
            try:
                inside = ipaddress.ip_address(wanted) in network
            except ValueError:
                inside, why = False, "must be a valid IP address"
            if not inside or wanted in self._addresses:
                why = why or (
                    f"failed to allocate IP {wanted}: "
                    + ("provided IP is already allocated" if inside else "not in the valid range")
                )
                raise ApiError(
                    422, "Invalid", f"spec.clusterIPs: Invalid value: [{wanted!r}]: {why}"
                )
            return wanted
        # The first addresses are left to those who ask for one by name, as the real server does.
        for offset in range(20, network.num_addresses - 1):
            address = str(network[offset])
            if address not in self._addresses:
                return address
        raise ApiError(500, "InternalError", "failed to allocate a serviceIP: range is full")

    def port(self, wanted: int = 0) -> int:
        """A free node port, or the wanted one."""
        if wanted:
            if wanted in self._ports:
                why = "provided port is already allocated"
                message = f"spec.ports[0].nodePort: Invalid value: {wanted}: {why}"
                raise ApiError(422, "Invalid", message)
            return wanted
        while True:
            port = random.randrange(30000, 32768)
            if port not in self._ports:
                return port

    def _note_service(self, change: Change) -> None:
        if change.before is not None:
            addresses, ports = _held(change.before)
            self._addresses -= addresses
            self._ports -= ports
        if change.after is not None:
            addresses, ports = _held(change.after)
            self._addresses |= addresses
            self._ports |= ports


class _Port(msgspec.Struct, rename="camel"):
    node_port: int = 0


class _ServiceSpec(msgspec.Struct, rename="camel"):
    cluster_ips: tuple[str, ...] = msgspec.field(name="clusterIPs", default=())
    ports: list[_Port] | None = None


class _Service(msgspec.Struct):
    spec: _ServiceSpec


def _held(item: Item) -> tuple[set[str], set[int]]:
    """The addresses and node ports that a service holds."""
    spec = msgspec.json.decode(item.raw, type=_Service).spec
    addresses = {*spec.cluster_ips} - {"", "None"}
    return addresses, {port.node_port for port in spec.ports or () if port.node_port}
