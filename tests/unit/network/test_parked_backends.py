"""What hinders a look at a machine, or a backend, for a moment hinders no more than it has to."""

from dataclasses import dataclass

from msgspec.structs import replace

from liqod.errors import NetworkError, PluginParked
from liqod.network.dataplane.names import PeerNames
from liqod.network.gatewayhost import GatewayHost
from liqod.network.orders.tunnels import (
    EndTunnel,
    MachineFacts,
    MachineRead,
    ReadMachine,
    Surroundings,
    TunnelEnded,
)
from liqod.plugins.providers import Tunnel
from tests.unit.network.test_tunnelservice import OSLO, Machine, serving, settled
from tests.unit.network.tunnels import GATEWAY, ORDER

PARKED = "the network rope is parked for 60 s more"
UNSEEN = "this machine cannot be looked at now: Too many open files"


@dataclass
class Parked(Machine):
    """A machine with a backend of a third party's that is not called now."""

    async def look(self, around: Surroundings) -> GatewayHost:
        found = await super().look(around)
        return replace(found, tunnels={**found.tunnels, "rope": parked})


def parked(names: PeerNames) -> Tunnel:
    raise PluginParked(PARKED)


@dataclass
class Unseen(Machine):
    """A machine that cannot be looked at now."""

    async def look(self, around: Surroundings) -> GatewayHost:
        raise NetworkError(UNSEEN)


async def test_a_parked_backend_is_in_the_way_of_those_ends_alone_that_may_be_its_own():
    async with serving(Parked()) as (machine, service):
        service.receive(ORDER)
        await settled()
        service.receive(replace(OSLO, gateway=replace(GATEWAY, backend="rope")))
        await settled()
        # Of the last one this program knows no order: an earlier one may have had it.
        for number, peer in enumerate(("milan", "oslo", "turin"), 5):
            service.receive(EndTunnel(number, peer))
            await settled()
        assert machine.answers()[-3:] == [
            TunnelEnded(5),
            TunnelEnded(6, PARKED),
            TunnelEnded(7, PARKED),
        ]
        assert all(("remove", each) in machine.did for each in ("milan", "oslo", "turin"))


async def test_a_machine_that_cannot_be_looked_at_now_lacks_nothing():
    async with serving(Unseen(), looks=False) as (machine, service):
        service.receive(ReadMachine(2))
        await settled()
        assert machine.answers() == [MachineRead(2, MachineFacts(problem=UNSEEN, unknown=True))]
