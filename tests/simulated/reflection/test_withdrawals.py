"""Pods at a peer to which nothing gets through are not Ready, whatever holds the workers up."""

from typing import Any

import trio

from liqod.apimachinery.kinds import ENDPOINT_SLICES, PODS, SERVICES
from liqod.kube.selection import Selection
from liqod.model.network.ranges import PeerRanges
from liqod.model.objects.podready import UNAVAILABLE
from liqod.model.peering.reach import SERVER, TUNNEL
from tests.simulated.borrower import condition, eventually
from tests.simulated.lendingpods import here, lending, ready
from tests.simulated.reflecting import SHOP, Pair

TUNNELLED = '[peer_defaults]\npod_network = "tunnel"\n'
SOON = 5.0
"""Seconds for what takes two, on a machine that does other things, too; no worker gives up so soon
on a server that does not answer."""


def withdrawn(message: str) -> Any:
    def holds(pod: dict[str, Any]) -> bool:
        found = condition(pod, "Ready")
        return (found.get("status"), found.get("reason")) == ("False", UNAVAILABLE) and (
            found["message"] == message
        )

    return holds


def joined(both: Pair) -> None:
    both.peer.network.set_ranges(PeerRanges())
    both.peer.network.set_connected(True)


async def test_pods_follow_the_tunnel_whatever_the_api_server_does():
    async with lending(text=TUNNELLED) as (both, _):
        joined(both)
        await both.pod("web")
        before = condition(await here(both, "web"), "Ready")
        # Frozen, and the tunnel answers: nothing is withdrawn.
        both.link.set(False, "it accepts connections but answers nothing")
        await trio.sleep(0.5)
        assert condition(await here(both, "web"), "Ready") == before
        both.peer.network.set_connected(False, "nothing comes back")
        await here(both, "web", withdrawn(TUNNEL), seconds=SOON)
        both.peer.network.set_connected(True)
        assert condition(await here(both, "web"), "Ready")["status"] == "True"
        # The API server answers, so statuses are reflected, and Ready is not among them.
        both.link.set(True, "its API server answers")
        both.peer.network.set_connected(False, "nothing comes back")
        await here(both, "web", withdrawn(TUNNEL), seconds=SOON)
        late = await both.pod("late")
        running = await here(both, "late", lambda pod: condition(pod, "Ready"))
        assert withdrawn(TUNNEL)(running)
        assert condition(running, "ContainersReady")["status"] == "True"
        assert running["metadata"]["uid"] == late["metadata"]["uid"]


async def test_endpoints_leave_their_service_and_return():
    async with lending() as (both, _):
        service = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
        await both.here.create(SERVICES, {"metadata": {"name": "web"}, "spec": service}, SHOP)
        await both.pod("web", metadata={"labels": {"app": "web"}})

        async def endpoint(is_ready: bool) -> None:
            async def look() -> bool:
                found = await both.here.list(ENDPOINT_SLICES, Selection(SHOP))
                said = [
                    each["conditions"]["ready"]
                    for one in found
                    for each in one.get("endpoints") or ()
                ]
                return said == [is_ready]

            await eventually(look)

        await endpoint(True)
        both.link.set(False, "its API server does not answer")
        await endpoint(False)
        both.link.set(True, "its API server answers")
        await endpoint(True)


async def test_no_worker_that_waits_for_the_peer_holds_it_up():
    names = [f"web-{number}" for number in range(10)]
    async with lending(text=TUNNELLED) as (both, _):
        joined(both)
        for name in names:
            await both.pod(name)
        for name in names:
            await here(both, name)
        both.milan.faults.freeze()
        for name in names:  # a change of each waits to be written there
            await both.here.patch(PODS, name, {"metadata": {"labels": {"a": "b"}}}, SHOP)
        await trio.sleep(0.5)
        both.peer.network.set_connected(False, "nothing comes back")
        with trio.fail_after(SOON):
            for name in names:
                await here(both, name, withdrawn(TUNNEL))
        both.milan.faults.thaw()


async def test_a_daemon_that_starts_against_a_dead_peer_withdraws_what_it_never_saw():
    async with lending() as (both, nursery):
        await both.pod("web")
        await here(both, "web")
        both.stop()
        await both.milan.stop()
        both.link.set(False, "its API server does not answer")
        await both.start(nursery)
        await here(both, "web", withdrawn(SERVER))


async def test_what_a_daemon_before_withdrew_is_given_back():
    async with lending() as (both, nursery):
        await both.pod("web")
        await here(both, "web")
        both.link.set(False, "its API server does not answer")
        await here(both, "web", withdrawn(SERVER))
        both.stop()
        both.link.set(True, "its API server answers")
        await both.start(nursery)
        assert ready(await here(both, "web"))
