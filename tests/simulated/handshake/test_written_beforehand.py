"""An IncomingPeering that is there before anybody asks, as one that is applied from git."""

from typing import Any

import pytest
import trio

from liqod.handshake.protocol.messages import Accepted, Denied, Done
from liqod.handshake.protocol.outputs import VerifiedPeer
from liqod.kube.client import Client
from liqod.procedures import answering, revoking
from liqod.resources import INCOMING_PEERINGS, IncomingPeering
from tests.simulated.asking import ignored, reception, request, somebody


async def apply(admin: Client, who: VerifiedPeer, **spec: Any) -> None:
    """As a GitOps controller does, again and again."""
    made = {
        "apiVersion": INCOMING_PEERINGS.api_version,
        "kind": INCOMING_PEERINGS.name,
        "metadata": {"name": answering.name_of(who.cluster_id, who.key), "namespace": "liqo"},
        "spec": {"clusterID": who.cluster_id, "publicKey": who.public_key, "always": True, **spec},
    }
    await admin.apply(INCOMING_PEERINGS, made, manager="git")


async def test_who_is_named_beforehand_is_let_in_with_what_is_granted_and_nobody_else():
    async with reception() as (milan, host, _):
        rome, ask = somebody("rome"), request(resources={"cpu": "8"})
        await apply(milan.admin, rome, decision="Accept", granted={"cpu": "4"})
        with trio.fail_after(30):
            answer = await host.on_ask(rome, "192.0.2.1", ask, ignored)
        assert isinstance(answer, Accepted)
        assert answer.granted["cpu"] == "4"
        await host.on_report(rome, Done(request=ask.request))
        name = answering.name_of("rome", rome.key)
        before = await milan.admin.get(INCOMING_PEERINGS, name, "liqo", decode=IncomingPeering)
        await apply(milan.admin, rome, decision="Accept", granted={"cpu": "4"})
        after = await milan.admin.get(INCOMING_PEERINGS, name, "liqo", decode=IncomingPeering)
        assert (after.spec, after.status) == (before.spec, before.status), "applied twice: the same"

        stranger = somebody("bari")
        with trio.move_on_after(5) as waiting:
            await host.on_ask(stranger, "192.0.2.2", request(), ignored)
        assert waiting.cancelled_caught, "it waits for a person"


@pytest.mark.long
async def test_after_a_revocation_what_git_says_counts():
    async with reception() as (milan, host, _):
        rome = somebody("rome")
        await apply(milan.admin, rome, decision="Accept")
        with trio.fail_after(60):
            assert isinstance(await host.on_ask(rome, "192.0.2.1", request(), ignored), Accepted)
            await revoking.carry_out(milan.admin, "rome", ("consumer",), milan.progress)
            await apply(milan.admin, rome, decision="Accept")
            assert isinstance(await host.on_ask(rome, "192.0.2.1", request(), ignored), Accepted)
            await apply(milan.admin, rome, decision="Deny")
            await revoking.carry_out(milan.admin, "rome", ("consumer",), milan.progress)
            await apply(milan.admin, rome, decision="Deny")
            assert isinstance(await host.on_ask(rome, "192.0.2.1", request(), ignored), Denied)
