"""Scripts: what happens in a world, one step after another, until it is quiet again."""

from collections.abc import Sequence

from tests.stateful import agreement, world
from tests.stateful.cures import quiet
from tests.stateful.steps import Step
from tests.stateful.world import World


def perform(*script: Step) -> None:
    """Have the steps happen to a copy of the baseline.

    Raises:
        Broken: an invariant did not hold on the way, or both sides do not agree in the end.
    """
    world.play(lambda made: story(made, script))


async def story(made: World, script: Sequence[Step]) -> None:
    """The steps, the end of all trouble, and what holds then."""
    for step in script:
        await step.do(made)
        made.check()
    await quiet(made)
    agreement.check(made)
    await agreement.nothing_is_left_to_do(made)
    agreement.check(made)
