"""Clients that connect and say nothing, to a whole daemon with few files: everything goes on.

The daemon is a process that may have 512 files open; each flood is larger than that, or than the
places of the face that it stands at, as the daemon itself tells them by its metrics.
"""

from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import msgspec
import pytest

from liqod.cli import inspectorclient
from liqod.consumer.identities.clusterkeys import cluster_keys
from liqod.errors import LiqodError, Unconnected
from liqod.handshake.protocol.outputs import ExpectedPeer, LocalIdentity
from liqod.handshake.transport.peerdialler import PeerDialler
from liqod.handshake.transport.peersession import API
from liqod.identity import certificates, keys
from liqod.model.objects import webhook
from liqod.runtime.account import (
    CLIENTS,
    KUBELET,
    KUBELET_STRANGERS,
    LOCAL,
    PROBES,
    REMOTE,
    SHARES,
    STRANGERS,
    STREAMS,
    TENANTS,
    UNPROVED,
    WAITING,
    WEBHOOK,
    WEBHOOK_STRANGERS,
    Account,
)
from tests.simulated.borrower import eventually
from tests.simulated.daemon.crowding import (
    CROWD,
    ELSEWHERE,
    FACES,
    FILES,
    answered,
    asking,
    crowd,
    crowd_on,
    figures,
    from_elsewhere,
    honest,
    met,
    milan_with_few_files,
    open_files,
    unchecked,
)
from tests.simulated.inspect.test_inspector import get
from tests.simulated.processes import Site, sites
from tests.testbed.processes import free_ports

STANDS_AT = {
    "webhook": WEBHOOK_STRANGERS,
    "kubelet": KUBELET_STRANGERS,
    "health": PROBES,
    "handshake": UNPROVED,
    "inspector": REMOTE,
}
"""The ports at which silent clients take places, by number."""


