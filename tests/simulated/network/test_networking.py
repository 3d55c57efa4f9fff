"""Joining the networks of two embedded clusters, as `liqod peer` does, and leaving them again.

The machines only note what they are told; a small task here stands for what gives aliases.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SECRETS, Kind
from liqod.errors import ConfigError
from liqod.handshake.requests import borrowrequest
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.selection import Selection
from liqod.network.dataplane import peerplan
from liqod.network.dataplane.names import PeerNames
from liqod.network.dataplane.peerplan import PeerPlan
from liqod.network.dataplane.values import Namespace
from liqod.network.gatewayhost import GatewayHost
from liqod.network.hostcapabilities import lacking
from liqod.network.orders.tunnels import Listening, MachineFacts
from liqod.procedures import answering, kubeconfigpeering, otherhalf, peeringrequest, unpeering
from liqod.procedures.networkjoin import Joining
from liqod.procedures.networkobjects import NetworkOptions
from liqod.procedures.timings import ORDINARY, PeeringTimings
from liqod.resources import CONFIGURATIONS, FOREIGN_CLUSTERS, NETWORKS, IncomingPeering
from liqod.resources.networking import CONNECTIONS, GATEWAY_CLIENTS, GATEWAY_SERVERS, PUBLIC_KEYS
from liqod.tunnel.probes.messages import ProbeResult
from tests.simulated.borrower import Json, eventually
from tests.simulated.meeting import ALONE, by_token, entries, invite, lead, peered, run
from tests.simulated.members import AT_MILAN, AT_ROME, Member, members
from tests.simulated.network.noting import Noting

SLOW = [pytest.mark.long, pytest.mark.network]
COMMON = {"PublicKey", "Configuration", "Connection"}
KINDS = (GATEWAY_CLIENTS, GATEWAY_SERVERS, PUBLIC_KEYS, CONFIGURATIONS, CONNECTIONS)


async def keep_ranges(member: Member) -> None:
    """The Networks by which a cluster reports its own ranges."""
    for kind, cidr in (("pod-cidr", "10.244.0.0/16"), ("external-cidr", "10.70.0.0/16")):
        metadata = {"name": kind, "labels": {"ipam.liqo.io/network-type": kind}}
        made = {"metadata": metadata, "spec": {"cidr": cidr}}
        await member.admin.create(NETWORKS, made, "liqo")
        told = {"status": {"cidr": cidr}}
        await member.admin.patch(NETWORKS, kind, told, "liqo", subresource="status")


async def give_aliases(member: Member, namespace: str, refuse: str = "") -> None:
    """Answer each Configuration, as the controller of those does."""
    alias = {"cidr": {"pod": ["10.71.0.0/16"], "external": ["10.72.0.0/16"]}}
    own = {"cidr": {"pod": ["10.244.0.0/16"], "external": ["10.70.0.0/16"]}}
    while True:
        for each in await member.admin.list(CONFIGURATIONS, Selection(namespace)):
            if each.get("status"):
                continue
            name = each["metadata"]["name"]
            condition = {
                "type": "NetworkCIDRsConfigured",
                "status": "False" if refuse else "True",
                "reason": "RangesRefused" if refuse else "Configured",
                "message": refuse,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            await member.admin.patch(CONFIGURATIONS, name, {"spec": {"local": own}}, namespace)
            status: Json = {"conditions": [condition]}
            if not refuse:
                status["remote"] = alias
            where = (CONFIGURATIONS, name, {"status": status}, namespace)
            await member.admin.patch(*where, subresource="status")
        await trio.sleep(0.05)


@asynccontextmanager
async def two(
    monkeypatch: pytest.MonkeyPatch,
    machines: Mapping[str, GatewayHost] = {},
    *,
    alive: bool = True,
    refuse: str = "",
    **more: Any,
) -> AsyncIterator[tuple[Member, Member]]:
    """rome and milan, each with a machine for networks unless it is given one."""

    def plan(names: PeerNames, *_: object, **__: object) -> PeerPlan:
        return PeerPlan(names, Namespace(), Namespace())

    monkeypatch.setattr(peerplan, "plan", plan)
    says = ProbeResult(True, 0.001) if alive else None
    notings = {name: Noting(says=says).machine() for name in ("rome", "milan")}
    async with (
        members("rome", "milan", machines={**notings, **machines}, **more) as [rome, milan],
        trio.open_nursery() as nursery,
    ):
        for member, place in ((rome, AT_ROME), (milan, AT_MILAN)):
            await keep_ranges(member)
            nursery.start_soon(give_aliases, member, place, refuse)
        yield rome, milan
        nursery.cancel_scope.cancel()


async def join(
    rome: Member, milan: Member, *, timings: PeeringTimings = ORDINARY, **asked: Any
) -> Joining:
    user = from_kubeconfig(await milan.peering_user(rome))
    joining = Joining(NetworkOptions(**asked), rome.progress)
    async with Client(user) as remote:
        with trio.fail_after(60):
            await kubeconfigpeering.peer(
                *(rome.admin, remote, None),
                progress=rome.progress,
                joining=joining,
                timings=timings,
            )
    return joining


async def objects(member: Member, place: str) -> set[str]:
    return {kind.name for kind in KINDS if await member.admin.list(kind, Selection(place))}


@pytest.mark.long
async def test_of_a_lender_that_dials_the_gateway_dials_too(monkeypatch):
    settings = ALONE.replace("[network]\nenabled = false\n", "")
    async with two(monkeypatch, settings=settings, meets=True) as (rome, milan):
        token = await invite(rome, borrow=True, resources={"cpu": "2"})
        await peeringrequest.ensure_request(milan.admin, "liqo", by_token(token, lend=True))
        entry = await eventually(lambda: first(milan))
        await answering.decide(milan.admin, "liqo", entry, answering.acceptance(entry, {}))
        await peered(milan, token.id)
        assert await objects(rome, AT_ROME) == {"GatewayServer", *COMMON}
        assert await objects(milan, AT_MILAN) == {"GatewayClient", *COMMON}


@pytest.mark.long
async def test_who_meets_is_told_why_there_is_no_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nursery: trio.Nursery
):
    monkeypatch.setattr(borrowrequest, "TOLD_AFTER", 0.01)  # each step is written
    settings = ALONE.replace("[network]\nenabled = false\n", "")
    without = {"milan": lacking("missing: CAP_NET_ADMIN")}
    async with two(monkeypatch, without, settings=settings, meets=True) as (rome, milan):
        await nursery.start(lead, rome)
        line = (await run(milan, tmp_path, "invite", "--cpu", "2")).out.strip()
        done = await run(rome, tmp_path, "peer", line)
        assert done.status == 0, done.err
        alone = "peered: milan is the node milan here; without a network, since milan: "
        assert done.out.startswith(alone)
        assert "CAP_NET_ADMIN" in done.out
        again = json.loads((await run(rome, tmp_path, "peer", line, "-o", "json")).out)
        assert "CAP_NET_ADMIN" in again["withoutNetwork"]
        assert await objects(rome, AT_ROME) == await objects(milan, AT_MILAN) == set()


async def first(host: Member) -> IncomingPeering | None:
    """Returns the first request that waits in its inbox."""
    return next((each for each in await entries(host) if each.status.phase == "Waiting"), None)


@pytest.mark.long
@pytest.mark.parametrize("where", ["Provider", "Consumer"])
async def test_peering_joins_the_networks(monkeypatch, where: str):
    async with two(monkeypatch) as (rome, milan):
        joining = await join(rome, milan, server_at=where)
        assert joining.without == ""
        server, client = (milan, rome) if where == "Provider" else (rome, milan)
        at = {rome.id: AT_ROME, milan.id: AT_MILAN}
        assert await objects(server, at[server.id]) == {"GatewayServer", *COMMON}
        assert await objects(client, at[client.id]) == {"GatewayClient", *COMMON}
        gateway = await client.admin.get(GATEWAY_CLIENTS, server.id, at[client.id])
        assert gateway["spec"]["endpoint"]["addresses"] == ["192.0.2.5"]
        # The key that each side has of the other is the one that the other shows.
        for one, other in ((rome, milan), (milan, rome)):
            shown = await one.admin.get(SECRETS, f"gw-{other.id}", at[one.id])
            told = await other.admin.get(PUBLIC_KEYS, one.id, at[other.id])
            assert told["spec"]["publicKey"] == shown["data"]["publicKey"]
            assert "privateKey" not in shown["data"]


@pytest.mark.long
@pytest.mark.network
async def test_done_again_it_writes_nothing(monkeypatch):
    async with two(monkeypatch) as (rome, milan):
        await join(rome, milan)

        async def versions() -> list[str]:
            found = []
            for member, place in ((rome, AT_ROME), (milan, AT_MILAN)):
                for kind in KINDS[:-1]:
                    each = await member.admin.list(kind, Selection(place))
                    found += [one["metadata"]["resourceVersion"] for one in each]
            return found

        before = await versions()
        joining = await join(rome, milan)
        assert joining.without == ""
        assert await versions() == before


@pytest.mark.long
@pytest.mark.network
async def test_a_websocket_that_the_server_does_not_offer_any_more_is_forgotten(monkeypatch):
    """The client's own notes stay, and what others have written there."""
    async with two(monkeypatch) as (rome, milan):
        await join(rome, milan)
        notes = {labels.WEBSOCKET: "443", "example.org/mine": "kept"}
        await rome.admin.patch(
            GATEWAY_CLIENTS, "milan", {"metadata": {"annotations": notes}}, AT_ROME
        )
        joining = await join(rome, milan)
        assert joining.without == ""
        found = await rome.admin.get(GATEWAY_CLIENTS, "milan", AT_ROME)
        assert found["metadata"]["annotations"] == {"example.org/mine": "kept"}


