"""Prepares the container of ``liqod node`` in a pod for networks: it is new after each restart.

The names of network namespaces, and the right to write the network's sysctls, are the machine's on
a host; here they are the container's, and gone with it. There is a keeper where this is so.
"""

import logging

import trio

from liqod.errors import NetworkError
from liqod.keeper.keeperclient import keeper
from liqod.network.dataplane.kernel import namespaces, sysctls

log = logging.getLogger(__name__)


async def unlock() -> None:
    """Make the network's sysctls writable, in a pod; on a host they are.

    Raises:
        NetworkError: a right is missing.
    """
    if keeper() is not None:
        await trio.to_thread.run_sync(_unlock)


async def settle_in() -> None:
    """As :func:`unlock`, and take over the namespaces that are kept.

    On a host nothing is done. In a pod it may come again. A keeper that is silent may only begin
    just now: each namespace is requested again before it is made.

    Raises:
        NetworkError: a right is missing.
    """
    kept = keeper()
    if kept is None:
        return
    await unlock()
    try:
        await trio.to_thread.run_sync(kept.attend)
    except OSError as error:
        raise NetworkError(f"this program cannot be known to the keeper: {error}") from error
    try:
        await namespaces.adopt()
    except NetworkError as error:
        log.warning("%s", error)


def _unlock() -> None:
    if sysctls.is_locked():
        sysctls.unlock()
