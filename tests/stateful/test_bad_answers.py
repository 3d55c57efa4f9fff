"""One peer of two whose API server gives bad answers: while it lasts, and once it is over.

For each fault: it is said in time and with its cause, the other peer's pods start as ever, and soon
after it everything is as it should be, with nothing lost, doubled or begun anew. Faults below HTTP
are put before real control planes in ``tests/cluster/test_wire_faults.py``.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import trio

from liqod.kube.definitions import name_of
from liqod.model import ids
from liqod.resources import FOREIGN_CLUSTERS
from liqod.runtime.log import PEER
from simulator.faults import Fault
from tests.stateful import world
from tests.stateful.cures import lift
from tests.stateful.examination import examine, keep_alive
from tests.stateful.steps import Delete, Pod
from tests.stateful.world import CONSUMER, SHOP, THERE, World
from tests.testbed.wirefaults import BROKEN_JSON

pytestmark = pytest.mark.long

BAD, GOOD = "milan", "turin"
LINES = 12
"""Lines that the daemon may log for one fault, from its beginning to its end."""
RECOVERY = 15.0
"""Seconds after which all is well again, if the fault is over."""
STARTS = 2.0
"""Seconds in which a pod starts elsewhere; it takes its node a tenth of one."""
USERS = (CONSUMER, ids.slice_user(BAD, CONSUMER))
"""As whom the consumer comes to the peer."""

Break = Callable[[World], None]


def answer(**more: Any) -> Break:
    """The peer's API server has a fault for the consumer alone, and its watches begin anew."""

    def begin(made: World) -> None:
        faults = made[BAD].cluster.faults
        for user in USERS:
            faults.add(Fault(user=user, **more))
        faults.cut_watches()

    return begin


def break_json(made: World) -> None:
    """What is read there breaks off in the middle, for its own daemon, too."""
    made[BAD].mischief.nonsense = BROKEN_JSON
    made[BAD].mischief.garble = {"get": 1 << 30, "watch": 1 << 30}
    made[BAD].cluster.faults.cut_watches()


FAULTS: dict[str, tuple[Break, float, str]] = {
    # What is done, the seconds within which it is seen, and what `status` says.
    "429": (answer(status=429), 15, "429"),
    "429, retry after 1 s": (answer(status=429, retry_after=1), 15, "429"),
    "500": (answer(status=500), 15, "500"),
    "broken JSON": (break_json, 20, "cannot be followed"),
    "410 in watches": (answer(verb="watch", expire=True), 25, "watches end early"),
    "429 to writes": (answer(verb="create", status=429), 25, "cannot be written"),
}


class Lines(logging.Handler):
    """The lines about the peer that a daemon's operator reads."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if PEER.get() == BAD:
            self.said.append(record.getMessage())


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    """What is logged; connections in memory are acknowledged."""
    keep_alive(monkeypatch)
    logger, made = logging.getLogger("liqod"), Lines()
    before = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(made)
    yield made
    logger.removeHandler(made)
    logger.setLevel(before)


def objects(made: World, at: str, resource: str, place: str = "") -> dict[str, dict[str, Any]]:
    """What a cluster holds of a kind, by name."""
    held = made[at].cluster.registry.storage.of(resource)
    return {item.name: msgspec.json.decode(item.raw) for item in held.items(place)}


def uids(made: World, at: str, place: str) -> dict[str, str]:
    """The UIDs of a namespace's pods."""
    found = objects(made, at, "pods", place)
    return {name: each["metadata"]["uid"] for name, each in found.items()}


def is_ready(found: dict[str, Any] | None) -> bool:
    """True if there is an object, and it is Ready."""
    conditions = (found or {}).get("status", {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def run_here(made: World, names: list[str]) -> bool:
    """True if these pods, and no others, are in the consumer's namespace and Ready."""
    pods = objects(made, CONSUMER, "pods", SHOP)
    return set(pods) == set(names) and all(map(is_ready, pods.values()))


def seen(made: World) -> str:
    """The ForeignCluster's message about the peer's API server, empty where it is ready."""
    found = objects(made, CONSUMER, name_of(FOREIGN_CLUSTERS))[BAD]["status"]
    for each in found.get("conditions", []):
        if each["type"] == "APIServerStatus" and each["reason"] != "APIServerReady":
            return str(each["message"])
    return ""


def events(made: World) -> set[str]:
    """The Events about the peer."""
    return {
        name
        for name, each in objects(made, CONSUMER, "events", "default").items()
        if each["involvedObject"]["kind"] == "ForeignCluster"
        and each["involvedObject"]["name"] == BAD
    }


async def within(what: str, made: World, holds: Callable[[], bool], seconds: float) -> None:
    assert await made.until(holds, seconds), f"{what}: not within {seconds:.0f} s"


async def others_start(made: World, word: str) -> None:
    """Pods of the other peer come and go."""
    for number in range(5):
        name = f"{word}-{number}"
        await Pod(name, GOOD).do(made)
        ready = lambda name=name: is_ready(objects(made, CONSUMER, "pods", SHOP).get(name))  # noqa: E731
        await within(f"{name} at {GOOD}", made, ready, STARTS)
        await Delete("pod", name).do(made)


async def inspected(made: World) -> None:
    """The consumer's daemon has an inspector, which `status` asks."""
    made.context.kill()
    made.context.inspected = True
    await made.start()
    await trio.sleep(60)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_said_disturbs_nobody_and_passes(
    fault: str, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, bound, word = FAULTS[fault]

    async def story(made: World) -> None:
        await inspected(made)
        kept = [f"kept-{number}" for number in range(6)]
        for name in kept:
            await Pod(name, BAD).do(made)
        await within("six pods", made, lambda: run_here(made, kept), 30)
        before, told = uids(made, BAD, THERE), events(made)
        lines.said.clear()

        begin(made)
        # Under load: some come, some go.
        late = [f"late-{number}" for number in range(3)]
        for name in late:
            await Pod(name, BAD).do(made)
        for name in kept[:2]:
            await Delete("pod", name).do(made)
        await others_start(made, "early")
        await within(f"a word of {word!r}", made, lambda: word in seen(made), bound)
        said = await examine(made.context, monkeypatch)
        assert any(word in each and BAD in each for each in said.problems()), said.problems()
        await others_start(made, "later")

        lift(made)
        left = [*kept[2:], *late]
        ended = trio.current_time()
        for what, holds in (
            ("the same pods here", lambda: run_here(made, left)),
            ("the same pods there", lambda: set(uids(made, BAD, THERE)) == set(left)),
            ("a good word", lambda: not seen(made)),
            ("the node", lambda: is_ready(objects(made, CONSUMER, "nodes")[BAD])),
        ):
            await within(what, made, holds, ended + 2 * RECOVERY - trio.current_time())
        assert {name: uids(made, BAD, THERE)[name] for name in kept[2:]}.items() <= before.items()
        assert 0 < len(lines.said) <= LINES, lines.said
        assert len(events(made) - told) <= 1
        for name in left:
            await Delete("pod", name).do(made)
        await within("an empty namespace", made, lambda: not uids(made, BAD, THERE), 2 * RECOVERY)
        made.check()

    world.play(story)