@pytest.mark.long
@pytest.mark.network
async def test_who_peers_the_other_way_later_keeps_the_tunnel(monkeypatch):
    async with two(monkeypatch) as (rome, milan):
        await join(rome, milan, port=51999)
        joining = await join(milan, rome)
        assert joining.without == ""
        assert await objects(milan, AT_MILAN) == {"GatewayServer", *COMMON}
        assert await objects(rome, AT_ROME) == {"GatewayClient", *COMMON}
        gateway = await milan.admin.get(GATEWAY_SERVERS, "rome", AT_MILAN)
        assert gateway["spec"]["endpoint"]["port"] == 51999


@pytest.mark.long
@pytest.mark.network
@pytest.mark.parametrize("turn", range(2))
async def test_both_sides_may_peer_at_once_and_have_one_tunnel(monkeypatch, turn: int):
    async with two(monkeypatch) as (rome, milan):

        async def later() -> None:
            await trio.sleep(turn * 0.05)
            assert (await join(milan, rome)).without == ""

        async with trio.open_nursery() as nursery:
            nursery.start_soon(later)
            assert (await join(rome, milan)).without == ""
        found = await objects(milan, AT_MILAN), await objects(rome, AT_ROME)
        gateways = {"GatewayServer", "GatewayClient"}
        assert found[0] | found[1] == {*gateways, *COMMON}
        assert found[0] & found[1] == COMMON


