"""`python -m tests.netns.laterrelease run|node …`: a part of a gateway of a later release.

It is this one, but for what crosses between the parts: its messages and its requests have the next
version, and each message says more than this release knows. Its `liqod tunnel` is of that release,
too.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import msgspec

from liqod.__main__ import main
from liqod.network.orders import greeting, messages
from liqod.plugins.network import processes
from liqod.tunnel import wanted

PROGRAM = ("-P", "-m", "tests.netns.laterrelease")
"""What follows Python."""
TUNNELS = """
import runpy
from liqod.tunnel import wanted
wanted.VERSION += 1
runpy.run_module("liqod.tunnel", run_name="__main__", alter_sys=True)
"""


def encode(encoded: Any, message: msgspec.Struct) -> bytes:
    """A message with a field that this release does not know."""
    return msgspec.json.encode({**msgspec.json.decode(encoded(message)), "fromTheFuture": [9]})


async def begin(start: Any, host: Any, underlay: str, command: Any, *more: Any, **how: Any) -> None:
    """Begins the process of the tunnels, of the later release."""
    await start(host, underlay, [command[0], "-I", "-c", TUNNELS, command[-1]], *more, **how)


if __name__ == "__main__":
    vars(greeting)["VERSION"] += 1
    vars(wanted)["VERSION"] += 1
    vars(messages)["encode"] = partial(encode, messages.encode)
    vars(processes)["start_until_ready"] = partial(begin, processes.start_until_ready)
    sys.exit(main())
