"""What hinders a look at a machine, or a backend, for a moment hinders no more than it has to."""

from dataclasses import dataclass

from msgspec.structs import replace

from liqod.errors import PluginParked
from liqod.network.dataplane.names import PeerNames
from liqod.network.gatewayhost import GatewayHost
from liqod.network.orders.tunnels import (
    EndTunnel,
    ReadMachine,
    Surroundings,
    TunnelEnded,
)
from liqod.plugins.providers import Tunnel
from tests.unit.network.test_tunnelservice import OSLO, Machine, serving, settled
from tests.unit.network.tunnels import GATEWAY, ORDER

PARKED = "the network rope is parked for 60 s more"


@dataclass
class Parked(Machine):
    """A machine with a backend of a third party's that is not called now."""

    parked: bool = True

    async def look(self, around: Surroundings) -> GatewayHost:
        found = await super().look(around)
        rope = parked if self.parked else self.build
        return replace(found, tunnels={**found.tunnels, "rope": rope})


def parked(names: PeerNames) -> Tunnel:
    raise PluginParked(PARKED)


async def test_a_parked_backend_is_in_the_way_of_those_ends_alone_that_may_be_its_own():
    made = Parked(
        # Of these this program knows no order: an earlier one had it.
        namespaces={
            "bern": frozenset({"wireguard"}),
            "oslo": frozenset({"wireguard", "rope"}),
            "turin": None,
        }
    )
    async with serving(made) as (machine, service):
        service.receive(ORDER)
        service.receive(replace(OSLO, peer="lima", gateway=replace(GATEWAY, backend="rope")))
        await settled()
        ended = {
            "milan": "",  # ordered, by another backend
            "lima": "",  # ordered by this one, which was parked already and has made nothing
            "bern": "",
            "paris": "",  # never ordered
            "oslo": PARKED,
            "turin": PARKED,  # by a program that has recorded nothing
        }
        for number, peer in enumerate(ended, 5):
            service.receive(EndTunnel(number, peer))
            await settled()
        answers = [TunnelEnded(number, why) for number, why in enumerate(ended.values(), 5)]
        assert machine.answers()[-len(ended) :] == answers
        assert all(("remove", each) in machine.did for each in ended)


async def test_what_a_parked_backend_has_left_is_remembered_until_it_has_ended():
    machine = Parked(namespaces={"turin": None})
    async with serving(machine) as (_, service):
        for number in (5, 6):
            service.receive(EndTunnel(number, "turin"))
            await settled()
    assert machine.namespaces == {"turin": frozenset({"rope"})}
    machine.news.clear()
    async with serving(machine) as (_, service):  # which knows of no end, nor of an order
        service.receive(EndTunnel(7, "turin"))
        await settled()
        assert machine.answers() == [TunnelEnded(7, PARKED)]
        machine.parked = False
        service.receive(ReadMachine(8))
        await settled()
        service.receive(EndTunnel(9, "turin"))
        await settled()
        assert machine.answers()[-1] == TunnelEnded(9)
    assert machine.namespaces == {}
