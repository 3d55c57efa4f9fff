"""Reflection while things go wrong: refusals, cut watches, servers that fail or lie."""

from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from liqod.apimachinery.kinds import CONFIG_MAPS, EVENTS, NODES, PODS
from liqod.kube.selection import Selection
from liqod.model.objects import podends
from liqod.resources import SHADOW_PODS
from liqod.telemetry.events import Reflected
from simulator.faults import Fault
from tests.simulated.borrower import eventually
from tests.simulated.lendingpods import here, lending, ready
from tests.simulated.reflecting import SHOP, THERE, Pair, pair
from tests.simulated.reflection.test_reflection import running

MANY = 12


def reason(code: str) -> Any:
    return lambda found: found["status"].get("reason") == code


def statuses(both: Pair) -> list[str]:
    """The reasons that were shown on pods, in order."""
    told = (event.payload for event in both.context.hub.history)
    return [
        each.reason
        for each in told
        if isinstance(each, Reflected) and (each.reflector, each.action) == ("pods", "status")
    ]


async def test_the_first_403_is_the_authorizers_cache_and_not_shown():
    async with lending() as (both, _):
        both.milan.faults.add(Fault(verb="create", path="/shadowpods", status=403, times=1))
        await both.pod("web")
        await here(both, "web")
        assert set(statuses(both)) <= {""}


async def test_a_refusal_is_shown_and_tried_again():
    async with lending() as (both, _):
        refusal = both.milan.faults.add(Fault(verb="create", path="/shadowpods", status=403))
        await both.pod("web")
        pod = await here(both, "web", reason("OffloadingRefused"))
        assert "injected fault" in pod["status"]["message"]
        assert pod["status"]["phase"] == "Pending"
        both.milan.faults.remove(refusal)
        pod = await here(both, "web", seconds=30)
        assert not pod["status"].get("reason")


async def test_what_the_peer_cannot_accept_is_shown_and_not_sent_again():
    async with lending() as (both, _):
        refusal = both.milan.faults.add(Fault(verb="create", path="/shadowpods", status=422))
        await both.pod("web")
        await here(both, "web", reason("OffloadingInvalid"))
        await trio.sleep(0.8)
        assert refusal.hits == 1
        both.milan.faults.remove(refusal)
        await both.here.patch(PODS, "web", {"metadata": {"labels": {"changed": "yes"}}}, SHOP)
        await here(both, "web")


async def test_overload_and_errors_pass():
    async with lending() as (both, _):
        both.milan.faults.add(Fault(verb="create", path="/shadowpods", status=429, times=2))
        both.milan.faults.add(Fault(verb="list", status=500, times=3))
        both.rome.faults.add(Fault(verb="patch", path="/status", status=503, times=2))
        await both.pod("web")
        await here(both, "web", seconds=30)


async def test_a_status_that_lost_against_other_writers_is_written_again():
    async with lending() as (both, _):
        both.rome.faults.add(Fault(verb="patch", path="/status", status=409, times=2))
        await both.pod("web")
        await here(both, "web")


@pytest.mark.long
async def test_watches_that_end_lose_nothing():
    async with lending() as (both, _):
        await both.pod("first")
        await here(both, "first")
        for cluster in (both.rome, both.milan):
            cluster.faults.add(Fault(verb="watch", expire=True, times=5))
            cluster.faults.cut_watches()
        await both.pod("second")
        await both.here.delete(PODS, "first", SHOP, grace=0)
        await here(both, "second", seconds=30)
        await both.goes(SHADOW_PODS, "first")


async def fill(both: Pair) -> None:
    for number in range(MANY):
        await both.here.create(CONFIG_MAPS, {"metadata": {"name": f"conf-{number}"}}, SHOP)
    for number in range(MANY):
        await both.comes(CONFIG_MAPS, f"conf-{number}")


async def kept(both: Pair) -> int:
    found = await both.there.list(
        CONFIG_MAPS, Selection(THERE, labels="offloading.liqo.io/origin=rome")
    )
    return len(found)


