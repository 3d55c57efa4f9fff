"""Resource usage of the pods of one peer's virtual nodes, requested on a scrape.

One request for each namespace with something that runs, at most every ten seconds however many
scrape, and none while none does. All namespaces at once would be one request, but by a right to
see the usage of every other consumer's pods. Counters are kept for scraped pods, and no longer.
"""

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple

import trio

from liqod.apimachinery.kinds import Kind
from liqod.consumer.nodes import nodepages
from liqod.consumer.timings import ORDINARY, ConsumerTimings
from liqod.errors import Forbidden, LiqodError, NotFound, Unreachable
from liqod.kube.client import Client
from liqod.kube.http.cpubudget import Turn
from liqod.kube.selection import Selection
from liqod.model.crossing import usage
from liqod.model.crossing.usage import Counters, NodeReading, PodMetrics, RunningPod, Sample
from liqod.runtime.gather import gather


class PodLocation(NamedTuple):
    """The place of pods at a peer: the client that may read them there, and the namespace."""

    client: Client
    namespace: str


POD_METRICS: Final = Kind("metrics.k8s.io", "v1beta1", "PodMetrics", "pods", versioned=False)
DEADLINE: Final = 8.0
"""Seconds for the request of a scrape; a metrics-server that scrapes every ten waits for nine."""


class _UsageAnswer(NamedTuple):
    """The peer's answer for a namespace: its (Trio) time, and the reason if it is empty."""

    at: float
    samples: dict[str, Sample]
    error: LiqodError | None = None


class PodUsage:
    """Resource usage of the pods at one peer.

    Args:
        lead_time: where pods of a node and a namespace are.
        clock: epoch seconds.
        timings: how long an answer is good.

    Attributes:
        problem: the reason that the peer reported nothing the last time; empty where it did.
        requested_at: the Trio time of the last request; None: never.
    """

    def __init__(
        self,
        lead_time: Callable[[str, str], PodLocation],
        clock: Callable[[], float] = time.time,
        timings: ConsumerTimings = ORDINARY,
    ) -> None:
        self._lead_time, self._clock, self._timings = lead_time, clock, timings
        self._answers: dict[str, _UsageAnswer] = {}
        self._locks: dict[str, trio.Lock] = {}
        self._counters: dict[str, Counters] = {}
        self.problem = ""
        self.requested_at: float | None = None

    async def of(self, node: str, bodies: Iterable[bytes]) -> tuple[NodeReading, bool]:
        """Usage of the pods on a node; and True if the peer reported all their namespaces.

        Args:
            node: the name of the virtual node.
            bodies: its pods here, as JSON.

        Raises:
            LiqodError: there is no answer, with the reason.
        """
        pods, turn = [], Turn()
        for body in bodies:
            if (pod := nodepages.running(body)) is not None:
                pods.append(pod)
            await turn.spend(len(body))
        spaces = sorted({pod.namespace for pod in pods})
        answers = await gather(*(partial(self._request, node, each) for each in spaces))
        failed = next((each.error for each in answers if each.error is not None), None)
        if failed is not None and all(each.error is not None for each in answers):
            raise failed
        return self._counted(node, spaces, answers, pods), failed is None

    def _counted(
        self,
        node: str,
        spaces: list[str],
        answers: tuple[_UsageAnswer, ...],
        pods: list[RunningPod],
    ) -> NodeReading:
        now = self._clock()
        old = [name for name, each in self._counters.items() if now - each.read > usage.STALE]
        for name in old:
            del self._counters[name]
        known = {
            (space, name): sample
            for space, answer in zip(spaces, answers, strict=True)
            for name, sample in answer.samples.items()
        }
        counters = self._counters.setdefault(node, Counters(now))
        return counters.take(node, pods, known, now)

    async def _request(self, node: str, namespace: str) -> _UsageAnswer:
        """The peer's answer for a namespace: one request, however many wait for it."""
        async with self._locks.setdefault(namespace, trio.Lock()):
            now = trio.current_time()
            known = self._answers.get(namespace)
            if known is None or now - known.at >= self._timings.usage_fresh:
                known = self._answers[namespace] = await self._answer(node, namespace, now)
                self.requested_at, self.problem = now, str(known.error or "")
                self._forget(now)
            return known

    async def _answer(self, node: str, namespace: str, now: float) -> _UsageAnswer:
        try:
            place = self._lead_time(node, namespace)
            with trio.fail_after(DEADLINE):
                where = Selection(place.namespace)
                found = await place.client.list(POD_METRICS, where, decode=PodMetrics)
        except trio.TooSlowError:
            return _UsageAnswer(
                now, {}, Unreachable(f"metrics.k8s.io: no answer within {DEADLINE:g} s")
            )
        except NotFound as error:
            why = f"it has no metrics.k8s.io, as a metrics-server there would serve ({error})"
            return _UsageAnswer(now, {}, NotFound(why))
        except Forbidden as error:
            return _UsageAnswer(now, {}, Forbidden(f"it does not tell what pods use: {error}"))
        except LiqodError as error:
            return _UsageAnswer(now, {}, error)
        return _UsageAnswer(now, usage.samples(found))

    def _forget(self, now: float) -> None:
        """Keep no namespace that is not requested any more."""
        for name, answer in list(self._answers.items()):
            if now - answer.at > usage.STALE and not self._locks[name].locked():
                del self._answers[name], self._locks[name]
