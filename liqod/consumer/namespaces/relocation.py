"""Pods of a namespace leave a provider before the namespace does: make before break.

When a namespace is brought back, or selects another peer, its pods there are evicted first, in
steps and within their disruption budgets, so that their controllers make them again where they may
run now; the mapping, and with it the namespace at the peer, goes when none is left. It does not
wait for ever: after ``consumer.drain_timeout`` the rest is deleted. Pods without a controller
would not come again; they stay, and show their end when their namespace there is gone.
"""

from collections.abc import Collection
from dataclasses import dataclass

import trio

from liqod.apimachinery.kinds import PODS
from liqod.consumer.nodes import nodedrain
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model.objects.disruption import EvictablePod, Sizes
from liqod.model.view.figures import counted

FIRST_PAUSE = 0.5
"""Seconds until the check after a pod has moved; each reads all pods of the namespace."""
SILENCE = 20.0
"""Seconds for which a provider may stop answering in the middle: its API server may be restarted,
and the pods that have not moved yet would end there all at once."""
LAST = 35.0
"""Seconds after the deadline for the deleted pods to end: a pod's default grace and a little."""


@dataclass
class _Move:
    started: float
    silent: float | None = None
    pause: float = FIRST_PAUSE
    seen: frozenset[tuple[str, bool, bool]] = frozenset()


class Relocations:
    """Pods that are leaving a provider, by namespace and cluster id.

    How long each has lasted is not kept over a restart, which gives it the whole time again.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._moves: dict[tuple[str, str], _Move] = {}
        self._sizes: dict[str, Sizes] = {}
        """Sizes by namespace, shared by the moves of one controller's pods off two providers."""

    def forget(self, namespace: str, cluster: str) -> None:
        """Drop the record of a move: the pods may stay, or have left."""
        self._moves.pop((namespace, cluster), None)
        if all(moving != namespace for moving, _ in self._moves):
            self._sizes.pop(namespace, None)

    def pause(self, namespace: str) -> float:
        """Seconds until the next check of a namespace."""
        pauses = (move.pause for (moving, _), move in self._moves.items() if moving == namespace)
        return min(pauses, default=FIRST_PAUSE)

    async def advance(
        self, namespace: str, cluster: str, nodes: Collection[str], timeout: float
    ) -> str:
        """Move the next pods of a namespace off a provider.

        Args:
            namespace: the namespace of the pods.
            cluster: the provider that they leave.
            nodes: its virtual nodes; none where it does not answer, so that no end is confirmed.
            timeout: seconds after which the rest is deleted.

        Returns:
            The reason to wait, in one sentence; empty when all have left.
        """
        now = trio.current_time()
        if not nodes:
            return self._unanswered(namespace, cluster, now)
        listed = await self._client.list(PODS, Selection(namespace), decode=EvictablePod)
        pods = [pod for pod in listed if pod.controller]
        leaving = [pod for pod in pods if pod.spec.node_name in nodes and not pod.stays]
        move = self._moves.setdefault((namespace, cluster), _Move(now))
        move.silent = None
        seen = frozenset((pod.metadata.uid, pod.ready, pod.ending) for pod in pods)
        pause = nodedrain.next_pause(move.pause, len(listed))
        move.pause = FIRST_PAUSE if seen != move.seen else pause
        move.seen = seen
        if not leaving or now >= move.started + timeout + LAST:
            self.forget(namespace, cluster)
            return ""
        if now >= move.started + timeout:
            for pod in leaving:
                if not pod.ending:
                    await nodedrain.delete(self._client, pod)
            return f"{counted(len(leaving), 'pod')} at {cluster} still ending"
        sizes = self._sizes.get(namespace, {})
        blocked, self._sizes[namespace] = await nodedrain.advance(self._client, pods, nodes, sizes)
        return blocked or f"{counted(len(leaving), 'pod')} at {cluster} still ending"

    def _unanswered(self, namespace: str, cluster: str, now: float) -> str:
        """Reason to wait for a silent provider; empty without a move or after :data:`SILENCE`."""
        move = self._moves.get((namespace, cluster))
        if move is not None:
            move.silent = now if move.silent is None else move.silent
            if now < move.silent + SILENCE:
                return f"{cluster} does not answer"
        self.forget(namespace, cluster)
        return ""
