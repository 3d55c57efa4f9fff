"""The task tree, from the frames of what waits: names, places, queues, and how long."""

import pytest
import trio

from liqod.inspect.tasktree import TaskObserver, queues, watches
from liqod.kube.queue import KeyedQueue
from liqod.plugins.callguard import CallGuard
from liqod.runtime.log import PEER
from liqod.telemetry import registry


class Room:
    """Has a queue and works slowly."""

    def __init__(self) -> None:
        self.queue: KeyedQueue[str] = KeyedQueue(name="rooms")

    async def run(self) -> None:
        PEER.set("milan")
        await self.queue.run(self.work)

    async def work(self, key: str) -> None:
        await trio.sleep_forever()


async def test_tasks_say_where_they_wait_and_for_how_long(autojump_clock, nursery):
    room, look = Room(), TaskObserver()
    nursery.start_soon(room.run, name="the room")
    room.queue.add("a")
    room.queue.add("b")
    await trio.sleep(0.01)
    first = {task.name: task for task in await look.tasks()}
    assert first["the room"].waits == "KeyedQueue._next → Event.wait"
    assert first["the room"].where.startswith("liqod/kube/queue.py:")
    assert first["the room"].peer == "milan"
    assert first["the room"].waiting is None, "not known by the first look"
    assert first["the room"].children == 1
    await trio.sleep(5)
    rows = await look.tasks()
    second = {task.name: task for task in rows}
    assert second["the room"].waiting == 5
    order = [task.name for task in rows]
    worker = next(name for name in order if name.endswith("KeyedQueue._work"))
    assert order.index(worker) == order.index("the room") + 1
    assert second[worker].depth == second["the room"].depth + 1


async def test_what_a_plugin_waits_in_is_shown_behind_its_wall(autojump_clock, nursery):
    look = TaskObserver()
    nursery.start_soon(CallGuard("discovery", "dns").run, Room().run)
    await trio.sleep(0.01)
    rows = {task.name: task for task in await look.tasks()}
    assert rows["the discovery dns: Room.run"].waits == "KeyedQueue._next → Event.wait"


async def test_queues_enter_themselves_while_they_are_worked_on(autojump_clock):
    known, room = registry.new_registry(), Room()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(room.run)
        room.queue.add("a")
        room.queue.add("b")
        await trio.sleep(3)
        (found,) = queues(known)
        assert (found.name, found.peer) == ("rooms", "milan")
        assert (found.waiting, found.busy, found.oldest) == (1, 1, 3.0)
        assert watches(known) == ()
        nursery.cancel_scope.cancel()
    assert queues(known) == ()


async def test_each_daemon_of_a_process_sees_its_own_queues(autojump_clock, nursery):
    async def daemon(found: list[registry.Registry]) -> None:
        found.append(registry.new_registry())
        nursery.start_soon(Room().run)

    rome: list[registry.Registry] = []
    milan: list[registry.Registry] = []
    nursery.start_soon(daemon, rome)
    nursery.start_soon(daemon, milan)
    await trio.sleep(1)
    assert len(queues(rome[0])) == len(queues(milan[0])) == 1
    assert rome[0] is not milan[0]


async def test_a_queue_tells_how_long_changes_waited(autojump_clock, nursery):
    queue: KeyedQueue[str] = KeyedQueue()
    fail = True

    async def work(key: str) -> None:
        await trio.sleep(2)
        if fail:
            raise ValueError("no")

    nursery.start_soon(queue.run, work)
    queue.add("a")
    await trio.sleep(1)
    assert (queue.busy, len(queue)) == (1, 0)
    await trio.sleep(1.001)
    assert (queue.done, queue.failed) == (0, 1)
    fail = False
    await trio.sleep(60)
    assert queue.done == 1
    done = int(queue.worked)
    assert queue.slowest(0, done + 1) == pytest.approx(2.0)  # from when it was due again
    assert queue.slowest(0, done) == queue.slowest(done + 1, done + 9) == 0
    assert queue.slowest(0, done + 1) == pytest.approx(2.0), "looking changes nothing"
    assert queue.worked < trio.current_time()
