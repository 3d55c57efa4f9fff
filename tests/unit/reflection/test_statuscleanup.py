"""Retraction of a peer's reports, and that nothing of it is lost."""

from types import SimpleNamespace
from typing import Any

import trio
import trio.testing

from liqod.apimachinery.kinds import CONFIG_MAPS
from liqod.plugins.contracts import NOTHING, Reflector, RemoteKind
from liqod.reflection.statusarbitration import Retraction, StatusArbiter
from liqod.reflection.statuscleanup import Retractions
from liqod.reflection.view import ReflectedObject

LAMP = ReflectedObject("gadgets", "shop", "lamp")
REFLECTOR = Reflector(
    name="gadgets",
    kind=CONFIG_MAPS,
    outgoing=lambda source, view: NOTHING,
    remote=(RemoteKind(kind=CONFIG_MAPS),),
)


class Slow:
    """A client of a cluster where the lamp is lit; each answer waits."""

    def __init__(self) -> None:
        self.go = trio.Event()
        self.patches: list[Any] = []

    async def get(self, *_: object) -> dict[str, Any]:
        await self.go.wait()
        return {
            "metadata": {"name": "lamp", "namespace": "shop", "uid": "1", "resourceVersion": "7"},
            "status": {"red": True, "blue": True},
        }

    async def patch(self, _kind: object, _name: str, patch: Any, *_: object, **__: object) -> None:
        self.patches.append(patch["status"])


async def test_what_comes_while_another_is_taken_back_is_taken_back_too(autojump_clock):
    client, arbiter = Slow(), StatusArbiter()
    shared = {"owner": "", "informers": None, "failures": lambda topic: print}
    context: Any = SimpleNamespace(client=client, **shared)
    async with trio.open_nursery() as nursery:
        await nursery.start(Retractions(context, arbiter).run)
        arbiter.retracted(Retraction(REFLECTOR, LAMP, "1", "milan", {"red": True}))
        await trio.testing.wait_all_tasks_blocked()
        arbiter.retracted(Retraction(REFLECTOR, LAMP, "1", "milan", {"blue": True}))
        client.go.set()
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert client.patches == [{"red": None}, {"blue": None}]
