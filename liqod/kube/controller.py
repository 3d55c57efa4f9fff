"""The base class of controllers: watches, the keys that a change maps to, and ``reconcile``.

A component declares the kinds it follows (:class:`~liqod.kube.watched.Watched`) and the work for a
key. This class does the rest: all kinds are read before the first key is reconciled, a key that
fails is retried after a pause that doubles, and the inspector finds its queue in the
registry. docs/background/architecture.md shows one from top to bottom.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from typing import Generic, NoReturn, Protocol

import trio

from liqod.errors import Conflict, LiqodError, PluginError, ProtocolError, TransientError
from liqod.kube.cache.informers import Informers
from liqod.kube.http.cpubudget import CpuBudget, Metered
from liqod.kube.queue import K, KeyedQueue
from liqod.kube.watched import Watched
from liqod.runtime.backoff import Backoff
from liqod.runtime.log import Seldom

log = logging.getLogger(__name__)


class ControllerHost(Protocol):
    """The party that a controller works for: this cluster, or one peer of it."""

    @property
    def informers(self) -> Informers:
        """The shared informers."""

    def failures(self, topic: str) -> Callable[[object, Exception], None]:
        """The callback for keys that fail."""


class Controller(ABC, Generic[K]):
    """Reconciles objects with their wanted state; a subclass gives its watches and ``reconcile``.

    Args:
        host: the cluster or peer that it works for.
        topic: under which failures are published.
        name: for the inspector; by default the topic.
        watches: the kinds that it follows and reads, opened in this order.
        first: keys that are reconciled once in any case, for work that is due before any object
            exists whose change would be notified.
        tasks: tasks that run as long as it does, such as :meth:`whenever`.
        concurrency: how many keys are reconciled side by side.
        backoff: pauses of a key that fails.
        budget: bounds its CPU time in the long run.
        queue: its keys, if the queue outlives the controller; its own otherwise.

    Attributes:
        name: the same.
        watches: the same.
        queue: the keys that wait.
    """

    def __init__(
        self,
        host: ControllerHost,
        topic: str,
        *watches: Watched[K],
        name: str = "",
        first: Iterable[K] = (),
        tasks: Iterable[Callable[[], Awaitable[object]]] = (),
        concurrency: int = 1,
        backoff: Backoff = Backoff(),  # noqa: B008  # frozen
        budget: CpuBudget | None = None,
        queue: KeyedQueue[K] | None = None,
    ) -> None:
        self.name = name or topic
        self.watches = watches
        self.queue = KeyedQueue[K](backoff, name=self.name) if queue is None else queue
        # Private by name: a component that has a `_budget` of its own does not meet this one.
        self.__host = host
        self.__report = host.failures(topic)
        self.__first = tuple(first)
        self.__tasks = tuple(tasks)
        self.__concurrency = concurrency
        self.__budget = budget

    @abstractmethod
    async def reconcile(self, key: K) -> float | None:
        """Bring the object of a key to its wanted state, from the current state.

        Returns:
            Seconds until it is reconciled again; None: when something changes.
        """

    async def prepare(self) -> None:
        """Prepare, once all kinds have been read and before the first key is reconciled."""

    def failed(self, key: K, error: Exception) -> None:
        """Handle the failure of a key; the key is retried after a pause."""
        self.__report(key, error)

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Reconcile until cancelled; started when everything has been read."""
        async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
            for each in self.watches:
                await each.open(stack, nursery, self.__host.informers, self.queue)
            for each in self.watches:
                await each.synced()
            # No checkpoint from here to `prepare`: key functions may read each other's stores.
            for each in self.watches:
                stack.callback(each.end)
                each.start()
            await self.prepare()
            for key in self.__first:
                self.queue.add(key)
            for run in self.__tasks:
                nursery.start_soon(run)
            # The tasks wait for changes before the first key is read, so none is missed.
            await trio.lowlevel.checkpoint()
            work = self.reconcile if self.__budget is None else self._within_budget
            await self.queue.run(
                work,
                concurrency=self.__concurrency,
                on_error=self.failed,
                task_status=task_status,
            )
        raise AssertionError("a controller ends by cancellation only")

    async def whenever(
        self,
        wait: Callable[[], Awaitable[object]],
        keys: Callable[[], Iterable[K]],
        *,
        debounce: float = 0.0,
    ) -> NoReturn:
        """Add keys after each occurrence of an event that is no object of a watch.

        Args:
            wait: returns when it has happened.
            keys: the keys to reconcile then.
            debounce: seconds in which occurrences are taken together.
        """
        while True:
            await wait()
            for key in keys():
                self.queue.add(key, after=debounce)

    async def _within_budget(self, key: K) -> float | None:
        """Reconcile, and pause if the owner of the objects keeps it busy without end."""
        assert self.__budget is not None
        metered = Metered(self.reconcile(key))
        try:
            again = await metered
        except Exception:
            await self.__budget.spend(metered.used)
            raise
        await self.__budget.spend(metered.used)
        return again


def report_failures(
    report: Callable[[str, str], None], topic: str, **facts: object
) -> Callable[[object, Exception], None]:
    """A callback for keys that fail: it reports the key and the reason.

    Failures that time alone does not repair are logged too, each only now and then.

    Args:
        report: publishes the key and the reason.
        topic: for the log.
        facts: for the log, too.
    """
    seldom = Seldom()

    def tell(key: object, error: Exception) -> None:
        reason = str(error) or type(error).__name__
        report(_brief(key), reason)
        whose = None if isinstance(error, ProtocolError) else key  # concerns the whole server
        if isinstance(error, TransientError | Conflict) or not seldom.allows((whose, reason)):
            return
        extra = {"topic": topic, **facts, "key": _brief(key), "reason": reason}
        known = isinstance(error, LiqodError) and not isinstance(error, PluginError)
        log.warning("failed, and is tried again", extra=extra, exc_info=not known and error)

    return tell


def _brief(key: object) -> str:
    """A key for people: a kind by its plural, and tuples with slashes."""
    if isinstance(key, tuple):
        return "/".join(_brief(part) for part in key if part)
    return str(getattr(key, "plural", key))
