"""Events of a pod at the peer are recorded on the pod here; other events are not."""

from typing import Any

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import EVENTS, PODS, SERVICES
from liqod.kube.selection import Selection
from liqod.reflection.eventwriter import EventLimits
from simulator.faults import Fault
from tests.simulated.borrower import eventually
from tests.simulated.lendingpods import lending, ready
from tests.simulated.reflecting import SHOP, THERE, Pair

Json = dict[str, Any]


async def tell(both: Pair, name: str, reason: str, *, on: str = "web", **more: Any) -> Json:
    """An Event of milan's kubelet about a pod there."""
    there = await both.there.find(PODS, on, THERE) or {"metadata": {"uid": "gone"}}
    involved = {
        "kind": "Pod",
        "apiVersion": "v1",
        "namespace": THERE,
        "name": on,
        "uid": there["metadata"]["uid"],
    }
    event = {
        "metadata": {"name": name, "namespace": THERE, "labels": {"theirs": "x"}},
        "involvedObject": involved,
        "type": "Normal",
        "reason": reason,
        "message": f"{reason} it",
        "source": {"component": "kubelet", "host": "worker-1"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
        **more,
    }
    return await both.there.create_full(EVENTS, event, THERE)


async def told(both: Pair, namespace: str = SHOP) -> dict[str, Json]:
    """The Events of rome that come from milan, by reason."""
    found = await both.here.list(EVENTS, Selection(namespace))
    return {each["reason"]: each for each in found if "(remote)" in str(each.get("source"))}


async def comes(both: Pair, *reasons: str) -> dict[str, Json]:
    """The same, once those are among them."""

    async def look() -> dict[str, Json] | None:
        found = await told(both)
        return found if set(reasons) <= set(found) else None

    # Reading has a hundredth of the time, and what a server has let go is listed once a minute.
    found: dict[str, Json] = await eventually(look, seconds=300)
    return found


async def test_what_is_told_there_is_told_here_and_its_count_follows():
    async with lending(engine={"events": EventLimits(pace=0.2)}) as (both, _):
        pod = await both.pod("web")
        await both.comes(PODS, "web", ready, client=both.here, namespace=SHOP)
        await tell(both, "web.1", "Pulled")
        warning = await tell(both, "web.2", "BackOff", type="Warning")
        found = await comes(both, "Pulled", "BackOff")
        about = found["BackOff"]["involvedObject"]
        assert (about["uid"], about["namespace"]) == (pod["metadata"]["uid"], SHOP)
        assert found["BackOff"]["type"] == "Warning"
        assert found["BackOff"]["source"] == {"component": "kubelet (remote)", "host": "milan"}
        assert "theirs" not in found["BackOff"]["metadata"]["labels"]
        for count in range(2, 8):
            more = {"count": count, "lastTimestamp": f"2099-01-01T00:00:0{count}Z"}
            await both.there.patch(EVENTS, warning["metadata"]["name"], more, THERE)

        async def counted() -> bool:
            return bool((await told(both))["BackOff"]["count"] == 7)

        await eventually(counted, seconds=20)
        assert len(await told(both)) == 2
        # History: what goes there is not taken back here.
        await both.there.delete(EVENTS, "web.1", THERE)
        await tell(both, "web.3", "Killing")
        assert "Pulled" in await comes(both, "Killing")


async def test_events_of_anything_else_there_stay_there():
    async with lending() as (both, _):
        await both.pod("web")
        await both.comes(PODS, "web", ready, client=both.here, namespace=SHOP)
        # One in the local cluster, whose namesake milan has and marks as what was made of it.
        await both.pod("own", node="rome-0")
        marks = {labels.ORIGIN: "rome", labels.DESTINATION: "milan"}
        claimed = {"labels": marks, "annotations": {labels.SOURCE: "pods/own"}}
        containers = [{"name": "web", "image": "nginx"}]
        for name, more in (("own", claimed), ("new", {})):
            made = {"metadata": {"name": name, **more}, "spec": {"containers": containers}}
            await both.there.create(PODS, made, THERE)
            await both.comes(PODS, name, ready)
        for on in ("own", "new", "nobody"):
            await tell(both, f"{on}.1", f"Of{on}", on=on)
        await tell(both, "web.1", "Alarm", type="Alarm")
        await tell(both, "web.0", "Mine")
        assert set(await comes(both, "Mine")) == {"Mine"}


async def test_events_of_a_service_there_are_told_too():
    async with lending() as (both, _):
        await both.pod("web")
        await both.here.create(
            SERVICES, {"metadata": {"name": "front"}, "spec": {"ports": [{"port": 80}]}}, SHOP
        )
        service = await both.comes(SERVICES, "front")
        await both.comes(PODS, "web", ready, client=both.here, namespace=SHOP)
        about = {"kind": "Service", "apiVersion": "v1", "namespace": THERE, "name": "front"}
        uid = service["metadata"]["uid"]
        await tell(both, "front.0", "Stranger", involvedObject={**about, "uid": "another"})
        failed: Json = {"type": "Warning", "involvedObject": {**about, "uid": uid}}
        await tell(both, "front.1", "SyncLoadBalancerFailed", **failed)
        found = await comes(both, "SyncLoadBalancerFailed")
        assert set(found) == {"SyncLoadBalancerFailed"}
        assert found["SyncLoadBalancerFailed"]["involvedObject"]["kind"] == "Service"
        assert "host" not in found["SyncLoadBalancerFailed"]["source"]


async def test_a_daemon_that_starts_anew_tells_what_came_meanwhile_and_nothing_twice():
    async with lending() as (both, nursery):
        await both.pod("web")
        await both.comes(PODS, "web", ready, client=both.here, namespace=SHOP)
        for number in range(5):
            await tell(both, f"web.{number}", f"Reason{number}")
        await comes(both, *(f"Reason{number}" for number in range(5)))
        both.stop()
        await tell(both, "web.late", "Late")
        await both.there.patch(EVENTS, "web.3", {"count": 2}, THERE)
        before = both.requests()
        await both.start(nursery)

        async def counted() -> bool:
            found = await told(both)
            return "Late" in found and found["Reason3"]["count"] == 2

        await eventually(counted, seconds=20)
        asked = both.since(before)
        written = [each for each in asked if each[1] == "events" and each[0] in ("create", "patch")]
        assert written == [("create", "events"), ("patch", "events")]


@pytest.mark.parametrize(("which", "expected"), [("warnings", {"Failed"}), ("none", set())])
async def test_no_more_is_told_than_is_asked_for(which: str, expected: set[str]):
    text = (
        '[peer_defaults]\npod_network = "routed"\n'
        f'pod_cidrs = ["10.0.0.0/8"]\n[reflection]\nevents = "{which}"\n'
    )
    async with lending(text=text) as (both, _):
        await both.pod("web")
        await both.comes(PODS, "web", ready, client=both.here, namespace=SHOP)
        await tell(both, "web.1", "Pulled")
        await tell(both, "web.2", "Failed", type="Warning")
        await comes(both, *expected)
        await trio.sleep(0.3)
        assert set(await told(both)) == expected
        asked = {each for each in both.requests() if each[1] == "events"}
        assert bool(asked) is (which != "none")


async def test_a_peer_that_gives_no_right_to_read_events_is_gone_on_without(
    caplog: pytest.LogCaptureFixture,
):
    async with lending() as (both, _):
        both.milan.faults.add(Fault(path="/events", status=403))
        await both.pod("web")
        await both.comes(PODS, "web", ready, client=both.here, namespace=SHOP)
        said = "Events of pods there cannot be read"

        async def told_once() -> bool:
            return any(each.getMessage() == said for each in caplog.records)

        await eventually(told_once, seconds=20)
        both.link.set(True, "back")
        await both.pod("next")
        await both.comes(PODS, "next", ready, client=both.here, namespace=SHOP)
        await trio.sleep(1)
        assert [each.getMessage() for each in caplog.records].count(said) == 1


@pytest.mark.long
@pytest.mark.parametrize("kept", [True, False], ids=["changes kept", "changes lost"])
async def test_a_flood_of_events_holds_up_no_pod_and_is_bounded(
    caplog: pytest.LogCaptureFixture, kept: bool
):
    """Of a provider that means ill, or of a thousand pods that start at once.

    Where the server has let go changes that were not read, all is listed, a minute after the last.
    """
    limits = EventLimits(object_burst=1000, most_bytes=100_000)
    async with lending(engine={"events": limits}) as (both, _):
        await both.pod("web")
        await both.comes(PODS, "web", ready, client=both.here, namespace=SHOP)
        await tell(both, "web.first", "First")
        await comes(both, "First")
        began = trio.current_time()
        await both.pod("alone")
        await both.comes(PODS, "alone", ready, client=both.here, namespace=SHOP)
        alone = trio.current_time() - began
        text = "\x1b]0;owned\x07" + "x" * 4000
        async with trio.open_nursery() as tellers:

            async def flood(first: int) -> None:
                for number in range(first, 1000, 4):
                    await tell(both, f"web.flood-{number}", "Flood", message=text)

            for first in range(4):
                tellers.start_soon(flood, first)
            await trio.sleep(0.2)
            began = trio.current_time()
            await both.pod("beside")
            await both.comes(PODS, "beside", ready, client=both.here, namespace=SHOP)
            beside = trio.current_time() - began
        if not kept:
            storage = both.milan.registry.storage
            storage.of("events").history.clear()
            storage.of("events").oldest = storage.version + 1
        await tell(both, "web.last", "Last", type="Warning")
        found = await comes(both, "Last")
        assert any("more Events than are written" in each.getMessage() for each in caplog.records)
        assert beside < 10 * alone + 3
        flood_here = [
            each
            for each in await both.here.list(EVENTS, Selection(SHOP))
            if each["reason"] == "Flood"
        ]
        assert 0 < len(flood_here) < 500
        assert all(len(each["message"]) <= 1024 for each in flood_here)
        assert all(each["message"].startswith("\\x1b]0;owned\\x07") for each in flood_here)
        assert found["Last"]["type"] == "Warning"