async def test_a_server_that_says_there_is_nothing_removes_nothing():
    async with running() as (both, _):
        await fill(both)
        both.rome.faults.add(Fault(path=f"/namespaces/{SHOP}/configmaps", status=404))
        both.rome.faults.cut_watches()
        await trio.sleep(1.0)
        assert await kept(both) == MANY + 1


async def test_a_start_that_sees_nothing_of_what_the_peer_has_removes_nothing():
    async with pair() as both, trio.open_nursery() as nursery:
        await both.start(nursery)
        await fill(both)
        both.stop()
        # Perhaps another cluster answers at that address: the same names, and nothing in it but
        # what a control plane makes in each namespace.
        for number in range(MANY):
            await both.here.delete(CONFIG_MAPS, f"conf-{number}", SHOP)
        # An informer that the engine has left still watches for a while, and one that sees some of
        # them, and then their end, has no doubt.
        await trio.sleep(1.0)
        await both.start(nursery)

        async def doubted() -> bool:
            return any(
                event.payload.facts().get("action") == "waiting"
                for event in both.context.hub.history
            )

        await eventually(doubted)
        await trio.sleep(10.0)  # each is asked for again, and the root certificate's long written
        assert await kept(both) == MANY + 1
        nursery.cancel_scope.cancel()


async def test_many_pods_that_came_and_went_since_the_start_are_not_doubted():
    async with pair() as both, trio.open_nursery() as nursery:
        await both.start(nursery)
        names = [f"web-{number}" for number in range(MANY)]
        for name in names:
            await both.pod(name)
        for name in names:
            await both.comes(SHADOW_PODS, name)
        unsure = both.rome.faults.add(Fault(verb="get", path="/pods/web-", status=503))
        for name in names:
            await both.here.delete(PODS, name, SHOP, grace=0)
        await trio.sleep(
            4.0
        )  # all have been asked for in vain by now: none is judged beside others
        both.rome.faults.remove(unsure)
        with trio.fail_after(20):  # less than the time for which a doubt would last
            for name in names:
                await both.goes(SHADOW_PODS, name)
        nursery.cancel_scope.cancel()


async def test_a_pod_that_a_list_lacks_is_not_ended_there():
    async with pair() as both, trio.open_nursery() as nursery:
        engine = await both.start(nursery)
        await both.pod("web")
        shadow = await both.comes(SHADOW_PODS, "web")
        informer = engine.context.wide.get(PODS)
        assert informer is not None
        await informer.replace({})
        await trio.sleep(0.5)
        kept = await both.there.get(SHADOW_PODS, "web", THERE)
        assert kept["metadata"]["uid"] == shadow["metadata"]["uid"]
        # The same list is believed when it is true.
        await both.here.delete(PODS, "web", SHOP, grace=0)
        await both.goes(SHADOW_PODS, "web")
        nursery.cancel_scope.cancel()


async def test_what_is_lost_with_a_node_out_of_service_is_abandoned():
    async with lending() as (both, _):
        await both.pod("web")
        await here(both, "web")
        taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
        node = {"metadata": {"name": "milan"}, "spec": {"taints": [taint]}}
        await both.here.create(NODES, node)
        both.link.set(False, "its API server does not answer")
        await both.here.delete(PODS, "web", SHOP)
        await both.goes(PODS, "web", client=both.here, namespace=SHOP)
        assert await both.there.find(SHADOW_PODS, "web", THERE) is not None
        both.link.set(True, "its API server answers")
        await both.goes(SHADOW_PODS, "web")


async def test_out_of_service_counts_where_a_daemon_starts_against_a_dead_peer():
    async with lending() as (both, nursery):
        await both.pod("web")
        await here(both, "web")
        both.stop()
        await both.milan.stop()
        both.link.set(False, "its API server does not answer")
        await both.start(nursery)
        await both.here.delete(PODS, "web", SHOP)
        await trio.sleep(0.3)
        assert await both.here.find(PODS, "web", SHOP) is not None
        taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
        node = {"metadata": {"name": "milan"}, "spec": {"taints": [taint]}}
        await both.here.create(NODES, node)
        await both.goes(PODS, "web", client=both.here, namespace=SHOP)


