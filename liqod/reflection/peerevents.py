"""The state that the Event watches of one peer's mapped namespaces share."""

from typing import Final

from liqod.kube.client import Client
from liqod.kube.http.cpubudget import CpuBudget
from liqod.reflection.eventwriter import ORDINARY, EventLimits, EventWriter
from liqod.runtime.log import Seldom

SHARE: Final = 0.01
"""Part of the time that reading a peer's Events may take in the long run, beside what else is read
of it: a flood of them holds up no pod."""
SAID_FOR: Final = 86400.0
"""Seconds for which it is not said again that they cannot be read."""


class PeerEvents:
    """The writer, the budget and the log of what one peer's Event watches do.

    Args:
        client: of this cluster.
        peer: the peer's id.
        which: the setting ``reflection.events``.
        limits: of what is written of them.

    Attributes:
        writer: writes them here.
        which: the same.
        budget: the time for reading them.
        seldom: who may say that they cannot be read.
    """

    def __init__(
        self, client: Client, peer: str, which: str, limits: EventLimits = ORDINARY
    ) -> None:
        self.writer = EventWriter(client, peer, limits)
        self.which = which
        self.budget = CpuBudget(share=SHARE)
        self.seldom = Seldom(SAID_FOR)
