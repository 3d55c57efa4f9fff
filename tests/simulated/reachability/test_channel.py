"""A provider whose API server is reached through its daemon alone: all of a peering goes by it."""

from contextlib import suppress
from pathlib import Path

import pytest
import trio

from liqod.apimachinery.kinds import CONFIG_MAPS, NAMESPACES, PODS
from liqod.apimachinery.meta import Partial
from liqod.cli.channels import Channels
from liqod.cli.frame import Frame
from liqod.consumer.nodes.kubelet import KubeletServer
from liqod.errors import Unauthorized, Unreachable
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.http import proxies
from liqod.kube.selection import Selection
from liqod.kube.watch import WatchEvent
from liqod.plugins import loader
from liqod.resources import FOREIGN_CLUSTERS, IDENTITIES, TENANTS
from liqod.runtime import account
from liqod.runtime.account import Account
from tests.simulated.borrower import eventually, offload
from tests.simulated.channels import DEAD, Apart, apart
from tests.simulated.kubeletcaller import EXEC, SPDY, WEBSOCKET, Caller
from tests.simulated.members import SETTINGS, Member


async def create_pod(rome: Member, name: str) -> None:
    tolerated = [{"key": "virtual-node.liqo.io/not-allowed", "operator": "Exists"}]
    containers = [{"name": "web", "image": "web"}]
    spec = {"nodeName": "milan", "containers": containers, "tolerations": tolerated}
    await rome.admin.create(PODS, {"metadata": {"name": name}, "spec": spec}, "shop")


def kubeconfig_by(both: Apart) -> str:
    """An administrator's of milan, by its listener."""
    server = both.milan.cluster.server
    by = f"server: {DEAD}\n    proxy-url: '{both.url}'"
    return both.milan.cluster.kubeconfig.replace(f"server: {server}", by)


@pytest.mark.long
async def test_a_pod_is_reflected_and_watched_through_the_channel() -> None:
    plugins = loader.load(sources=loader.built_in())
    async with apart(plugins=plugins) as both:
        rome, milan = both.rome, both.milan
        await both.peer()
        identity = await rome.until(IDENTITIES, "controlplane-milan", "liqo-tenant-milan", bool)
        given = identity["spec"]["authParams"]
        assert (given["apiServer"], given["proxyURL"]) == (DEAD, both.url)
        await offload(rome.admin, "shop")
        await eventually(lambda: milan.admin.find(NAMESPACES, "shop-rome"))
        await create_pod(rome, "web")
        await eventually(lambda: milan.admin.find(PODS, "web", "shop-rome"))
        running = {"status": {"phase": "Running"}}
        await milan.admin.patch(PODS, "web", running, "shop-rome", subresource="status")
        await rome.until(PODS, "web", "shop", lambda found: found["status"]["phase"] == "Running")
        assert len(both.listener.account[account.TENANTS]) == 1  # one channel for all clients
        shown = proxies.shown(both.url)
        await rome.until(FOREIGN_CLUSTERS, "milan", None, lambda found: shown in str(found))
        await both.milan.admin.delete(TENANTS, "rome", "liqo-tenant-rome")
        await eventually(lambda: _true(len(both.listener.account[account.TENANTS]) == 0))


async def _true(value: bool) -> bool:
    return value


@pytest.mark.long
async def test_requests_watches_and_logs() -> None:
    async with apart(nodes=1) as both:
        await both.peer()
        async with Client(from_kubeconfig(kubeconfig_by(both))) as client:
            await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "default")
            async with client.watch(CONFIG_MAPS, Selection("default")) as watch:
                await client.create(CONFIG_MAPS, {"metadata": {"name": "b"}}, "default")
                with trio.fail_after(20):
                    while (event := await watch.next(5)) is not None:
                        if isinstance(event, WatchEvent) and event.item.key[1] == "b":
                            break
            large = {"metadata": {"name": "large"}, "data": {"a": "x" * 900_000}}
            await client.create(CONFIG_MAPS, large, "default")
            found = await client.get(CONFIG_MAPS, "large", "default")
            assert len(found["data"]["a"]) == 900_000
            spec = {"containers": [{"name": "c", "image": "i"}]}
            await client.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, "default")
            await both.milan.until(
                PODS, "p", "default", lambda pod: pod.get("status", {}).get("phase") == "Running"
            )
            path = PODS.path("default", "p", "log")
            async with client.stream("GET", path, query={"follow": "true"}) as stream:
                assert await stream.receive() == b"c of default/p has started\n"
                await client.delete(PODS, "p", "default", grace=0)
                with trio.fail_after(20):
                    assert await stream.receive() == b""


