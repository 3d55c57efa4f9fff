"""No signing request stays at a provider, whatever cuts the work on it short."""

from base64 import b64encode

import pytest
import trio

from liqod.apimachinery.kinds import SIGNING_REQUESTS
from liqod.apimachinery.meta import Partial
from liqod.identity import certificaterequests, keys
from liqod.provider.timings import ProviderTimings
from simulator.faults import Fault
from tests.simulated.borrower import eventually
from tests.simulated.members import Member, members

REQUESTS = "/certificatesigningrequests"
DAEMON = "system:serviceaccount:liqo:liqod"
FOREIGN = {
    "metadata": {"name": "somebody-elses"},
    "spec": {
        "request": b64encode(
            certificaterequests.make_csr(keys.generate(), "else", "others")
        ).decode(),
        "signerName": "example.com/other",
        "usages": ["client auth"],
    },
}


async def names(member: Member) -> list[str]:
    found = await member.admin.list(SIGNING_REQUESTS, decode=Partial)
    return sorted(each.metadata.name for each in found)


async def only_foreign(member: Member) -> bool:
    return await names(member) == ["somebody-elses"]


SOON = ProviderTimings(orphans=0.2)
"""Timings with which orphans are looked for soon."""


@pytest.mark.long
async def test_what_a_killed_daemon_left_goes_with_the_next():
    async with (
        members("rome", "milan", timings=SOON) as (rome, milan),
        trio.open_nursery() as nursery,
    ):
        await milan.admin.create(SIGNING_REQUESTS, FOREIGN)
        stuck = Fault(verb="update", path=f"{REQUESTS}/.*/approval", user=DAEMON, silent=True)
        mute = Fault(verb="delete", path=REQUESTS, user=DAEMON, silent=True)
        with milan.cluster.faults.during(stuck), milan.cluster.faults.during(mute):
            nursery.start_soon(rome.peer, milan)
            await eventually(lambda: hit(stuck))
            await milan.stop()
        assert len(await names(milan)) == 2
        await milan.start()
        await eventually(lambda: only_foreign(milan))
    assert stuck.hits


@pytest.mark.long
async def test_what_could_not_be_deleted_is_deleted_later():
    async with members("rome", "milan", timings=SOON) as (rome, milan):
        await milan.admin.create(SIGNING_REQUESTS, FOREIGN)
        refused = Fault(verb="delete", path=REQUESTS, user=DAEMON, status=403, times=2)
        with milan.cluster.faults.during(refused):
            await rome.peer(milan)
            await eventually(lambda: only_foreign(milan))
        assert refused.hits == 2


async def hit(fault: Fault) -> bool:
    return fault.hits > 0
