"""When a namespace is offloaded: as soon as its phase says what came of it, whatever it is."""

from typing import Any

import pytest
import trio

from liqod.procedures.offload import offloaded


class Told:
    """A cluster whose NamespaceOffloading has these statuses, one after the other."""

    def __init__(self, *statuses: dict[str, Any]) -> None:
        self.statuses = list(statuses)

    async def get(self, *_: Any) -> Any:
        return {"status": self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]}


@pytest.mark.parametrize(
    "phase", ["Ready", "NoClusterSelected", "SomeFailed", "AllFailed", "OfALaterVersion"]
)
async def test_an_outcome_ends_the_waiting_though_nobody_knows_it(phase: str, autojump_clock):
    begun = {"observedGeneration": 2, "offloadingPhase": "InProgress"}
    old = {"observedGeneration": 1, "offloadingPhase": "Ready"}
    new = {"observedGeneration": 2, "offloadingPhase": phase}
    client: Any = Told({}, old, {"observedGeneration": 2}, begun, new)
    with trio.fail_after(5):
        assert await offloaded(client, "shop", 2) == new
