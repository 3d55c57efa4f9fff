"""Certificates by the CSR API: issued once, kept, renewed when due, and no request left behind."""

from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio

from liqod.errors import Invalid, ProtocolError, TransientError
from liqod.identity import certificaterequests, certificates, keys
from liqod.identity.signingrequests import SigningRequests
from liqod.kube import leaderelection
from liqod.kube.client import Client
from liqod.provider.tenants.certificateissuer import LEAST_INTERVAL, CertificateIssuer, Order
from tests.testbed.held import held

CA = certificates.make_ca("milan")
KEY = keys.generate()
CSR = certificaterequests.make_csr(KEY, "rome", "liqo.io")
ORDER = Order("rome", "liqo-tenant-rome", "liqo-remote-certificate", CSR, {"uid": "1"})


class Server:
    """The part of an API server that signs."""

    delete_selected = Client.delete_selected

    def __init__(self, *, life=1000.0, refuse="", mute=False, csr=None):
        self.time = 1_800_000_000.0
        self.secret: Any = None
        self.requests = {}
        self.signed = 0
        self.life = life
        self.refuse = refuse
        self.mute = mute
        self.csr = csr

    def now(self):
        return self.time

    async def find(self, kind, name, namespace, *, decode):
        return msgspec.convert(self.secret, decode) if self.secret is not None else None

    async def create(self, kind, obj, namespace):
        assert self.secret is None
        self.secret = obj

    async def patch(self, kind, name, patch, namespace):
        self.secret = patch

    async def create_full(self, kind, obj):
        assert obj["spec"]["signerName"] == "kubernetes.io/kube-apiserver-client"
        assert obj["metadata"]["labels"]["liqo.io/remote-tenant-csr"] == "true"
        made = {**obj, "metadata": {**obj["metadata"], "uid": "2"}}
        self.requests[obj["metadata"]["name"]] = made
        return made

    async def list(self, kind, selection, *, decode):
        assert selection.labels == "liqo.io/remote-tenant-csr=true"
        return [msgspec.convert(one, decode, strict=False) for one in self.requests.values()]

    async def update(self, kind, obj, *, subresource):
        assert subresource == "approval"
        assert obj["status"]["conditions"][0]["type"] == "Approved"
        self.requests[obj["metadata"]["name"]] = obj

    async def get(self, kind, name, *, decode):
        found = self.requests[name]
        status = {"conditions": found["status"]["conditions"]}
        if self.refuse:
            status["conditions"].append({"type": "Failed", "message": self.refuse})
        elif not self.mute:
            self.signed += 1
            request = self.csr or b64decode(found["spec"]["request"])
            pem = certificates.sign_client(CA, request, seconds=self.life, now=self.time)
            status["certificate"] = msgspec.to_builtins(pem)
        return msgspec.convert({"status": status}, decode)

    async def delete(self, kind, name, namespace=None, *, uid):
        assert self.requests.pop(name)["metadata"]["uid"] == uid
        return True


def issuer(server, held=None, **more):
    return CertificateIssuer(server, held or SigningRequests(), now=server.now, **more)


async def test_it_is_signed_once_and_kept():
    server = Server()
    first = await issuer(server).issue(ORDER)
    assert first.renew_in == pytest.approx((1000 + 60) * 2 / 3 - 60)
    server.time += 100
    again = await issuer(server).issue(ORDER)
    assert again.certificate == first.certificate
    assert again.renew_in == pytest.approx(first.renew_in - 100)
    assert server.signed == 1
    assert server.requests == {}
    assert server.secret["metadata"]["labels"]["liqo.io/remote-cluster-id"] == "rome"


async def test_it_is_renewed_when_due_and_for_another_request():
    server = Server()
    first = await issuer(server).issue(ORDER)
    server.time += first.renew_in + 1
    second = await issuer(server).issue(ORDER)
    assert (
        certificates.read(second.certificate).not_after
        > certificates.read(first.certificate).not_after
    )
    other = certificaterequests.make_csr(keys.generate(), "rome", "liqo.io")
    third = await issuer(server).issue(msgspec.structs.replace(ORDER, csr=other))
    assert server.signed == 3
    public = certificaterequests.inspect(other).public_key
    assert keys.same_public(certificates.read(third.certificate).public_key, public)


async def test_a_point_that_is_over_at_once_does_not_sign_without_end():
    server = Server()
    room = issuer(server, renew_at=0.01)
    first = await room.issue(ORDER)
    assert first.renew_in == LEAST_INTERVAL
    server.time += 1
    assert (await room.issue(ORDER)).certificate == first.certificate
    server.time += LEAST_INTERVAL
    await room.issue(ORDER)
    assert server.signed == 2


