"""A port of the handshake that another program has is reported, and everything else goes on."""

import socket
from functools import partial

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SECRETS
from liqod.apimachinery.meta import Partial
from liqod.plugins.checks import cluster
from liqod.plugins.diagnosis import ClusterFacts
from tests.simulated.borrower import eventually
from tests.simulated.meeting import ALONE
from tests.simulated.members import Member, members


def verdict(member: Member) -> str:
    """Returns the doctor's verdict on the port."""
    components = member.components
    facts = ClusterFacts(now=0.0, met_at=components.listening, unmet=components.unheard)
    found = cluster.handshake(facts)
    assert found is not None
    return found.verdict


async def met_at(member: Member) -> str:
    """Where the cluster says that its daemon is met."""
    found = await member.admin.get(SECRETS, labels.KEYS_SECRET, "liqo", decode=Partial)
    return found.metadata.annotations.get(labels.MET_AT, "")


async def test_where_a_daemon_was_met_is_not_said_when_it_is_met_there_no_more():
    async with members("milan", settings=ALONE, meets=True) as (milan,):
        assert milan.handshake is not None
        assert await met_at(milan) == f"127.0.0.1:{milan.handshake.port}"
        await milan.stop()
        milan.settings = ALONE.replace("[handshake]", "[handshake]\nenabled = false")
        await milan.start()
        assert await met_at(milan) == ""


async def test_a_port_that_is_taken_is_told_until_it_is_free():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        settings = ALONE.replace("port = 0", f"port = {port}")
        async with members("milan", settings=settings, meets=True) as (milan,):
            assert verdict(milan) == "failing"
            assert str(port) in milan.components.unheard
            assert await met_at(milan) == ""
            other.close()
            await eventually(partial(_is_well, milan), seconds=120)
            assert milan.components.unheard == ""


async def _is_well(member: Member) -> bool:
    return verdict(member) == "ok"
