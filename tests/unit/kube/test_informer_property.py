"""In the end the store equals the server's, after any faults of a server and a network."""

import contextlib
import json
from typing import Any

import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from liqod.apimachinery.kinds import PODS
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.store import StoreChange
from liqod.kube.client import Client
from tests.unit.kube.cluster import Cluster
from tests.unit.kube.peers import CREDENTIALS, Asked, Peer

NAMES = st.sampled_from([f"p{n}" for n in range(4)] + ["x"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NAMES),
        st.tuples(st.just("remove"), NAMES),
        st.tuples(st.just("wait"), st.sampled_from([0.01, 0.3, 5.0, 70.0])),
        st.tuples(
            st.just("fault"),
            st.sampled_from(["cut", "forget", "garbage", "error", "away", "back", "refuse"]),
        ),
    ),
    min_size=6,
    max_size=40,
)


async def act(step: tuple[str, Any], cluster: Cluster, server: Peer) -> None:
    match step:
        case "put", name:
            cluster.put(name, spec={"n": cluster.version})
        case "remove", name if name in cluster.objects:
            cluster.remove(name)
        case "wait", seconds:
            await trio.sleep(seconds)
        case "fault", "cut":
            cluster.cut()
        case "fault", "forget":
            cluster.forget()
            cluster.cut()
        case "fault", "garbage" if cluster.watches:
            await say(cluster, b'{"type":"ADDED","object":{"meta\n')
        case "fault", "error" if cluster.watches:
            await say(cluster, b'{"type":"ERROR","object":{"code":410}}\n')
        case "fault", "away" | "back" as what:
            server.refusing = what == "away"
            cluster.cut()
        case "fault", "refuse":
            cluster.faults.append(busy)
            cluster.cut()


async def say(cluster: Cluster, data: bytes) -> None:
    with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await cluster.watches[-1].chunk(data)


async def busy(asked: Asked) -> bool:
    await asked.refuse(503, "ServiceUnavailable", "starting")
    return True


@settings(max_examples=120, deadline=None)
@given(STEPS, st.booleans(), st.sampled_from([0, 3, 12]))
def test_the_store_becomes_what_the_server_has(steps, watch_list, count):
    async def main() -> None:
        cluster = Cluster(count, watch_list=watch_list)
        told: dict[str, bytes] = {}

        def hear(change: StoreChange) -> None:
            assert told.get(change.key[1]) == change.old
            if change.new is None:
                del told[change.key[1]]
            else:
                told[change.key[1]] = change.new

        async with trio.open_nursery() as nursery:
            server = Peer(nursery, cluster)
            client = Client(CREDENTIALS, dial=server.dial)
            informer = SharedInformer(client, PODS)
            informer.subscribe(hear)
            nursery.start_soon(informer.run)
            for step in steps:
                await act(step, cluster, server)
            server.refusing = False
            await trio.sleep(120)
            found = {name: json.loads(told[name])["metadata"]["uid"] for name in told}
            assert found == {name: f"uid-{name}" for name in cluster.objects}
            for name, obj in cluster.objects.items():
                body = informer.store.decode(("a", name), dict)
                assert body is not None
                assert body.get("spec") == obj.get("spec")
            assert {name for _, name in informer.store} == set(cluster.objects)
            assert informer.problem is None
            assert informer.suspect is None
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