async def test_a_stranger_who_knows_the_url_reaches_nothing() -> None:
    async with apart() as both:
        with pytest.raises(Unauthorized, match="this is no tenant here"):
            await both.ways(both.url)


@pytest.mark.long
async def test_a_client_keeps_to_the_channels_of_who_made_it() -> None:
    """Probes and the kubelet's server are begun before any channel is kept."""
    async with apart() as both:
        await both.peer()
        async with Client(from_kubeconfig(kubeconfig_by(both))) as client:
            proxies.CHANNELS.set(None)
            assert await client.list(NAMESPACES, Selection(), decode=Partial)


@pytest.mark.long
async def test_the_command_line_goes_by_it_too(tmp_path: Path) -> None:
    async with apart() as both:
        await both.peer()
        context = tmp_path / "rome.kubeconfig"
        context.write_text(both.rome.cluster.kubeconfig)
        frame = Frame(kubeconfig=context)
        async with trio.open_nursery() as nursery:
            channels = Channels(frame.client, nursery)
            token = proxies.CHANNELS.set(channels)
            async with Client(from_kubeconfig(kubeconfig_by(both))) as client:
                assert await client.list(NAMESPACES, Selection(), decode=Partial)
            proxies.CHANNELS.reset(token)
            nursery.cancel_scope.cancel()
        assert len(both.listener.account[account.TENANTS]) >= 1


@pytest.mark.long
async def test_who_is_refused_by_the_listener_has_left() -> None:
    """The provider has ended the peering by itself: there is nothing that anybody could clear."""
    async with apart() as both:
        await both.peer()
        assert (await both.milan.unpeer(both.rome)).complete
        await both.rome.unpeer(both.milan)
        await both.rome.gone(NAMESPACES, "liqo-tenant-milan")


@pytest.mark.long
async def test_somebody_in_a_pod_there_is_carried_by_the_channel_and_sent_away_with_it() -> None:
    plugins = loader.load(sources=loader.built_in())
    settings = SETTINGS + '[kubelet]\nport = 0\nlisten = "127.0.0.1"\n'
    async with (
        apart(plugins=plugins, settings=settings) as both,
        trio.open_nursery() as nursery,
    ):
        rome, milan = both.rome, both.milan
        port = await nursery.start(
            KubeletServer(rome.context, rome.components.pod_proxies, Account()).run
        )
        await both.peer()
        await offload(rome.admin, "shop")
        await eventually(lambda: milan.admin.find(NAMESPACES, "shop-rome"))
        await create_pod(rome, "web")
        await eventually(lambda: milan.admin.find(PODS, "web", "shop-rome"))
        running = {"status": {"phase": "Running"}}
        await milan.admin.patch(PODS, "web", running, "shop-rome", subresource="status")
        caller = Caller(port, rome.cluster.ca)

        async def goes() -> bool:
            async with caller.ask(EXEC, SPDY) as answer:
                return answer.status == 101

        await eventually(goes)
        async with caller.ask(EXEC, WEBSOCKET) as answer:
            assert (answer.status, (await answer.line())["pod"]) == (101, "shop-rome/web")
            await answer.wire.send(b"said" * 100_000)
            heard = b""
            with trio.fail_after(20):
                while len(heard) < 400_000:
                    heard += answer.body or await answer.wire.receive()
                    answer.body = b""
            assert heard == b"said" * 100_000
            assert len(both.listener.account[account.TENANTS]) == 1
            await milan.admin.delete(TENANTS, "rome", "liqo-tenant-rome")
            with trio.move_on_after(20) as waits, suppress(Unreachable):
                assert await answer.wire.receive() == b""
            assert not waits.cancelled_caught
        nursery.cancel_scope.cancel()