@pytest.mark.long
async def test_whatever_face_a_crowd_stands_at_the_others_and_itself_go_on(tmp_path: Path) -> None:
    async with milan_with_few_files(tmp_path) as (milan, ports):
        since = milan.daemon.mark()
        for turn, port in enumerate(FACES):
            with crowd(ports[port]):
                await honest(milan, ports, turn)
                assert open_files(milan) < FILES
                shown = await figures(ports["health"], STANDS_AT[port])
                assert shown.taken <= shown.of_one
                assert shown.refused["source"] > 0
        with crowd_on(milan.daemon.inspector, 64):
            await honest(milan, ports, len(FACES))
            shown = await figures(ports["health"], LOCAL)
            assert (shown.taken, shown.refused["source"]) == (shown.most, 64 - shown.most)
        with ExitStack() as stack:  # all at once
            for port in FACES:
                stack.enter_context(crowd(ports[port], CROWD // 2))
            await honest(milan, ports, len(FACES) + 1)
            assert open_files(milan) < FILES
        said = milan.daemon.lines(since)
        assert not [each for each in said if "Too many open files" in each]
        full = [each for each in said if "all places are taken" in each]
        assert 4 <= len(full) <= len(SHARES)  # each once, however many came
        assert all(f"from={ELSEWHERE}" in each for each in full if "socket" not in each)
        assert "Traceback" not in milan.daemon.tail(100_000)


@pytest.mark.long
async def test_who_has_shown_something_has_so_many_places_too(tmp_path: Path) -> None:
    """Connections that were answered, keys that were proved, entries, and viewers."""
    pod = {"metadata": {"name": "p"}, "spec": {"containers": []}}
    review = {"uid": "u", "namespace": "default", "operation": "CREATE", "object": pod}
    body = msgspec.json.encode({"kind": "AdmissionReview", "request": review})
    head = f"POST {webhook.PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    async with milan_with_few_files(tmp_path) as (milan, ports):
        health, shake = ports["health"], ports["handshake"]
        few = Account(files=FILES)
        many = few[WEBHOOK].most + 8
        async with answered(ports["webhook"], head.encode() + body, many, unchecked()) as statuses:
            assert statuses == [200] * many  # each makes room for the next
            shown = await figures(health, WEBHOOK)
            assert (shown.taken, shown.refused) == (shown.of_one, {"source": 8})
            await honest(milan, ports, 0)
        async with AsyncExitStack() as stack:
            for number in range(few[WAITING].of_one + 3):
                own = LocalIdentity(cluster_id=f"w-{number}", private=keys.generate())
                await stack.enter_async_context(asking(own, shake, 100 + number))
            shown = await figures(health, WAITING)
            assert (shown.taken, shown.refused) == (shown.of_one, {"source": 3})
            for number in range(few[STRANGERS].of_one + 3):
                own = LocalIdentity(cluster_id=f"s-{number}", private=keys.generate())
                dialler = PeerDialler(own, environ={}, dial=from_elsewhere)
                expected = ExpectedPeer()
                await stack.enter_async_context(dialler.meet([f"127.0.0.1:{shake}"], expected))
            shown = await figures(health, STRANGERS)
            assert (shown.taken, shown.refused) == (shown.of_one, {"source": 3})
            assert (await figures(health, WAITING)).taken == few[WAITING].of_one
            for _ in range(few[CLIENTS].most):
                await stack.enter_async_context(inspectorclient.connect(milan.daemon.inspector))
            with pytest.raises(LiqodError, match="too many clients"):
                await stack.enter_async_context(inspectorclient.connect(milan.daemon.inspector))
            shown = await figures(health, CLIENTS)
            assert (shown.taken, shown.refused) == (shown.most, {"source": 1})
            assert open_files(milan) < FILES
        assert "Traceback" not in milan.daemon.tail(100_000)


@pytest.mark.long
async def test_a_tenant_has_its_share_of_streams_and_everything_else_goes_on(
    tmp_path: Path,
) -> None:
    port, health, probes, kubelet = free_ports(4)
    shake = {"host": "127.0.0.1", "port": port}
    async with sites(tmp_path, "rome", "milan") as (rome, milan):
        for site in (rome, milan):
            site.daemon.files = FILES
        milan.daemon.settings = {"handshake": shake, "health": {"port": health}}
        rome.daemon.settings = {"kubelet": {"port": kubelet}, "health": {"port": probes}}
        await rome.start()
        await met(milan)
        line = (await milan.liqod("invite", "--cpu", "2")).out.strip()
        await rome.liqod("peer", line)
        own = LocalIdentity(cluster_id="rome", private=(await cluster_keys(rome.admin)).private)
        expected = ExpectedPeer(
            cluster_id="milan", key=keys.print_of((await cluster_keys(milan.admin)).public)
        )
        dialler = PeerDialler(own, environ={})
        of_one = Account(files=FILES)[STREAMS].of_one
        async with dialler.meet([f"127.0.0.1:{port}"], expected) as meeting:
            channel = await meeting.attach()
            held = [await channel.open(API) for _ in range(of_one)]
            with pytest.raises(Unconnected, match="as many streams as may be are open"):
                await channel.open(API)
            shown = await figures(health, STREAMS)
            assert (shown.taken, shown.refused) == (of_one, {"source": 1})
            assert open_files(milan) < FILES
            assert (await get(health, "/readyz")).startswith("HTTP/1.1 200")
            held.pop().close()

            async def another() -> bool:
                try:
                    (await channel.open(API)).close()
                except Unconnected:
                    return False
                return True

            await eventually(another)
        await channels_have_an_end(dialler, expected, port, health)
        await streams_to_pods_have_an_end(rome, probes, kubelet)


async def channels_have_an_end(
    dialler: PeerDialler, expected: ExpectedPeer, port: int, health: int
) -> None:
    """A tenant that comes again and again, by its key, ends what it had first."""
    before = await figures(health, TENANTS)
    async with AsyncExitStack() as stack:
        for _ in range(before.of_one + 3):
            meeting = await stack.enter_async_context(dialler.meet([f"127.0.0.1:{port}"], expected))
            await meeting.attach()
        shown = await figures(health, TENANTS)
        assert shown.taken <= shown.of_one
        assert shown.refused["source"] >= before.refused.get("source", 0) + 3


async def streams_to_pods_have_an_end(rome: Site, probes: int, kubelet: int) -> None:
    """A client that may look at a virtual node, from one address, fills its part and no more."""
    pair = certificates.make_client(rome.cluster.ca, "scraper", ("system:masters",))
    files = rome.folder / "scraper.crt", rome.folder / "scraper.key"
    for path, text in zip(files, (pair.certificate, pair.key), strict=True):
        path.write_bytes(text)
    request = b"GET /pods HTTP/1.1\r\nHost: x\r\n\r\n"
    many = Account(files=FILES)[KUBELET].most + 8
    async with answered(kubelet, request, many, unchecked(files)) as statuses:
        assert statuses == [200] * many
        shown = await figures(probes, KUBELET)
        assert (shown.taken, shown.refused) == (shown.of_one, {"source": 8})
        assert open_files(rome) < FILES
        assert (await get(probes, "/readyz")).startswith("HTTP/1.1 200")
