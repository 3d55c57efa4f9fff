"""Pods that a provider cannot start return, whatever happens meanwhile, and never run twice.

Beside the conditions of all scripts, :mod:`tests.stateful.audit` judges each write about a pod that
has returned.
"""

import random
from collections.abc import Iterator

import pytest

from tests.stateful import world
from tests.stateful.script import story
from tests.stateful.steps import Deployment, Shut, Step, Wait
from tests.stateful.troubles import Down, Freeze, Join, Kill, Lose, Part, Start, Thaw, Up
from tests.stateful.world import CONSUMER, World

SCHEDULES = 6
SHUT = (Shut("milan", on=True), Shut("turin", on=True), Deployment("web", 2))
DUE = 22.0
"""Seconds after which the first pods are being ended at their provider, of :data:`SHUT`."""


def troubles(chance: random.Random) -> Iterator[Step]:
    """A schedule of faults around the time at which pods return."""
    yield Wait(DUE - 6.0 + chance.uniform(0.0, 8.0))
    for _ in range(chance.randint(1, 4)):
        provider = chance.choice(("milan", "turin"))
        kinds: list[tuple[Step, Step]] = [
            (Kill(CONSUMER, chance.randint(1, 400)), Start(CONSUMER)),
            (Kill(provider, chance.randint(1, 400)), Start(provider)),
            (Part(provider), Join(provider)),
            (Down(provider), Up(provider)),
            (Down(CONSUMER), Up(CONSUMER)),
            (Freeze(provider), Thaw(provider)),
            (Lose(provider, chance.choice(("delete", "get", "create")), 2), Wait(0.0)),
            (Lose(CONSUMER, chance.choice(("patch", "create")), 2), Wait(0.0)),
            (Shut(provider, on=False), Shut(provider, on=chance.random() < 0.5)),
        ]
        before, after = chance.choice(kinds)
        yield before
        yield Wait(chance.choice((0.0, 0.05, 0.3, 1.0, 4.0)))
        yield after
        yield Wait(chance.choice((0.0, 0.05, 0.3, 1.0, 4.0)))
    yield Wait(10.0)


def returned(*script: Step) -> int:
    """Perform a script; how many pods returned in it."""

    async def told(made: World) -> int:
        await story(made, script)
        return len(made.audit.returned)

    found: int = world.play(told)
    return found


@pytest.mark.long
@pytest.mark.timeout(600)
def test_whatever_happens_meanwhile_nothing_runs_twice() -> None:
    chances = [random.Random(number) for number in range(SCHEDULES)]
    found = [returned(*SHUT, *troubles(chance)) for chance in chances]
    assert sum(each > 0 for each in found) > SCHEDULES / 2


@pytest.mark.long
def test_all_return_and_their_successors_too_after_a_pause() -> None:
    assert returned(*SHUT, Wait(DUE + 10.0)) == 2
    assert returned(*SHUT, Wait(DUE + 10.0), Shut("turin", on=False), Wait(700.0)) >= 2
