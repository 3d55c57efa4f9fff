"""Waits until a drained consumer has moved its pods away from here, for a limited time.

A drained Tenant's slices are denied at once, which signals its daemon to leave: it
makes the pods again elsewhere, in steps and within their disruption budgets, and ends them here one
by one. Only then its rights and namespaces go. That is not waited for longer than
``provider.drain_timeout``, and only for pods whose consumer is known to move them: those of a Liqo
that is the consumer stay until their namespaces go.
"""

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.meta import Partial
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model.view.figures import counted
from liqod.resources import SHADOW_PODS

AGAIN = 1.0
"""Seconds between checks."""


class Draining:
    """The pods of one consumer that still have to leave.

    The time counts from the first look of this process: a restart gives all of it again.

    Args:
        client: of this cluster.
        consumer: its cluster id.
        timeout: seconds.
    """

    def __init__(self, client: Client, consumer: str, timeout: float) -> None:
        self._client = client
        self._selector = f"{labels.ORIGIN}={consumer}"
        self._timeout = timeout
        self._since: float | None = None

    def over(self) -> None:
        """Reset the time: the consumer is not drained, or no more."""
        self._since = None

    async def waits(self) -> str:
        """The pods that are waited for, in one sentence; empty when none are."""
        now = trio.current_time()
        if self._since is None:
            self._since = now
        if now >= self._since + self._timeout:
            return ""
        found = await self._client.list(
            SHADOW_PODS, Selection(labels=self._selector), decode=Partial
        )
        left = sum(labels.LOCAL_UID in each.metadata.annotations for each in found)
        return f"{counted(left, 'pod')} of the consumer still here" if left else ""
