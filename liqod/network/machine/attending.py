"""Observes changes by others in the kernel, as often as it takes."""

import logging
from typing import NoReturn, Protocol

import trio

from liqod.runtime.supervise import Failure, Supervision

log = logging.getLogger(__name__)


class Monitored(Protocol):
    """A part of the kernel whose changes can be observed."""

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Observe them until cancelled."""


async def attend(kernel: Monitored) -> NoReturn:
    """Observe changes in the kernel until cancelled."""

    def report(failure: Failure | None, error: BaseException | None) -> None:
        if failure is not None:
            log.warning("changes of the network are not heard: %s", failure.reason)

    await Supervision(kernel.run, report).forever()
