"""Commands of how-to/nat, typed as they stand on embedded clusters whose networks are joined.

The machines note what they are told; addresses are given as daemons do.
"""

import re
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import trio

from liqod.apimachinery.kinds import ENDPOINT_SLICES, NODES
from liqod.network import ipam
from liqod.network.dataplane import peerplan
from liqod.network.dataplane.names import PeerNames
from liqod.network.dataplane.peerplan import PeerPlan
from liqod.network.dataplane.values import Namespace
from liqod.resources.networking import GATEWAY_CLIENTS, GATEWAY_SERVERS
from liqod.tunnel.probes.messages import ProbeResult
from tests.simulated.borrower import Json
from tests.simulated.meeting import key_of, lead, meeting, run
from tests.simulated.members import AT_MILAN, AT_ROME, Member, members
from tests.simulated.network.noting import Noting
from tests.simulated.processes import Ended
from tests.testbed import shownblocks
from tests.testbed.shownblocks import Shown

pytestmark = pytest.mark.long

IN_BAND = "find the API server of milan behind the tunnel"


class Gateways(NamedTuple):
    """The gateways of a joined network: who is dialled, how, at how many addresses, the MTU."""

    server: str = "milan"
    backend: str = "wireguard"
    addresses: int = 1
    mtu: int = 1340


SETTINGS = """
[webhook]
enabled = false
[cluster]
pod_cidrs = ["10.244.0.0/16"]
"""


def page_settings() -> str:
    """The settings that the page has a reader write, as one table."""
    blocks = re.findall(
        r"```toml\n(.*?)```", (shownblocks.DOCS / "how-to/nat.md").read_text(), re.DOTALL
    )
    lines = [line.strip() for each in blocks for line in each.splitlines()]
    tables = [each for each in lines if each.startswith("[")]
    assert set(tables) == {"[network]"}
    return "\n".join(["[network]", *(each for each in lines if each not in tables), ""])


@asynccontextmanager
async def three(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[dict[str, Member]]:
    """rome, milan and hub with all settings of the page, not peered; their daemons lead."""

    def plan(names: PeerNames, *_: object, **__: object) -> PeerPlan:
        return PeerPlan(names, Namespace(), Namespace())

    monkeypatch.setattr(peerplan, "plan", plan)
    names = ("rome", "milan", "hub")
    machines = {
        name: Noting(says=ProbeResult(True, 0.001), carries=True).machine() for name in names
    }
    settings = SETTINGS + page_settings()
    async with (
        members(*names, machines=machines, settings=settings) as made,
        trio.open_nursery() as nursery,
    ):
        for member in made:
            await publish_server(member)
            await nursery.start(lead, member)
            nursery.start_soon(ipam.run, member.context)
        yield {member.id: member for member in made}
        nursery.cancel_scope.cancel()


async def publish_server(member: Member) -> None:
    """The address at which the API server is in its own cluster, which is no loopback's there."""
    slice_: Json = {
        "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.9"]}],
        "ports": [{"port": 6443}],
    }
    await member.admin.create(ENDPOINT_SLICES, slice_, "default")


async def typed(clusters: dict[str, Member], folder: Path, shown: Shown, **put_in: str) -> Ended:
    """A command of the page at the cluster of its prompt, with what a reader puts into it."""
    line = shownblocks.answered(shown).line
    for word, text in put_in.items():
        line = line.replace(word, text)
    done = await run(clusters[shown.at], folder, *shlex.split(line)[1:])
    assert done.status == 0, (line, done.err)
    return done


async def let_in(clusters: dict[str, Member], folder: Path, consumer: str, provider: str) -> Path:
    """The kubeconfig of a peering user, under the name that the page has for it."""
    path = folder / f"{consumer}-at-{provider}.kubeconfig"
    path.unlink(missing_ok=True)
    words = ("--consumer-cluster-id", consumer, "--output", str(path))
    made = await run(clusters[provider], folder, "generate", "peering-user", *words)
    assert made.status == 0, made.err
    return path


async def test_an_edge_that_dials_is_invited_as_its_page_says(
    tmp_path: Path, nursery: trio.Nursery
):
    invite, peer = shownblocks.commands("how-to/nat", "milan dials rome")
    async with meeting("rome", "milan") as [rome, milan]:
        for member in (rome, milan):
            await nursery.start(lead, member)
        clusters = {"rome": rome, "milan": milan}
        made = await typed(clusters, tmp_path, invite, KEY=await key_of(milan))
        assert re.fullmatch(r"liqod://\S+/#b1\.\S+\n", made.out)
        [example] = re.findall(r"'(\S+)'", peer.line)
        lends = peer._replace(line=peer.line.replace(example, made.out.strip()))
        done = await typed(clusters, tmp_path, lends)
        assert done.out.startswith("rome borrows from this cluster: cpu 8, ")
        assert "memory 16Gi" in done.out
        await rome.until(NODES, "milan", None, lambda found: found)


async def test_each_way_of_joining_networks_is_typed_as_its_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    async with three(monkeypatch) as clusters:
        rome, milan = clusters["rome"], clusters["milan"]
        for one in ("rome", "milan"):
            user = await let_in(clusters, tmp_path, one, "hub")
            words = ("peer", "--remote-kubeconfig", str(user), "--no-create-resource-slice")
            joined = await run(clusters[one], tmp_path, *words)
            assert joined.status == 0, joined.err
            assert "packets go from each to the other" in joined.out
        tunnel, relayed, dialled, websocket = shownblocks.commands(
            "how-to/nat",
            "Through the tunnel",
            "By a peer of both",
            "Choose the side that is dialled",
            "In a websocket",
        )
        for shown, wanted in (
            (tunnel, Gateways()),
            (relayed, Gateways(addresses=2, mtu=1280)),
            (dialled, Gateways(server="rome")),
            (websocket, Gateways(backend="websocket")),
        ):
            await let_in(clusters, tmp_path, "rome", "milan")
            done = await typed(clusters, tmp_path, shown)
            assert "packets go from each to the other" in done.out, shown
            assert (IN_BAND in done.err) == (shown == tunnel)
            assert await gateways(rome, milan, wanted.server) == wanted
            # A peering user may join networks until its cluster is accepted.
            await apart(clusters, tmp_path)


async def gateways(rome: Member, milan: Member, dialled: str) -> Gateways:
    """Those of both, of which the one of that cluster is dialled."""
    server, client, there, here = milan, rome, AT_MILAN, AT_ROME
    if dialled == "rome":
        server, client, there, here = rome, milan, AT_ROME, AT_MILAN
    gateway = await server.admin.get(GATEWAY_SERVERS, client.id, there)
    spec = (await client.admin.get(GATEWAY_CLIENTS, server.id, here))["spec"]
    backend = gateway["spec"]["serverTemplateRef"]["name"].removesuffix("-server")
    return Gateways(server.id, backend, len(spec["endpoint"]["addresses"]), spec["mtu"])


async def apart(clusters: dict[str, Member], folder: Path) -> None:
    """End what rome and milan have of each other."""
    for one, other in (("rome", "milan"), ("milan", "rome")):
        ended = await run(clusters[one], folder, "unpeer", other, "--yes")
        assert ended.status == 0, ended.err
