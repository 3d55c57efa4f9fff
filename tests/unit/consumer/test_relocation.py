"""Pods that leave providers: what is asked at each look, and how often one looks."""

from typing import Any

import msgspec
import pytest
import trio

from liqod.consumer.namespaces.relocation import FIRST_PAUSE, SILENCE, Relocations
from liqod.consumer.nodes.nodedrain import LAST_PAUSE, SOON
from liqod.model.objects.disruption import EvictablePod
from tests.testbed.held import held
from tests.unit.model.test_disruption import pod


class Server:
    """Has pods; an evicted one is ending at once."""

    def __init__(self, *pods: EvictablePod) -> None:
        self.pods = list(pods)
        self.lists = 0

    async def list(self, kind: Any, selection: Any, decode: Any) -> list[EvictablePod]:
        self.lists += 1
        return self.pods

    async def create_subresource(self, kind: Any, name: str, *what: Any, decode: Any) -> None:
        self.pods = [
            msgspec.structs.replace(
                each,
                metadata=msgspec.structs.replace(
                    each.metadata, deletion_timestamp="2026-11-21T03:00:00Z"
                ),
            )
            if each.metadata.name == name
            else each
            for each in self.pods
        ]

    @property
    def ending(self) -> int:
        return sum(each.ending for each in self.pods)


async def test_two_providers_that_are_left_take_no_more_than_one_would():
    server: Any = Server(*(pod(str(i), "milan" if i % 2 else "turin") for i in range(4)))
    relocations = Relocations(server)
    for _ in range(3):
        for cluster in ("milan", "turin"):
            await relocations.advance("shop", cluster, [cluster], 60.0)
        assert server.ending == 1


@pytest.mark.parametrize(("others", "longest"), [(0, SOON), (200, 2.02), (900, LAST_PAUSE)])
async def test_what_does_not_move_is_looked_at_more_seldom(others: int, longest: float):
    """The more so the more there is to be read each time."""
    more = (pod(f"other-{number}", controller="") for number in range(others))
    server: Any = Server(pod("a", ending=True), pod("b"), *more)
    relocations = Relocations(server)
    pauses = []
    for _ in range(6):
        await relocations.advance("shop", "milan", ["milan"], 60.0)
        pauses.append(relocations.pause("shop"))
    assert pauses[0] == FIRST_PAUSE
    assert pauses[-1] == longest
    server.pods = [pod("c"), pod("d")]
    await relocations.advance("shop", "milan", ["milan"], 60.0)
    assert relocations.pause("shop") == FIRST_PAUSE


async def test_nothing_is_kept_of_what_is_over():
    server: Any = Server(pod("a", "milan"))
    relocations = Relocations(server)
    assert await relocations.advance("shop", "milan", ["milan"], 60.0)
    assert "shop" in held(relocations, str)
    server.pods = []
    assert not await relocations.advance("shop", "milan", ["milan"], 60.0)
    assert relocations.pause("shop") == FIRST_PAUSE
    assert "shop" not in held(relocations, str)


async def test_a_provider_that_stops_answering_in_the_middle_is_waited_for_a_while(mock_clock):
    server: Any = Server(pod("a", "milan"))
    relocations = Relocations(server)
    assert not await relocations.advance("shop", "milan", [], 60.0)  # and never where it began so
    assert "ending" in await relocations.advance("shop", "milan", ["milan"], 60.0)
    mock_clock.jump(5)
    assert await relocations.advance("shop", "milan", [], 60.0) == "milan does not answer"
    mock_clock.jump(SILENCE - 1)
    assert "ending" in await relocations.advance("shop", "milan", ["milan"], 60.0)
    assert await relocations.advance("shop", "milan", [], 60.0)
    mock_clock.jump(SILENCE)
    assert not await relocations.advance("shop", "milan", [], 60.0)
    assert not await relocations.advance("shop", "milan", [], 60.0)


class Budgeted(Server):
    """Has the pods of a ReplicaSet whose budget spares one: another comes for each that goes.

    Args:
        starts: seconds until that is Ready.
        grace: seconds that a pod takes to end.
    """

    def __init__(self, count: int, starts: float, grace: float) -> None:
        super().__init__(*(pod(f"old-{number}", "milan") for number in range(count)))
        self._count, self._starts, self._grace = count, starts, grace
        self._times: list[tuple[float, float, str]] = []
        """Of each pod that goes, when its successor serves, and when it is gone."""

    async def list(self, kind: Any, selection: Any, decode: Any) -> list[EvictablePod]:
        now = trio.current_time()
        gone = {f"new-{name}" for serves, _, name in self._times if serves <= now}
        over = {name for _, ends, name in self._times if ends <= now}
        self.pods = [
            pod(each.metadata.name, "home") if each.metadata.name in gone else each
            for each in self.pods
            if each.metadata.name not in over
        ]
        return await super().list(kind, selection, decode)

    async def create_subresource(self, kind: Any, name: str, *what: Any, decode: Any) -> None:
        await super().create_subresource(kind, name, *what, decode=decode)
        now = trio.current_time()
        self._times.append((now + self._starts, now + self._grace, name))
        self.pods.append(pod(f"new-{name}", "home", ready=False))


@pytest.mark.parametrize("starts", [3.0, 12.0, 12.9])
async def test_six_pods_under_a_budget_wait_for_their_successors_and_no_more(
    starts: float, autojump_clock
):
    pods, grace = 6, 30.0
    server: Any = Budgeted(pods, starts, grace)
    relocations = Relocations(server)
    began = trio.current_time()
    while await relocations.advance("shop", "milan", ["milan"], 600.0):  # noqa: ASYNC110  # as the daemon looks
        await trio.sleep(relocations.pause("shop"))
    least = (pods - 1) * starts + grace
    assert trio.current_time() - began <= least + pods * SOON