@pytest.mark.long
@pytest.mark.network
async def test_both_sides_may_peer_at_once(monkeypatch):
    """Each finds nothing, and would make what the other has made by then."""
    made, both = Client.create, trio.Event()
    begun: list[Client] = []

    async def create(client: Client, kind: Kind, body: Json, *more: Any) -> Any:
        if kind == CONFIGURATIONS and body["metadata"]["name"] == "milan":
            begun.append(client)
            if len(begun) == 2:
                both.set()
            await both.wait()
        return await made(client, kind, body, *more)

    monkeypatch.setattr(Client, "create", create)
    without = lacking("missing: CAP_NET_ADMIN")
    async with two(monkeypatch, {"rome": without, "milan": without}) as (rome, milan):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(join, rome, milan)
            nursery.start_soon(join, milan, rome)
        assert both.is_set()
        for member, peer in ((rome, "milan"), (milan, "rome")):
            assert await member.admin.get(FOREIGN_CLUSTERS, peer)


@pytest.mark.long
@pytest.mark.network
async def test_a_side_that_cannot_is_named_and_nothing_is_left_of_the_network(monkeypatch):
    without = lacking("missing: CAP_NET_ADMIN, the program nft (package nftables)")
    for name in ("rome", "milan"):
        async with two(monkeypatch, {name: without}) as (rome, milan):
            joining = await join(rome, milan)
            assert name in joining.without
            assert "CAP_NET_ADMIN" in joining.without
            assert await objects(rome, AT_ROME) == set()
            assert await objects(milan, AT_MILAN) == set()


@pytest.mark.long
@pytest.mark.network
@pytest.mark.parametrize("name", ["rome", "milan"])
@pytest.mark.parametrize("known", ["nothing", "all but the backend"])
async def test_of_a_machine_of_which_not_all_is_known_yet_it_is_named_and_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch, name: str, known: str
):
    silent = "the network wireguard has not come back from problem within 5 s"
    facts = MachineFacts(problem=silent, unknown=True)
    if known != "nothing":
        facts = MachineFacts(addresses=("192.0.2.5",), undecided={"wireguard": silent})
    async with two(monkeypatch, {name: GatewayHost(facts=facts)}) as (rome, milan):
        joining = await join(rome, milan)
        assert joining.without.startswith(f"{name}: it is not known yet whether ")
        assert joining.without.endswith(f" here: {silent}")
        assert await objects(rome, AT_ROME) == set()
        assert await objects(milan, AT_MILAN) == set()


