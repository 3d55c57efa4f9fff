"""Peering by invitation: one line is handed over, and the peering is complete."""

from contextlib import suppress
from functools import partial
from urllib.parse import urlsplit

import pytest
import trio

from liqod.apimachinery.kinds import CONFIG_MAPS, NAMESPACES, NODES, SECRETS
from liqod.errors import ConfigError
from liqod.kube import times
from liqod.kube.http import proxies
from liqod.plugins import loader
from liqod.procedures import peeringrequest
from liqod.procedures.peeringrequest import secret_of
from liqod.resources import IDENTITIES, INVITATIONS, Invitation
from tests.simulated.borrower import offload
from tests.simulated.channels import DEAD
from tests.simulated.meeting import (
    address_of,
    by_token,
    entries,
    invite,
    key_of,
    meeting,
    peered,
)
from tests.simulated.members import Member


@pytest.mark.long
async def test_an_invitation_is_all_that_is_needed_and_unpeering_leaves_nothing():
    async with meeting("rome", "milan") as [rome, milan]:
        before = rome.everything(), milan.everything()
        token = await invite(milan, resources={"cpu": "2", "memory": "4Gi"})
        await peeringrequest.ensure_request(rome.admin, "liqo", by_token(token))
        done = await peered(rome, token.id)
        assert done.status.cluster_id == "milan"
        assert done.status.granted["cpu"] == "2"
        assert await rome.admin.find(NODES, "milan") is not None
        used = await milan.admin.get(INVITATIONS, token.id, "liqo", decode=Invitation)
        assert [use.cluster_id for use in used.status.used_by] == ["rome"]
        # The secret is kept nowhere: of milan never, of rome until it was used.
        assert await rome.admin.find(SECRETS, secret_of(token.id), "liqo") is None
        assert token.secret.hex() not in str(used)
        [entry] = await entries(milan)
        assert entry.status.words == done.status.words
        await rome.unpeer(milan)
        await milan.unpeer(rome)
        assert (rome.everything(), milan.everything()) == before


@pytest.mark.long
async def test_one_invitation_lets_in_one_of_many_that_bring_it_at_once():
    async with meeting("rome", "turin", "milan") as [rome, turin, milan]:
        token = await invite(milan)
        for guest in (rome, turin):
            await peeringrequest.ensure_request(guest.admin, "liqo", by_token(token))
        ends: list[str] = []

        async def end(guest: Member) -> None:
            try:
                await peered(guest, token.id)
            except ConfigError as error:
                ends.append(str(error))
            else:
                ends.append("peered")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end, rome)
            nursery.start_soon(end, turin)
        lost = next(each for each in ends if each != "peered")
        assert ends.count("peered") == 1
        assert "the invitation has been used" in lost
        assert len(await entries(milan)) == 1


async def test_what_is_over_says_so_to_whoever_brings_it_and_nothing_else():
    async with meeting("rome", "milan") as [rome, milan]:
        token = await invite(milan)
        over = {"spec": {"expires": times.of(times.seconds(times.now()) - 60)}}
        await milan.admin.patch(INVITATIONS, token.id, over, "liqo")
        await peeringrequest.ensure_request(rome.admin, "liqo", by_token(token))
        with pytest.raises(ConfigError, match="the invitation has expired"):
            await peered(rome, token.id)
        await rome.gone(SECRETS, secret_of(token.id), "liqo")
        assert await entries(milan) == []


@pytest.mark.long
async def test_a_provider_whose_api_server_nobody_reaches_is_reached_by_its_daemon() -> None:
    plugins = loader.load(sources=loader.built_in())
    async with meeting("rome", "milan", advertise=DEAD, plugins=plugins) as [rome, milan]:
        token = await invite(milan, resources={"cpu": "2", "memory": "4Gi", "pods": "9"})
        await peeringrequest.ensure_request(rome.admin, "liqo", by_token(token))
        await peered(rome, token.id)
        identity = await rome.until(IDENTITIES, "controlplane-milan", "liqo-tenant-milan", bool)
        way = identity["spec"]["authParams"]["proxyURL"]
        assert way == proxies.listener_url(await key_of(milan), [address_of(milan)])
        await offload(rome.admin, "shop")
        await milan.until(NAMESPACES, "shop-rome", None, bool)
        await rome.admin.create(CONFIG_MAPS, {"metadata": {"name": "conf"}, "data": {}}, "shop")
        await milan.until(CONFIG_MAPS, "conf", "shop-rome", bool)
        assert milan.handshake is not None
        assert rome.handshake is not None
        assert len(rome.handshake.channels) == 1


@pytest.mark.long
async def test_a_provider_that_is_reached_directly_later_is_gone_to_so_and_no_watch_is_lost() -> (
    None
):
    (sockets,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = sockets.socket.getsockname()[1]
    await sockets.aclose()
    async with (
        meeting("rome", "milan", advertise=f"https://127.0.0.1:{port}") as [rome, milan],
        trio.open_nursery() as nursery,
    ):
        token = await invite(milan)
        await peeringrequest.ensure_request(rome.admin, "liqo", by_token(token))
        await peered(rome, token.id)
        peer = rome.components.peers["milan"]
        link = peer.link

        def watches() -> int:
            remotes = rome.components.borrowing()["milan"].remotes
            found = [each.client.stats.requests for each in remotes.all()]
            return sum(count[key] for count in found for key in count if key[0] == "watch")

        with trio.fail_after(10):
            while "by the channel to its daemon since 20" not in link.reason:
                await link.wait_changed()
        await trio.sleep(0.3)
        followed = watches()
        assert followed
        server = urlsplit(milan.admin.server)
        serving = partial(forward, server.hostname or "", server.port or 443)
        await nursery.start(partial(trio.serve_tcp, serving, port, host="127.0.0.1"))
        with trio.fail_after(150):
            while "directly since 20" not in link.reason:
                link.probe_now()
                await trio.sleep(1.0)
        await trio.sleep(0.3)
        assert (link.up, watches()) == (True, followed)
        nursery.cancel_scope.cancel()


async def forward(host: str, port: int, near: trio.SocketStream) -> None:
    """Carry a connection there."""

    async def carry(come: trio.SocketStream, go: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for data in come:
                await go.send_all(data)
        nursery.cancel_scope.cancel()

    async with await trio.open_tcp_stream(host, port) as far, trio.open_nursery() as nursery:
        nursery.start_soon(carry, near, far)
        nursery.start_soon(carry, far, near)
