"""This cluster's own requests: what they leave, when they begin anew, and when they end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NoReturn
from uuid import uuid4

import msgspec
import pytest
from msgspec.structs import replace

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, SECRETS, Kind
from liqod.cluster.tenancy import ensure_tenant_namespace
from liqod.errors import Unreachable
from liqod.handshake.protocol.encoding import pack
from liqod.handshake.protocol.messages import Accepted, Cancel, Offer, Report
from liqod.handshake.requests.borrowrequest import BorrowRequest, key_problem
from liqod.handshake.requests.invitations import InvitationParameters, invite
from liqod.handshake.requests.reverseconnections import ReverseConnections
from liqod.kube.client import Client
from liqod.procedures import peeringrequest
from liqod.procedures.peeringrequest import PeeringRequest
from liqod.resources import (
    INVITATIONS,
    OUTGOING_PEERINGS,
    RESOURCE_SLICES,
    Invitation,
    OutgoingPeering,
)
from liqod.resources.authentication import PERMISSION_WITHDRAWN
from tests.simulated.asking import somebody
from tests.simulated.members import Member, members
from tests.unit.handshake.meeting import YES

FIRST, SECOND = "a" * 64, "b" * 64


async def made(rome: Member, name: str = "milan", **status: Any) -> OutgoingPeering:
    """A request in that state."""
    spec = {
        "clusterID": "milan",
        "addresses": ["192.0.2.1:6446"],
        "expires": status.pop("ends", ""),
    }
    filled = {key: value for key, value in spec.items() if value}
    obj = {"metadata": {"name": name}, "spec": filled}
    await rome.admin.create(OUTGOING_PEERINGS, obj, "liqo")
    await rome.admin.patch(
        OUTGOING_PEERINGS, name, {"status": status}, "liqo", subresource="status"
    )
    return await found(rome, name)


async def found(rome: Member, name: str = "milan") -> OutgoingPeering:
    return await rome.admin.get(OUTGOING_PEERINGS, name, "liqo", decode=OutgoingPeering)


def nobody(*_: Any) -> NoReturn:
    raise AssertionError("nobody is to be dialled")


async def test_who_is_stopped_while_asking_leaves_no_secret(monkeypatch: pytest.MonkeyPatch):
    async with members("rome") as [rome]:
        create = Client.create

        async def fails(self: Client, kind: Kind, *rest: Any, **more: Any) -> Any:
            if kind is OUTGOING_PEERINGS:
                raise Unreachable("cut off")
            return await create(self, kind, *rest, **more)

        monkeypatch.setattr(Client, "create", fails)
        before = {each["metadata"]["name"] for each in await rome.admin.list(SECRETS)}
        request = PeeringRequest(
            name="milan", cluster_id="milan", invitation=("invitation-x", b"s" * 16)
        )
        with pytest.raises(Unreachable):
            await peeringrequest.ensure_request(rome.admin, "liqo", request)
        assert {each["metadata"]["name"] for each in await rome.admin.list(SECRETS)} <= before


async def test_who_was_sent_away_since_asks_again_and_is_not_told_that_all_is_well():
    request = PeeringRequest(
        name="milan", cluster_id="milan", invitation=("invitation-x", b"s" * 16)
    )
    async with members("rome") as [rome]:
        namespace = await ensure_tenant_namespace(rome.admin, "milan")
        spec = {"class": "default", "providerClusterID": "milan", "consumerClusterID": "rome"}
        lent = {"metadata": {"name": "milan"}, "spec": spec}
        await rome.admin.create(RESOURCE_SLICES, lent, namespace)
        first = await made(rome, phase="Done", clusterID="milan", key=FIRST)
        await peeringrequest.ensure_request(rome.admin, "liqo", request)
        assert (await found(rome)).metadata.uid == first.metadata.uid

        told = {"type": "Authentication", "status": "Denied", "reason": PERMISSION_WITHDRAWN}
        status = {"status": {"conditions": [told]}}
        await rome.admin.patch(RESOURCE_SLICES, "milan", status, namespace, subresource="status")
        await peeringrequest.ensure_request(rome.admin, "liqo", request)
        again = await found(rome)
        assert again.metadata.uid != first.metadata.uid
        assert again.status.phase == ""


@pytest.mark.parametrize("phase", ["", "Waiting"])
async def test_a_request_is_given_up_in_its_time_whether_it_was_heard_or_not(phase: str):
    async with members("rome") as [rome]:
        await made(rome, phase=phase or None, ends="2026-01-01T00:00:00Z")
        assert await BorrowRequest(rome.context, "milan", nobody).run()
        assert (await found(rome)).status.phase == "Expired"


@pytest.mark.parametrize(("phase", "known"), [("Waiting", False), ("Accepted", True)])
async def test_who_only_answered_first_is_not_known_by_that(phase: str, known: bool):
    async with members("rome") as [rome]:
        request = await made(rome, phase=phase, clusterID="milan", key=FIRST)
        assert bool(key_problem(request, "milan", SECOND, [request])) is known


async def test_who_finds_by_a_write_that_the_request_was_deleted_takes_it_back_over_there():
    reported: list[Report] = []

    async with members("rome") as [rome]:

        class Met:
            """A lender that answers when the request has been deleted."""

            peer, address = somebody("milan"), "192.0.2.1:6446"

            async def ask(self, *_: Any) -> Accepted:
                await rome.admin.delete(OUTGOING_PEERINGS, "milan", "liqo")
                return YES

            async def report(self, report: Report) -> None:
                reported.append(report)

        @asynccontextmanager
        async def dialling(*_: Any) -> AsyncIterator[Any]:
            yield Met()

        request = await made(rome, phase="Waiting")
        pursuit = BorrowRequest(rome.context, "milan", dialling)
        assert await pursuit.run()
        assert reported == [Cancel(request=request.metadata.uid)]


async def test_a_lender_that_was_revoked_comes_back_by_an_invitation_for_its_key_alone():
    async with members("rome") as [rome]:
        namespace = await ensure_tenant_namespace(rome.admin, "milan")
        mark = {"metadata": {"annotations": {labels.REVOKED_PROVIDER: "2026-01-01T00:00:00Z"}}}
        await rome.admin.patch(NAMESPACES, namespace, mark)
        milan, lenders = somebody("milan"), ReverseConnections(rome.context)
        for key, comes in ("", False), (milan.key, True):
            wanted = InvitationParameters(
                addresses=("192.0.2.9:6446",), key=FIRST, lifetime=600, borrow=True
            )
            line, _ = await invite(rome.admin, "liqo", replace(wanted, for_key=key))
            brought = {"id": line.id, "secret": pack(line.secret)}
            offer = msgspec.convert({"request": str(uuid4()), "invitation": brought}, Offer)
            refused = await lenders.on_offer(milan, offer)
            assert (refused is None) is comes
            left = await rome.admin.get(INVITATIONS, line.id, "liqo", decode=Invitation)
            assert left.status.used == int(comes)
