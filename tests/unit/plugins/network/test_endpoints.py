"""The choice of an endpoint: the first that answers, a better one later, another one in silence."""

from math import inf

import pytest
import trio

from liqod.plugins.network import endpointselection
from liqod.plugins.network.endpointselection import (
    EndpointResolver,
    EndpointStep,
    Race,
    is_address,
    ranked,
)

A, B, C = "198.51.100.1:1", "198.51.100.2:1", "[2001:db8::3]:1"


class World:
    """A client with a clock: what answers, and how it fares; Liqo's servers know no questions."""

    def __init__(
        self, *candidates: str, answering: set[str], current: str = "", knows: bool = True
    ) -> None:
        self.candidates, self.answering, self.knows = candidates, answering, knows
        self.race = Race()
        self.asked: list[tuple[str, ...]] = []
        self.now = self.heard = 100.0
        self.handshake = -inf
        self.current = current
        self.tried: list[str] = []
        if current:
            self.handshake = self.now

    def step(self) -> float:
        """One call, and what the world does until the next; seconds until then."""
        step = self.race.step(
            self.candidates,
            self.current,
            silent=self.now - self.heard,
            handshake=self.now - self.handshake,
            now=self.now,
        )
        self._do(step)
        if step.race:
            heard = [each for each in step.race if each in self.answering and self.knows]
            step = self.race.on_first_answer(next(iter(heard), ""), self.current, self.now)
            self._do(step)
        elif step.probe:
            self.asked.append(step.probe)
            heard = [each for each in step.probe if each in self.answering and self.knows]
            step = self.race.on_answers(heard, self.candidates, self.current, self.now)
            self._do(step)
        return step.again

    def _do(self, step: EndpointStep) -> None:
        if step.endpoint is not None:
            self.tried.append(step.endpoint)
            before, self.current = self.current, step.endpoint
            if self.current in self.answering:
                if step.afresh:
                    self.handshake = self.now
            elif not step.afresh:
                # What the other side sends leads back to where it is.
                self.current = before

    def live(self, seconds: float) -> None:
        """Let time pass; silence is noticed within a second."""
        end = self.now + seconds
        due = self.now
        while self.now < end:
            if self.current in self.answering and self.handshake > -inf:
                self.heard = self.now
            if self.now >= due or self.now - self.heard >= 1.0:
                due = min(due, inf)
                due = self.now + self.step() if self.now >= due or self.silent_anew() else due
            self.now += 0.1

    def silent_anew(self) -> bool:
        return 1.0 <= self.now - self.heard < 1.1


def test_the_first_that_answers_is_taken():
    world = World(A, B, C, answering={B}, knows=False)
    world.live(3.0)
    assert world.tried[:2] == [A, B]
    assert world.current == B


def test_in_silence_all_are_asked_at_once():
    world = World(A, B, C, answering={A, B, C}, current=A)
    world.live(5.0)
    world.answering = {C}
    world.live(1.2)
    assert world.current == C


def test_where_nobody_answers_all_are_tried_for_ever_and_less_often():
    world = World(A, B, answering=set())
    world.live(60.0)
    assert world.tried[:4] == [A, B, A, B]
    assert 10 <= len(world.tried) <= 20
    world.answering = {A}
    world.live(11.0)
    assert world.current == A


def test_at_rest_there_is_nothing_to_do():
    world = World(A, B, answering={A, B}, current=A)
    world.live(600.0)
    assert world.tried == []
    assert world.step() == inf


def test_a_better_one_is_taken_when_it_appears():
    world = World(A, B, C, answering={C}, current=C)
    world.live(70.0)
    assert world.current == C
    assert world.tried == []
    # At first a server may know no questions: the one in use tells.
    assert world.asked[:2] == [(A, B, C), (A, B)]
    assert len(world.asked) == 5
    world.answering = {B, C}
    world.live(endpointselection.BETTER_LAST + 3)
    assert world.current == B
    world.answering = {A, B, C}
    world.live(30.0)
    assert world.current == A
    assert world.tried == [B, A]


