"""Lists the daemon's tasks as a tree, each with the call it waits in, and open queues and watches.

Read on demand; the call comes from the frames of the task's coroutine: nothing is traced, so that
it costs nothing without a request. The waiting time of a task is measured between two reads; a
task that has not moved between two is at the same place of the same frame.
"""

from pathlib import Path
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import trio

import liqod
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.queue import RunningQueue
from liqod.model.view.rows import Queue, Task, Traffic, Watching
from liqod.runtime.log import PEER
from liqod.telemetry.registry import Registry

if TYPE_CHECKING:
    from liqod.inspect.components import Components
    from liqod.kube.client import Client

OURS = f"{Path(liqod.__file__).parent}/"
TURN = 50
"""Tasks read before other tasks get a turn."""
TRAP = "_real_async_yield"
MANY = 5000
"""Most tasks listed; more would make the message too large."""


class _Seen(NamedTuple):
    first: float
    place: tuple[int, int]
    since: float


class Call(NamedTuple):
    """One frame of a waiting task."""

    frame: FrameType

    @property
    def name(self) -> str:
        """The function, with its class."""
        return self.frame.f_code.co_qualname

    @property
    def where(self) -> str:
        """File, from the package's folder on, and line."""
        file = self.frame.f_code.co_filename.removeprefix(OURS)
        return f"liqod/{file}:{self.frame.f_lineno}"

    @property
    def ours(self) -> bool:
        """True if it is the project's own code."""
        return self.frame.f_code.co_filename.startswith(OURS)


class TaskObserver:
    """Reads the task tree, and remembers the read before."""

    def __init__(self) -> None:
        self._seen: WeakKeyDictionary[trio.lowlevel.Task, _Seen] = WeakKeyDictionary()
        self._looked = False

    async def tasks(self) -> tuple[Task, ...]:
        """The tree, the root first, each child after its parent."""
        rows = []
        for number, (task, depth) in enumerate(tree()[:MANY], 1):
            rows.append(self._row(task, depth))
            if number % TURN == 0:
                await trio.lowlevel.checkpoint()
        self._looked = True
        return tuple(rows)

    def _row(self, task: trio.lowlevel.Task, depth: int) -> Task:
        calls = frames(task)
        innermost = calls[-1] if calls else None
        own = next((call for call in reversed(calls) if call.ours), None)
        seen = self._remember(task, innermost)
        now = trio.current_time()
        known = self._looked or seen.first < now
        return Task(
            name=task.name,
            depth=depth,
            peer=task.context.get(PEER, ""),
            waits=waits(calls, own),
            where=own.where if own is not None else "",
            age=round(now - seen.first, 1) if known else None,
            waiting=round(now - seen.since, 1) if known else None,
            children=sum(len(nursery.child_tasks) for nursery in task.child_nurseries),
        )

    def _remember(self, task: trio.lowlevel.Task, call: Call | None) -> _Seen:
        now = trio.current_time()
        frame = call.frame if call is not None else None
        place = (id(frame), frame.f_lasti if frame is not None else 0)
        before = self._seen.get(task)
        if before is None:
            seen = _Seen(now, place, now)
        else:
            seen = _Seen(before.first, place, before.since if before.place == place else now)
        self._seen[task] = seen
        return seen


def tree() -> list[tuple[trio.lowlevel.Task, int]]:
    """All tasks with their depth, the root first, each child after its parent."""
    root = trio.lowlevel.current_root_task()
    found: list[tuple[trio.lowlevel.Task, int]] = []
    waiting = [] if root is None else [(root, 0)]
    while waiting:
        task, depth = waiting.pop()
        found.append((task, depth))
        children = [child for nursery in task.child_nurseries for child in nursery.child_tasks]
        children.sort(key=lambda each: each.name, reverse=True)
        waiting += [(child, depth + 1) for child in children]
    return found


def frames(task: trio.lowlevel.Task) -> list[Call]:
    """The frames of a waiting task, the outermost first, without that of Trio's own trap."""
    calls = []
    step: Any = task.coro
    while step is not None:
        if isinstance(step, CoroutineType):
            frame, step = step.cr_frame, step.cr_await
        elif isinstance(step, GeneratorType):
            frame, step = step.gi_frame, step.gi_yieldfrom or _timed(step)
        elif isinstance(step, AsyncGeneratorType):
            frame, step = step.ag_frame, step.ag_await
        else:  # the result of an async generator's asend(); it shows no more
            break
        if frame is None:
            break
        calls.append(Call(frame))
    return calls[:-1] if calls and calls[-1].name == TRAP else calls


def _timed(step: "GeneratorType[Any, Any, Any]") -> Any:
    """The coroutine of a plugin, inside the wall that times it (:mod:`liqod.plugins.callguard`)."""
    return None if step.gi_frame is None else step.gi_frame.f_locals.get("inner")


def waits(calls: list[Call], own: Call | None) -> str:
    """The call that a task waits in: the project's innermost function, and that function's call."""
    if own is None:
        return calls[-1].name if calls else ""
    after = calls[calls.index(own) + 1 :]
    return f"{own.name} → {after[0].name}" if after else own.name


def queues(registry: Registry) -> tuple[Queue, ...]:
    """All queues in use."""
    rows = (
        Queue(
            name=queue.name,
            peer=peer,
            waiting=queue.waiting,
            busy=queue.busy,
            oldest=round(queue.oldest, 1),
        )
        for queue, peer in registry.of(RunningQueue)
    )
    return tuple(sorted(rows, key=lambda row: (row.peer, row.name)))


def watches(registry: Registry) -> tuple[Watching, ...]:
    """All open watches."""
    rows = (_watch(informer) for informer in registry.of(SharedInformer))
    return tuple(sorted(rows, key=lambda row: (row.server, row.kind, row.namespace)))


def _watch(informer: SharedInformer) -> Watching:
    silence = trio.current_time() - informer.last_contact
    return Watching(
        kind=informer.kind.plural,
        namespace=informer.selection.namespace or "",
        server=informer.client.server,
        objects=len(informer.store),
        heard=round(silence, 1) if silence < float("inf") else None,
        problem=informer.problem or "",
        suspect=informer.suspect or "",
    )


def traffic(home: "Client", components: "Components") -> tuple[Traffic, ...]:
    """Requests to this cluster's API server, and to those of the peers."""
    rows = {home.server: _traffic(home)}
    for borrowing in components.borrowing().values():
        for client in (each.client for each in borrowing.remotes.all()):
            one, sum_ = _traffic(client), rows.get(client.server, Traffic(client.server))
            rows[client.server] = Traffic(
                one.server,
                one.active + sum_.active,
                one.waiting + sum_.waiting,
                one.total + sum_.total,
            )
    return tuple(rows.values())


def _traffic(client: "Client") -> Traffic:
    active, waiting, _ = client.busy()
    return Traffic(client.server, active, waiting, sum(client.stats.requests.values()))
