"""The relay itself: what it passes on is as without it, and each trouble is what its name says."""

import pytest
import trio

from liqod.apimachinery.kinds import CONFIG_MAPS
from liqod.errors import Expired, Forbidden, LiqodError, Overloaded, ProtocolError, Unreachable
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.selection import Selection
from simulator import EmbeddedCluster
from tests.simulated.relaying import relayed
from tests.testbed.wirefaults import Trouble


@pytest.fixture
async def cluster():
    async with EmbeddedCluster("milan") as embedded:
        yield embedded


@pytest.fixture
async def relay(cluster, tmp_path):
    async with relayed(cluster, tmp_path) as made:
        yield made


@pytest.fixture
async def client(cluster, relay):
    text = cluster.kubeconfig.replace(cluster.server, relay.server)
    async with Client(from_kubeconfig(text), deadline=1.0) as made:
        yield made


def there(name):
    return {"metadata": {"name": name, "namespace": "default"}, "data": {"some": "thing"}}


async def refused(client):
    """Returns the error that a list raises."""
    with pytest.raises(LiqodError) as caught:
        await client.list(CONFIG_MAPS, Selection("default"))
    return caught.value


async def test_it_passes_on_and_keeps_the_identity(cluster, relay, client):
    await client.create(CONFIG_MAPS, there("a"))
    assert [each["data"] for each in await client.list(CONFIG_MAPS, Selection("default"))]
    for text in (
        cluster.kubeconfig_for("nobody", ("some:group",)),
        cluster.kubeconfig_with_token("no such token"),
    ):
        other = from_kubeconfig(text.replace(cluster.server, relay.server))
        async with Client(other) as stranger:
            with pytest.raises(LiqodError) as caught:
                await stranger.list(CONFIG_MAPS, Selection("default"))
        assert "nobody" in str(caught.value) or not isinstance(caught.value, Forbidden)


TROUBLES = {
    "429": (Trouble(status=429, retry_after=3), Overloaded),
    "500": (Trouble(status=500), Overloaded),
    "410": (Trouble(verb="list", status=410), Expired),
    "silent": (Trouble(silent=True), Unreachable),
    "stall": (Trouble(stall=300), Unreachable),
    "rate": (Trouble(rate=100), Unreachable),
    "delay": (Trouble(delay=2.0), Unreachable),
    "bytes": (Trouble(garbage="bytes"), ProtocolError),
    "json": (Trouble(garbage="json"), ProtocolError),
    "kind": (Trouble(garbage="kind"), ProtocolError),
    "chunk": (Trouble(garbage="chunk"), ProtocolError),
}


@pytest.mark.long
async def test_a_trouble_is_what_it_says_and_ends(relay, client):
    await client.create(CONFIG_MAPS, there("a"))
    for name, (trouble, error) in TROUBLES.items():
        relay.be(trouble)
        assert isinstance(await refused(client), error), name
        relay.well()
        assert await client.list(CONFIG_MAPS, Selection("default")), name


async def test_gone_and_frozen(relay, client):
    relay.refuse()
    assert "refused" in str(await refused(client)).lower()
    relay.well()
    await client.list(CONFIG_MAPS, Selection("default"))
    relay.freeze()
    assert "within" in str(await refused(client))
    relay.well()
    assert await client.list(CONFIG_MAPS, Selection("default"))


async def events(client, *, count):
    """So many events of a watch from the start, or as many as it sends."""
    seen: list[object] = []
    async with client.watch(CONFIG_MAPS, Selection("default")) as watch:
        with trio.fail_after(10):
            while len(seen) < count and (event := await watch.next(5)) is not None:
                seen.append(event)
    return seen


async def test_watches_are_cut_expired_and_flooded(relay, client):
    await client.create(CONFIG_MAPS, there("a"))
    relay.be(Trouble(verb="watch", cut=0.3))
    with pytest.raises(Unreachable):
        await events(client, count=1000)
    relay.be(Trouble(verb="watch", expire=0.3))
    with pytest.raises(Expired):
        await events(client, count=1000)
    relay.be(Trouble(verb="watch", flood=1000))
    flood = await events(client, count=1000)
    assert len({event.item.body for event in flood}) > 900
    assert len(flood[-1].item.body) > 1000