def making(*backends: str) -> GatewayHost:
    """A machine that makes these kinds of tunnels."""
    found = Noting(says=ProbeResult(True, 0.001)).machine()
    (build,) = found.tunnels.values()
    how = {"websocket": Listening(transport="TCP", port=443, shared=True)}
    listening = {each: how.get(each, Listening()) for each in backends}
    facts = msgspec.structs.replace(found.facts, backends=listening)
    return msgspec.structs.replace(found, facts=facts, tunnels=dict.fromkeys(backends, build))


@pytest.mark.parametrize(
    ("rome", "milan", "taken"),
    [
        (("wireguard", "websocket"), ("websocket",), "websocket"),
        pytest.param(("websocket",), ("wireguard", "websocket"), "websocket", marks=SLOW),
        pytest.param(("wireguard", "websocket"), ("wireguard",), "wireguard", marks=SLOW),
        (("websocket",), ("wireguard",), ""),
        pytest.param(("rope", "wireguard"), ("rope",), "", marks=SLOW),
        pytest.param((), ("wireguard",), "", marks=SLOW),
    ],
)
async def test_a_tunnel_that_both_make_is_taken_else_none(monkeypatch, rome, milan, taken: str):
    machines = {"rome": making(*rome), "milan": making(*milan)}
    async with two(monkeypatch, machines) as (one, other):
        joining = await join(one, other)
        if not taken:
            assert "is made on both sides" in joining.without
            assert "milan makes" in joining.without or "rome makes" in joining.without
            assert await objects(one, AT_ROME) == await objects(other, AT_MILAN) == set()
            return
        assert joining.without == ""
        # Done again nothing is tried that was refused before.
        (before,) = await other.admin.list(GATEWAY_SERVERS, Selection(AT_MILAN))
        assert before["spec"]["serverTemplateRef"]["name"] == f"{taken}-server"
        assert (await join(one, other)).without == ""
        (after,) = await other.admin.list(GATEWAY_SERVERS, Selection(AT_MILAN))
        assert after["metadata"]["generation"] == before["metadata"]["generation"]


async def test_the_tunnel_that_is_asked_for_is_made_or_said(monkeypatch):
    machines = {"rome": making("wireguard", "websocket"), "milan": making("websocket")}
    async with two(monkeypatch, machines) as (one, other):
        with pytest.raises(ConfigError, match="this cluster makes websocket"):
            await join(one, other, backend="wireguard")


@pytest.mark.long
async def test_a_cluster_that_keeps_no_ranges_is_peered_without(monkeypatch):
    async with members("rome", "milan") as [rome, milan]:
        joining = await join(rome, milan)
        assert "pod-cidr" in joining.without
        assert await objects(rome, AT_ROME) == set()


@pytest.mark.long
async def test_a_mistake_is_refused_and_said(monkeypatch):
    async with two(monkeypatch) as (rome, milan):
        with pytest.raises(ConfigError, match="mtu 576"):
            await join(rome, milan, mtu=576)


async def test_ranges_that_are_refused_are_said(monkeypatch):
    async with two(monkeypatch, refuse="10.244.0.0/16 has a node in it") as (rome, milan):
        with pytest.raises(ConfigError, match="has a node in it"):
            await join(rome, milan)


@pytest.mark.long
async def test_packets_that_do_not_come_are_said(monkeypatch):
    async with two(monkeypatch, alive=False) as (rome, milan):
        with pytest.raises(ConfigError, match=r"milan says Connecting.*UDP port"):
            await join(rome, milan, timings=PeeringTimings(connected_within=0.5))


@pytest.mark.long
async def test_unpeering_takes_the_network_away_on_both_sides(monkeypatch):
    async with two(monkeypatch) as (rome, milan):
        await join(rome, milan)
        async with Client(from_kubeconfig(await milan.peering_user(rome))) as remote:
            with trio.fail_after(60):
                theirs = await otherhalf.find(rome.admin, remote, "milan")
                await unpeering.unpeer(rome.admin, "milan", other=theirs, progress=rome.progress)
        assert "GatewayServer rome" in theirs.cleared
        assert await objects(milan, AT_MILAN) == set()
        for member in (rome, milan):
            for other in ("rome", "milan"):
                await member.gone(SECRETS, f"gw-{other}", "liqo")