def test_one_that_is_lost_soon_after_it_was_taken_is_trusted_less_each_time():
    world = World(A, B, answering={A, B}, current=B)
    taken = []
    for _ in range(3):
        began = world.now
        world.answering = {A, B}
        while world.current != A:
            world.live(0.1)
        taken.append(world.now - began)
        world.answering = {B}
        world.live(6.0)
        assert world.current == B
    assert taken[0] < taken[1] < taken[2]
    assert taken[2] >= 4 * endpointselection.SURE - 1
    # What has held for a while is trusted again.
    world.answering = {A, B}
    world.live(2 * endpointselection.HELD + 60)
    world.answering = {B}
    world.live(6.0)
    began = world.now
    world.answering = {A, B}
    while world.current != A:
        world.live(0.1)
    assert world.now - began < taken[1]


def test_what_is_on_a_network_of_ones_own_comes_first():
    found = ranked([A, "192.168.1.7:1", "[2001:db8:1::3]:1"], ["2001:db8:1::/64", "192.168.1.0/24"])
    assert found == ["192.168.1.7:1", "[2001:db8:1::3]:1", A]


def test_an_endpoint_that_was_learned_is_left_while_it_works():
    world = World(A, answering={"192.0.2.9:9"}, current="192.0.2.9:9")
    world.live(30.0)
    assert world.tried == []


def test_one_alone_agrees_on_keys_anew():
    world = World(A, answering={A}, current=A)
    world.live(2.0)
    world.answering = set()
    world.live(30.0)
    assert 5 <= len(world.tried) <= 12
    assert set(world.tried) == {A}


def test_without_an_endpoint_it_waits_to_be_spoken_to():
    assert Race().step([], "", silent=inf, handshake=inf, now=1.0).endpoint is None


@pytest.mark.parametrize(
    ("endpoint", "known"), [(A, True), (C, True), ("rome.example:1", False), ("nonsense", False)]
)
def test_addresses_are_told_from_names(endpoint: str, known: bool):
    assert is_address(endpoint) is known


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    table: dict[str, list[str]] = {"rome.example": ["198.51.100.1", "2001:db8::1"]}

    async def look_up(host: str, port: int, **how: object) -> list[tuple[object, ...]]:
        if host not in table:
            raise OSError(-2, "Name or service not known")
        return [(0, 0, 0, "", (each, port)) for each in table[host]]

    monkeypatch.setattr(trio.socket, "getaddrinfo", look_up)
    return table


async def test_a_name_is_looked_up_again(resolver: dict[str, list[str]]):
    names = EndpointResolver()
    asked = ["rome.example:7", A]
    found, pause = await names.candidates(asked, silent=0.0, now=0.0)
    assert found == ["198.51.100.1:7", "[2001:db8::1]:7", A]
    assert pause == endpointselection.SELDOM
    resolver["rome.example"] = ["198.51.100.9"]
    found, _ = await names.candidates(asked, silent=0.0, now=10.0)
    assert found[0] == "198.51.100.1:7"
    found, pause = await names.candidates(asked, silent=2.0, now=20.0)
    assert found == ["198.51.100.9:7", A]
    assert pause == endpointselection.OFTEN
    _, pause = await names.candidates(asked, silent=700.0, now=700.0)
    assert pause == endpointselection.SELDOM


async def test_a_name_that_is_not_known_any_more_keeps_its_addresses(
    resolver: dict[str, list[str]],
):
    names = EndpointResolver()
    await names.candidates(["rome.example:7"], silent=0.0, now=0.0)
    resolver.clear()
    found, _ = await names.candidates(["rome.example:7"], silent=2.0, now=10.0)
    assert found == ["198.51.100.1:7", "[2001:db8::1]:7"]


async def test_one_that_is_not_known_at_all_is_no_candidate(resolver: dict[str, list[str]]):
    found, _ = await EndpointResolver().candidates(
        ["nobody.example:7", "no-port", A], silent=0.0, now=0.0
    )
    assert found == [A]
