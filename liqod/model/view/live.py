"""The daemon's activity at one moment: its tasks, queues, watches and requests.

Asked for when somebody looks, and not part of the state that is sent with each change.
"""

from liqod.model.view.rows import Row


class Task(Row, frozen=True):
    """One task of the daemon.

    Attributes:
        name: its name.
        depth: 0 for the root; a child follows its parent and is one deeper.
        peer: whom it works for, if anybody.
        waits: the function it waits in, such as ``KeyedQueue._next``; empty while it runs.
        where: file and line of that in liqod's own code.
        age: seconds since it was first seen by a look at the tasks; None when this is the first.
        waiting: seconds that it has been seen at that same place.
        children: tasks below it.
    """

    name: str
    depth: int
    peer: str = ""
    waits: str = ""
    where: str = ""
    age: float | None = None
    waiting: float | None = None
    children: int = 0


class Queue(Row, frozen=True):
    """One queue: keys that wait, are worked on, and seconds that the oldest is overdue."""

    name: str
    peer: str = ""
    waiting: int = 0
    busy: int = 0
    oldest: float = 0.0


class Watching(Row, frozen=True):
    """One watch.

    Attributes:
        kind: what is watched.
        namespace: where; empty for all.
        server: of which API server.
        objects: how many it holds.
        heard: seconds since the last byte; None before the first.
        problem: why it is not following.
        suspect: why a list of it is not believed.
    """

    kind: str
    namespace: str = ""
    server: str = ""
    objects: int = 0
    heard: float | None = None
    problem: str = ""
    suspect: str = ""


class Traffic(Row, frozen=True):
    """Requests to one API server: under way, waiting for a connection, since the start."""

    server: str
    active: int = 0
    waiting: int = 0
    total: int = 0
