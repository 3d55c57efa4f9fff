"""One peer of three whose API server misbehaves, on real control planes.

For each fault: what the user sees while it lasts, that the other peers' pods start all the same,
and that everything is as it should be soon after, with nothing lost, doubled or begun anew. How
many milliseconds later those pods are is for ``python -m benchmarks.isolation``. What a server
answers amiss in good HTTP is in ``tests/stateful/test_bad_answers.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import trio

from liqod.kube.client import Client
from liqod.kube.credentials import credentials
from tests.testbed.errors import TestbedError, Unavailable
from tests.testbed.fixtures import give_up
from tests.testbed.latency import LATEST, Sampler, preferred
from tests.testbed.relays import Relay
from tests.testbed.troubled import BAD, GOOD, NAMESPACE, Troubled
from tests.testbed.wirefaults import Trouble

pytestmark = [pytest.mark.cluster, pytest.mark.stateful]

THERE = f"{NAMESPACE}-rome"
GONE = ("delete", "pod", "--namespace", NAMESPACE, "--ignore-not-found", "--wait=false")
FOREIGN = f"/apis/core.liqo.io/v1beta1/foreignclusters/{BAD}"
PACE = 0.1
"""Seconds between two pods whose start is timed."""
WINDOW = 10
"""Pods of a window; each fault has two."""
LINES = 12
"""Lines that the daemon may log for one fault, from its beginning to its end."""
RECOVERY = 15.0
"""Seconds after which all is well again, if the fault is over; twice is asserted."""

Break = Callable[[Relay], None]


def be(**more: Any) -> Break:
    """A relay with one trouble."""
    return lambda relay: relay.be(Trouble(**more))


FAULTS: dict[str, tuple[Break, float, str]] = {
    # What is done, the seconds within which it is seen, and what `status` says.
    "stopped": (lambda relay: relay.refuse(), 5, "Connection refused"),
    "frozen": (lambda relay: relay.freeze(), 25, "answers nothing"),
    "not HTTP": (be(garbage="bytes"), 15, "not HTTP"),
    "watches cut": (be(verb="watch", cut=1.0), 25, "watches end early"),
    "flood": (be(verb="watch", path="pods", flood=200), 0, ""),
}


@pytest.fixture(scope="module")
def troubled() -> Iterator[Troubled]:
    """The four clusters, for all tests here."""
    try:
        made = Troubled()
    except Unavailable as reason:
        give_up(reason)
    try:
        made.begin()
        with preferred(made.children()):
            yield made
    finally:
        made.end()


@pytest.fixture
async def sampler(troubled: Troubled, nursery: trio.Nursery):
    """Times the start of pods at rome, where none is left of an earlier fault."""
    rome = troubled.rome
    for name in rome.pods(NAMESPACE):
        await trio.to_thread.run_sync(rome.plane.kubectl, *GONE, name)
    await eventually("no pods here", lambda: not rome.pods(NAMESPACE), RECOVERY)
    await eventually("no pods there", lambda: not remote_pods(troubled), RECOVERY)
    found = await credentials.load(troubled.rome.plane.kubeconfig, None)
    async with Client(found, connections=16, user_agent="liqod-testbed") as client:
        made = Sampler(client, NAMESPACE)
        await nursery.start(made.run)
        yield made
        nursery.cancel_scope.cancel()


def seen(troubled: Troubled) -> str:
    """Returns the ForeignCluster's message about the peer's API server, empty where it is ready."""
    for one in troubled.rome.api.get(FOREIGN)["status"].get("conditions", []):
        if one["type"] == "APIServerStatus" and one["reason"] != "APIServerReady":
            return str(one["message"])
    return ""


def events(troubled: Troubled) -> set[str]:
    """The Events about the peer."""
    found = troubled.rome.api.get("/api/v1/namespaces/default/events")["items"]
    return {
        one["metadata"]["name"]
        for one in found
        if one["involvedObject"]["kind"] == "ForeignCluster"
        and one["involvedObject"]["name"] == BAD
    }


def remote_pods(troubled: Troubled) -> dict[str, str]:
    """The UIDs of the pods at the peer."""
    return {name: one["metadata"]["uid"] for name, one in troubled.milan.pods(THERE).items()}


async def eventually(what: str, happens: Callable[[], Any], seconds: float) -> float:
    """Seconds until it happens, asked in a thread; raises TestbedError after twice `seconds`."""
    began = time.monotonic()
    while not await trio.to_thread.run_sync(happens):
        if time.monotonic() - began > 2 * seconds:
            raise TestbedError(f"{what}: not within {seconds:.0f} s, nor twice that")
        await trio.sleep(0.2)
    return time.monotonic() - began


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_seen_disturbs_nobody_and_passes(
    troubled: Troubled, sampler: Sampler, fault: str
) -> None:
    begin, bound, word = FAULTS[fault]
    rome, relay = troubled.rome, troubled.relay
    kept = [await sampler.create(BAD) for _ in range(6)]
    for name in kept:
        await sampler.ready(name, 30)
    before, told, mark = remote_pods(troubled), events(troubled), rome.daemon.mark()

    begin(relay)
    try:
        # Under load: some come, some go.
        late = [await sampler.create(BAD) for _ in range(3)]
        for name in kept[:2]:
            await sampler.delete(name)
        started = await sampler.window(GOOD, WINDOW, PACE)
        # Looking costs this process, and must not be measured.
        await _look(troubled, word, bound)
        started += await sampler.window(GOOD, WINDOW, PACE)
    finally:
        relay.well()

    left = [*kept[2:], *late]
    for name in late:
        await sampler.ready(name, 2 * RECOVERY)
    await eventually(
        "the same pods there", lambda: set(remote_pods(troubled)) == set(left), RECOVERY
    )
    await eventually("the same pods here", lambda: set(rome.pods(NAMESPACE)) == set(left), RECOVERY)
    await eventually("a good word", lambda: not seen(troubled), RECOVERY)
    await eventually("the node", partial(rome.node_is_ready, BAD), RECOVERY)
    assert {name: remote_pods(troubled)[name] for name in kept[2:]}.items() <= before.items()
    lines = rome.daemon.lines(mark)
    for name in left:
        await sampler.delete(name)
    await eventually("an empty namespace there", lambda: not remote_pods(troubled), RECOVERY)
    assert len(lines) <= LINES, "\n".join(lines)
    assert len(events(troubled) - told) <= 1
    assert max(started) <= LATEST, started


async def _look(troubled: Troubled, word: str, bound: float) -> None:
    """The user sees it in time, and its cause."""
    if not bound:
        return
    rome = troubled.rome
    await eventually(f"a word of {word!r}", lambda: word in seen(troubled), bound)
    shown = await trio.to_thread.run_sync(rome.liqod, "status", BAD)
    assert word in shown.stdout
    assert BAD in shown.stdout