async def test_a_refusal_is_told_and_the_request_deleted():
    server = Server(refuse="not today")
    with pytest.raises(Invalid, match="not today"):
        await issuer(server).issue(ORDER)
    assert server.requests == {}
    assert server.secret is None


async def test_a_signer_that_says_nothing_is_given_up(autojump_clock):
    server = Server(mute=True)
    with pytest.raises(TransientError, match="30 s"):
        await issuer(server).issue(ORDER)
    assert server.requests == {}


async def test_a_leader_that_must_stop_does_so_before_another_may_lead(autojump_clock):
    class Lost(Server):
        """No longer reached once it has the request."""

        async def update(self, kind, obj, *, subresource):
            await trio.sleep_forever()

        async def delete(self, kind, name, namespace=None, *, uid):
            await trio.sleep_forever()

    with trio.move_on_after(leaderelection.RENEW_DEADLINE) as leading:
        await issuer(Lost()).issue(ORDER)
    assert leading.cancelled_caught
    assert (
        trio.current_time()
        < leading.deadline + leaderelection.DURATION - leaderelection.RENEW_DEADLINE
    )


@pytest.mark.parametrize("slow", [True, False])
async def test_the_request_goes_though_deleting_it_fails_at_first(autojump_clock, slow):
    class Busy(Server):
        """Takes long over the first deletion, or refuses it."""

        tried = 0

        async def delete(self, kind, name, namespace=None, *, uid):
            self.tried += 1
            if self.tried > 1:
                return await super().delete(kind, name, uid=uid)
            if slow:
                await trio.sleep_forever()
            raise TransientError("too busy")

    server = Busy()
    assert (await issuer(server).issue(ORDER)).certificate
    assert server.requests == {}


@asynccontextmanager
async def heard(held: SigningRequests) -> AsyncIterator[list[float]]:
    """When it was said of signing requests that one may have been left behind."""
    lost: list[float] = []

    async def listen() -> None:
        while True:
            await held.lost()
            lost.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        await trio.testing.wait_all_tasks_blocked()
        yield lost
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


async def test_a_request_whose_answer_nobody_heard_is_swept(autojump_clock):
    class Late(Server):
        """Answers later than anybody waits."""

        async def create_full(self, kind, obj):
            await super().create_full(kind, obj)
            await trio.sleep_forever()

    server: Any = Late()
    held = SigningRequests()
    async with heard(held) as lost:
        with trio.move_on_after(1):
            await issuer(server, held).issue(ORDER)
        assert len(server.requests) == 1
        now = trio.current_time()
    assert lost == [now]
    assert await held.sweep(server) == 1
    assert server.requests == {}


async def test_a_request_that_is_being_worked_on_is_not_swept(autojump_clock):
    server: Any = Server(mute=True)
    held = SigningRequests()
    async with heard(held) as lost:
        with trio.move_on_after(1):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(issuer(server, held).issue, ORDER)
                await trio.sleep(0.5)
                assert await held.sweep(server) == 0
                assert len(server.requests) == 1
    assert server.requests == {}
    assert not lost, "it was deleted by the one that made it"


async def test_a_certificate_for_another_key_is_not_handed_on():
    server = Server(csr=certificaterequests.make_csr(keys.generate(), "rome", "liqo.io"))
    with pytest.raises(ProtocolError, match="another key"):
        await issuer(server).issue(ORDER)


async def test_slices_that_come_and_go_are_not_remembered():
    server = Server()
    issued = issuer(server)
    for number in range(50):
        server.secret = None
        await issued.issue(msgspec.structs.replace(ORDER, secret=f"slice-{number}"))
        server.time += LEAST_INTERVAL
    assert len({each for each in held(issued, str) if each.startswith("slice-")}) == 1


async def test_what_another_authority_signed_is_signed_anew():
    server = Server()
    order = msgspec.structs.replace(ORDER, authority=CA.certificate)
    await issuer(server).issue(order)
    server.time += LEAST_INTERVAL
    await issuer(server).issue(order)
    assert server.signed == 1
    rotated = msgspec.structs.replace(order, authority=certificates.make_ca("milan").certificate)
    await issuer(server).issue(rotated)
    assert server.signed == 2
    # A version that did not note it: the certificate itself tells.
    del server.secret["metadata"]["annotations"]
    await issuer(server).issue(order)
    assert server.signed == 2
    await issuer(server).issue(rotated)
    assert server.signed == 3
