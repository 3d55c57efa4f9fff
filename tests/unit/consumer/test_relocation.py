"""Pods that leave providers: what is asked at each look, and how often one looks."""

from typing import Any

import msgspec

from liqod.consumer.namespaces.relocation import FIRST_PAUSE, LAST_PAUSE, SILENCE, Relocations
from liqod.model.objects.disruption import Pod
from tests.unit.model.test_disruption import pod


class Server:
    """Has pods; an evicted one is ending at once."""

    def __init__(self, *pods: Pod) -> None:
        self.pods = list(pods)
        self.lists = 0

    async def list(self, kind: Any, selection: Any, decode: Any) -> list[Pod]:
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


async def test_what_does_not_move_is_looked_at_more_seldom():
    server: Any = Server(pod("a", ending=True), pod("b"))
    relocations = Relocations(server)
    pauses = []
    for _ in range(6):
        await relocations.advance("shop", "milan", ["milan"], 60.0)
        pauses.append(relocations.pause("shop"))
    assert pauses[0] == FIRST_PAUSE
    assert pauses[-1] == LAST_PAUSE
    server.pods = [pod("c"), pod("d")]
    await relocations.advance("shop", "milan", ["milan"], 60.0)
    assert relocations.pause("shop") == FIRST_PAUSE


async def test_nothing_is_kept_of_what_is_over():
    server: Any = Server(pod("a", "milan"))
    relocations = Relocations(server)
    assert await relocations.advance("shop", "milan", ["milan"], 60.0)
    server.pods = []
    assert not await relocations.advance("shop", "milan", ["milan"], 60.0)
    assert relocations.pause("shop") == FIRST_PAUSE
    assert not relocations._sizes


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