async def test_a_status_that_is_refused_here_is_told_once_and_not_sent_for_ever(caplog):
    async with lending() as (both, _):
        refusal = both.rome.faults.add(Fault(verb="patch", path="/pods/web/status", status=422))
        await both.pod("web")

        async def told() -> bool:
            said = await both.here.list(EVENTS, Selection(SHOP))
            return any(each["reason"] == "StatusRefused" for each in said)

        await eventually(told)
        await trio.sleep(1.0)
        hits = refusal.hits
        await trio.sleep(1.0)
        assert refusal.hits == hits
        said = [each for each in caplog.records if each.message == "status refused here"]
        assert len(said) == hits <= 3  # one for each status that the remote object had meanwhile
        both.rome.faults.clear()
        await both.there.patch(PODS, "web", {"metadata": {"labels": {"mesh": "yes"}}}, THERE)
        status = {"status": {"message": "another", "reason": "Another"}}
        await both.there.patch(PODS, "web", status, THERE, subresource="status")
        await here(both, "web")


async def test_many_pods_at_once_all_come():
    async with lending() as (both, _):
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(both.pod, f"web-{number}")
        for number in range(10):
            await here(both, f"web-{number}", ready, seconds=30)


async def test_what_happens_between_two_watches_of_pods_is_made_up_for(monkeypatch):
    async with pair() as both, trio.open_nursery() as nursery:
        await both.start(nursery)
        await both.pod("web")
        await both.comes(SHADOW_PODS, "web")
        share = both.context.informers.share

        @asynccontextmanager
        async def late(kind, *selected, **more):
            await trio.sleep(0.5 if kind == PODS else 0)
            async with share(kind, *selected, **more) as informer:
                yield informer

        monkeypatch.setattr(both.context.informers, "share", late)
        both.context.own_pods.exclude(["worker"])
        await trio.sleep(0.1)
        await both.here.delete(PODS, "web", SHOP, grace=0)
        await both.second_slice("second")
        await both.node("second")
        await both.goes(SHADOW_PODS, "web", seconds=10)
        await both.pod("after", node="second")
        await both.comes(SHADOW_PODS, "after", seconds=10)
        nursery.cancel_scope.cancel()


async def test_one_evicted_and_made_anew_before_it_was_shown_ends_here():
    """Nothing could be written here meanwhile, and a finalizer shows what was said at its end."""
    async with lending() as (both, _):
        owner = await both.here.create_full(CONFIG_MAPS, {"metadata": {"name": "owner"}}, SHOP)
        named = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "controller": True}
        owners = [{**named, "uid": owner["metadata"]["uid"]}]
        held = {"ownerReferences": owners, "finalizers": ["example.org/held"]}
        await both.pod("web", metadata=held)
        await here(both, "web")
        first = await both.there.get(PODS, "web", THERE)
        silent = both.rome.faults.add(Fault(verb="patch", path="/pods/web/status", status=503))
        eviction = {"metadata": {"name": "web", "namespace": THERE}}
        await both.there.create_subresource(PODS, "web", THERE, "eviction", eviction, decode=dict)

        def another(found: dict[str, Any]) -> bool:
            return ready(found) and found["metadata"]["uid"] != first["metadata"]["uid"]

        await both.comes(PODS, "web", another)
        both.rome.faults.remove(silent)
        ends = await here(both, "web", lambda found: "deletionTimestamp" in found["metadata"])
        assert podends.taken_away(ends) == "Eviction API: evicting"
        await both.goes(SHADOW_PODS, "web")
        await both.here.patch(PODS, "web", {"metadata": {"finalizers": None}}, SHOP)
