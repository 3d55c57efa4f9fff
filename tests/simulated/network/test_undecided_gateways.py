"""A gateway of which it is not known yet whether it can be says why, and is not refused."""

import pytest

from liqod.resources.networking import GATEWAY_CLIENTS, GATEWAY_SERVERS
from tests.simulated.borrower import Json, condition
from tests.simulated.lender import TENANT
from tests.simulated.network.test_gateways import client, server, site

SILENT = "the network wireguard has not come back from problem within 5 s"


@pytest.mark.parametrize(
    ("here", "why"),
    [
        (
            {"undecided": {"wireguard": SILENT}},
            "tunnels by 'wireguard' can be made",
        ),
        ({"unknown": SILENT}, "the network can be joined"),
    ],
    ids=["a backend", "the machine"],
)
async def test_one_that_may_yet_be_says_what_is_not_known_and_is_no_refusal(here: Json, why: str):
    message = f"it is not known yet whether {why} here: {SILENT}"
    async with site(backends={}, **here) as milan:
        for kind, spec in ((GATEWAY_CLIENTS, client()), (GATEWAY_SERVERS, server())):
            await milan.make(kind, spec)
            found = await milan.told(kind, "Accepted", "Undecided")
            told = condition(found, "Accepted")
            assert (told["status"], told["message"]) == ("Unknown", message)
            assert set(found["status"]) == {"conditions"}, "no keys, and no endpoint to dial"
            await milan.known(lambda ends: ends.waits == message and not ends.refused)
            await milan.lender.admin.delete(kind, "rome", TENANT)
            await milan.gone(kind, "rome")
        # What was accepted stays so: parts of it may stand.
        await milan.make(GATEWAY_SERVERS, server())
        found = await milan.told(GATEWAY_SERVERS, "Accepted", "Undecided")
        accepted = {**condition(found, "Accepted"), "status": "True", "reason": "Accepted"}
        where = (GATEWAY_SERVERS, "rome", {"status": {"conditions": [accepted]}}, TENANT)
        await milan.lender.admin.patch(*where, subresource="status")
        await milan.lender.settled()
        found = await milan.lender.admin.get(GATEWAY_SERVERS, "rome", TENANT)
        assert condition(found, "Accepted")["status"] == "True"
