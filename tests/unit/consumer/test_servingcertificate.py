"""The certificate of the kubelet API: the cluster's, renewed, and our own where there is none."""

import base64
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from liqod.consumer.nodes.podproxy import PodProxies
from liqod.consumer.nodes.servingcertificate import LIFE, SIGNER, ServingCertificate
from liqod.errors import Forbidden, LiqodError
from liqod.identity import certificates, keys
from liqod.identity.certificates import Pair

Clock = trio.testing.MockClock
"""Tests name it themselves: else pytest-trio does not find it."""
NODE = "192.0.2.10"
CA = certificates.make_ca("cluster")
START = 1_700_000_000.0
LIVED = 60 * 24 * 3600.0


class Signer:
    """An API server with a signer, or without one."""

    def __init__(self) -> None:
        self.requests: dict[str, dict[str, Any]] = {}
        self.made: list[dict[str, Any]] = []
        self.refusal: LiqodError | None = None
        self.mute = False
        self.other = b""

    async def create_full(self, kind: Any, body: dict[str, Any]) -> dict[str, Any]:
        if self.refusal:
            raise self.refusal
        self.made.append(body)
        name = body["metadata"]["name"]
        self.requests[name] = {**body, "metadata": {**body["metadata"], "uid": name}}
        return self.requests[name]

    async def update(self, kind: Any, obj: dict[str, Any], *, subresource: str) -> None:
        assert subresource == "approval"
        assert obj["status"]["conditions"][0]["type"] == "Approved"
        if not self.mute:
            csr = self.other or base64.b64decode(obj["spec"]["request"])
            now = START + trio.current_time()
            signed = certificates.sign_server(CA, csr, seconds=LIVED, now=now)
            self.requests[obj["metadata"]["name"]]["status"] = signed

    async def get(self, kind: Any, name: str, decode: Any) -> Any:
        signed = self.requests[name].get("status", b"")
        return SimpleNamespace(status=SimpleNamespace(certificate=signed, conditions=()))

    async def delete(self, kind: Any, name: str, *, uid: str) -> None:
        del self.requests[name]

    async def delete_selected(self, kind: Any, selection: Any, *, spared: Any) -> int:
        return 0


class World:
    """A daemon's kubelet API; the clock is Trio's."""

    def __init__(self) -> None:
        self.signer = Signer()
        self.shown: list[Pair] = []
        self.ways = PodProxies()
        context = SimpleNamespace(
            client=self.signer,
            config=SimpleNamespace(certificates=SimpleNamespace(renew_at=0.5)),
            node_address=NODE,
        )
        self.serving = ServingCertificate(
            cast("Any", context), self.ways, self.shown.append, self.now
        )

    def now(self) -> float:
        return START + trio.current_time()

    def borrow(self) -> None:
        self.ways["milan"] = cast("Any", object())
        self.ways.came.notify()

    @property
    def signed(self) -> bool:
        return certificates.is_issued_by(self.shown[-1].certificate, CA.certificate)


@pytest.fixture
async def world(autojump_clock: Clock, nursery: trio.Nursery) -> World:
    made = World()
    nursery.start_soon(made.serving.run)
    await trio.sleep(0.01)
    return made


async def test_it_is_a_kubelets_and_renewed(autojump_clock: Clock, world: World) -> None:
    assert not world.signed
    assert world.signer.made == [], "nothing is asked for before something is borrowed"
    world.borrow()
    await trio.sleep(1)
    assert world.signed
    assert not world.serving.problem
    [request] = world.signer.made
    assert request["spec"]["signerName"] == SIGNER
    assert request["spec"]["usages"] == ["digital signature", "key encipherment", "server auth"]
    assert request["spec"]["expirationSeconds"] == LIFE
    facts = certificates.read(world.shown[-1].certificate)
    assert (facts.common_name, facts.organizations) == ("system:node:liqod", ("system:nodes",))
    assert certificates.serves(world.shown[-1].certificate, world.shown[-1].key, NODE)
    assert not certificates.serves(world.shown[-1].certificate, world.shown[-1].key, "192.0.2.11")
    assert world.signer.requests == {}, "no request stays"
    await trio.sleep(LIVED / 2 - 3600)
    assert len(world.signer.made) == 1
    await trio.sleep(2 * 3600)
    assert len(world.signer.made) == 2
    assert world.shown[-1] != world.shown[-2]


async def test_our_own_is_shown_while_there_is_no_other(
    autojump_clock: Clock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.signer.refusal = Forbidden("signers is forbidden")
    world.borrow()
    await trio.sleep(3600)
    assert not world.signed
    assert world.serving.problem == "signers is forbidden"
    assert [each.getMessage() for each in caplog.records] == [
        f"kubelet API: no certificate of {SIGNER}: signers is forbidden"
    ]
    world.signer.refusal = None
    await trio.sleep(3700)
    assert world.signed
    assert not world.serving.problem


async def test_a_signer_that_says_nothing_is_asked_ever_more_seldom(
    autojump_clock: Clock, world: World
) -> None:
    world.signer.mute = True
    world.borrow()
    await trio.sleep(24 * 3600)
    assert 24 <= len(world.signer.made) <= 60
    assert f"does {SIGNER} work here?" in world.serving.problem
    assert not world.signed


async def test_what_is_signed_stays_until_it_ends_and_then_it_is_our_own(
    autojump_clock: Clock, world: World
) -> None:
    world.borrow()
    await trio.sleep(1)
    world.signer.refusal = Forbidden("taken away")
    await trio.sleep(LIVED - 7200)
    assert world.signed
    assert world.serving.problem == "taken away"
    await trio.sleep(3 * 3600)
    assert not world.signed
    assert certificates.read(world.shown[-1].certificate).not_after > world.now()


async def test_another_key_or_address_is_not_shown(autojump_clock: Clock, world: World) -> None:
    key = keys.generate_tls()
    world.signer.other = certificates.request_server(key, "system:node:x", "system:nodes", [NODE])
    world.borrow()
    await trio.sleep(1)
    assert not world.signed
    assert "signed another key" in world.serving.problem


async def test_our_own_is_renewed_too(autojump_clock: Clock, world: World) -> None:
    await trio.sleep(LIFE / 2 + 7200)
    assert len(world.shown) == 2
    assert world.signer.made == []
