"""A watch of a kind: every change is sent, even in the very turn in which a bookmark is due."""

from contextlib import aclosing

import msgspec
import pytest
import trio

from simulator.catalog import Resource
from simulator.storage.storage import Storage
from simulator.wire.routes import Form
from simulator.wire.watch import BOOKMARK_EVERY, Watch, stream

CONFIG = Resource(group="", version="v1", kind="ConfigMap", plural="configmaps")


def put(storage: Storage, name: str) -> None:
    meta = {"namespace": "shop", "name": name, "uid": name}
    storage.put(CONFIG.qualified, {"metadata": meta})


class WrittenJustBefore(trio.abc.Instrument):
    """Stores an object after the end of a task's wait, and before the task runs on."""

    def __init__(self, storage: Storage, at: float) -> None:
        self._storage = storage
        self._at = at
        self._task = trio.lowlevel.current_task()
        self.done = False

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task and not self.done and trio.current_time() >= self._at:
            self.done = True
            put(self._storage, "late")


@pytest.mark.parametrize("seconds", [0.0, BOOKMARK_EVERY], ids=["bookmark", "end"])
async def test_a_change_in_the_turn_of_a_bookmark_is_sent(autojump_clock, seconds):
    storage = Storage()
    put(storage, "early")
    written = WrittenJustBefore(storage, trio.current_time() + BOOKMARK_EVERY)
    trio.lowlevel.add_instrument(written)
    asked = Watch(resource=CONFIG, form=Form(), since=storage.version, bookmarks=True)
    asked = msgspec.structs.replace(asked, seconds=seconds)
    pieces = stream(asked, storage.of(CONFIG.qualified), lambda: storage.version)
    async with aclosing(pieces):
        first = msgspec.json.decode(await anext(pieces))
        second = msgspec.json.decode(await anext(pieces))
    trio.lowlevel.remove_instrument(written)
    assert written.done
    assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "late")
    assert second["type"] == "BOOKMARK"
    assert second["object"]["metadata"]["resourceVersion"] == f"{storage.version}"
