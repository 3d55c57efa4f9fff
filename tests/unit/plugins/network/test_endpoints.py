"""Which endpoint is taken: the first that answers, a better one later, another one in silence."""

from math import inf

import pytest
import trio

from liqod.plugins.network import endpoints
from liqod.plugins.network.endpoints import Names, Race, is_address

A, B, C = "198.51.100.1:1", "198.51.100.2:1", "[2001:db8::3]:1"


class World:
    """A client with a clock: what answers, and how it fares."""

    def __init__(self, *candidates: str, answering: set[str], current: str = "") -> None:
        self.candidates, self.answering = candidates, answering
        self.race = Race()
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
        if step.endpoint is not None:
            self.tried.append(step.endpoint)
            before, self.current = self.current, step.endpoint
            if self.current in self.answering:
                if step.afresh:
                    self.handshake = self.now
            elif not step.afresh:
                # What the other side sends leads back to where it is.
                self.current = before
        return step.again

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
    world = World(A, B, C, answering={B})
    world.live(3.0)
    assert world.tried[:2] == [A, B]
    assert world.current == B


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
    world.live(35.0)
    assert world.current == C
    assert world.tried == [A, B]
    world.answering = {A, C}
    world.live(100.0)
    assert world.current == A


def test_in_silence_another_one_is_tried():
    world = World(A, B, answering={A, B}, current=A)
    world.live(5.0)
    world.answering = {B}
    world.live(3.0)
    assert world.current == B


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
    names = Names()
    asked = ["rome.example:7", A]
    found, pause = await names.candidates(asked, silent=0.0, now=0.0)
    assert found == ["198.51.100.1:7", "[2001:db8::1]:7", A]
    assert pause == endpoints.SELDOM
    resolver["rome.example"] = ["198.51.100.9"]
    found, _ = await names.candidates(asked, silent=0.0, now=10.0)
    assert found[0] == "198.51.100.1:7"
    found, pause = await names.candidates(asked, silent=2.0, now=20.0)
    assert found == ["198.51.100.9:7", A]
    assert pause == endpoints.OFTEN
    _, pause = await names.candidates(asked, silent=700.0, now=700.0)
    assert pause == endpoints.SELDOM


async def test_a_name_that_is_not_known_any_more_keeps_its_addresses(
    resolver: dict[str, list[str]],
):
    names = Names()
    await names.candidates(["rome.example:7"], silent=0.0, now=0.0)
    resolver.clear()
    found, _ = await names.candidates(["rome.example:7"], silent=2.0, now=10.0)
    assert found == ["198.51.100.1:7", "[2001:db8::1]:7"]


async def test_one_that_is_not_known_at_all_is_no_candidate(resolver: dict[str, list[str]]):
    found, _ = await Names().candidates(["nobody.example:7", "no-port", A], silent=0.0, now=0.0)
    assert found == [A]
