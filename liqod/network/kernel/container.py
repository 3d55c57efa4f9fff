"""What a daemon in a pod does before it can have networks: it is in a container that begins anew.

What is the machine's on a host is the container's here, and gone with it: the names of network
namespaces, and that the network's sysctls can be written. There is a keeper where this is so.
"""

import logging

import trio

from liqod.errors import NetworkError
from liqod.keeper.client import keeper
from liqod.network.kernel import namespaces, sysctls

log = logging.getLogger(__name__)


async def settle_in() -> None:
    """Have the network's sysctls be writable, and take over the namespaces that are kept.

    On a host nothing is done. In a pod it may come again. A keeper that is silent may only begin
    just now: it is asked for each namespace again before that is made.

    Raises:
        NetworkError: a right is missing.
    """
    kept = keeper()
    if kept is None:
        return
    await trio.to_thread.run_sync(_unlock)
    try:
        await trio.to_thread.run_sync(kept.attend)
    except OSError as error:
        raise NetworkError(f"this daemon cannot be known to the keeper: {error}") from error
    try:
        await namespaces.adopt()
    except NetworkError as error:
        log.warning("%s", error)


def _unlock() -> None:
    if sysctls.is_locked():
        sysctls.unlock()
