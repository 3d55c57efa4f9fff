"""Modules and functions of liqod that one pod's event goes through, in both daemons.

On embedded clusters, and in a system at rest: a pod is bound to a virtual node, its ShadowPod and
the pod come to be at the peer, and the status comes back. Counted is all of liqod that the tasks of
the two daemons call from the watch event of the created pod until the pod is Ready here: reading
and decoding, the decisions, the requests and their answers. What the embedded API servers call is
not. ``--calls`` prints each call below its caller.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

import trio

import liqod
from liqod.apimachinery.kinds import NAMESPACES
from liqod.cluster.guestpolicies import GuestPolicies
from liqod.peers.peer import Peer
from liqod.provider.workloads.shadowpods import ShadowPods
from tests.simulated.lendingpods import LENDER, here, quota
from tests.simulated.reflecting import pair

ROOT = Path(liqod.__file__).parent
PODS_ALONE = '[reflection]\ndisabled = ["tokens"]\n'
"""The reflector of a pod's tokens goes its own way, at the same time."""
REST: Final = 2.0
"""Seconds after which nothing of the pod before it goes on."""
CONSUMER: Final = "consumer"
PROVIDER: Final = "provider"

_side: ContextVar[str] = ContextVar("side", default="")
"""The daemon of a task, which inherits it from the one that starts it; empty for others."""


class Call(NamedTuple):
    """One call of a function of liqod's.

    Attributes:
        side: the daemon whose task calls it.
        depth: how many functions of liqod's are above it.
        module: its file, from the package on.
        function: its name.
    """

    side: str
    depth: int
    module: str
    function: str


class Walk(NamedTuple):
    """The calls between an event and its end."""

    calls: tuple[Call, ...]

    def of(self, side: str) -> Walk:
        """The calls of one daemon."""
        return Walk(tuple(call for call in self.calls if call.side == side))

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules, in the order in which they are first entered."""
        return tuple(dict.fromkeys(call.module for call in self.calls))

    @property
    def functions(self) -> int:
        """The number of functions."""
        return len({(call.module, call.function) for call in self.calls})

    @property
    def packages(self) -> Counter[str]:
        """The number of modules of each package."""
        return Counter(module.partition("/")[0] for module in self.modules)


class Recorder:
    """Notes the calls of the daemons' tasks."""

    def __init__(self) -> None:
        self._calls: list[Call] = []

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Note them meanwhile."""
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def walk(self) -> Walk:
        """The calls so far."""
        return Walk(tuple(self._calls))

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not (side := _side.get()):
            return
        code = frame.f_code
        path = Path(code.co_filename)
        if not path.is_relative_to(ROOT) or code.co_name.startswith("<"):
            return
        depth, above = 0, frame.f_back
        while above is not None:
            depth += above.f_code.co_filename.startswith(str(ROOT))
            above = above.f_back
        self._calls.append(Call(side, depth, str(path.relative_to(ROOT)), code.co_name))


@contextmanager
def _as(side: str) -> Iterator[None]:
    """Tasks that are started meanwhile are that daemon's."""
    token = _side.set(side)
    try:
        yield
    finally:
        _side.reset(token)


async def walk() -> Walk:
    """The way of one pod out, and of its status back."""
    async with pair(text=PODS_ALONE) as both, trio.open_nursery() as nursery:
        await both.there.create(NAMESPACES, {"metadata": {"name": LENDER}})
        await quota(both, "milan-rome", "10")
        provider = Peer("rome", both.lender, LENDER)
        with _as(PROVIDER):
            await nursery.start(ShadowPods(provider, GuestPolicies()).run)
        with _as(CONSUMER):
            await both.start(nursery)
        await both.pod("warm-up")
        await here(both, "warm-up")
        await trio.sleep(REST)
        recorder = Recorder()
        with recorder.recording():
            await both.pod("web")
            await here(both, "web")
        nursery.cancel_scope.cancel()
        return recorder.walk()


def shown(name: str, walk: Walk) -> str:
    """The numbers of a walk, on one line."""
    parts = ", ".join(f"{package} {count}" for package, count in sorted(walk.packages.items()))
    return f"{name}: {len(walk.modules)} modules ({parts}), {walk.functions} functions"


def listed(walk: Walk, *, calls: bool) -> str:
    """The modules of a walk below its numbers, or each call below its caller."""
    if not calls:
        return "\n".join(f"  {module}" for module in walk.modules)
    least = min(call.depth for call in walk.calls)
    return "\n".join(f"{'  ' * (c.depth - least)}{c.module} {c.function}" for c in walk.calls)


def main() -> None:
    """Print both sides, and what they come to together."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.walk", description=__doc__)
    parser.add_argument("--calls", action="store_true", help="print each call below its caller")
    chosen = parser.parse_args()
    found = trio.run(walk)
    for side in (CONSUMER, PROVIDER):
        print(shown(side, found.of(side)))
        print(listed(found.of(side), calls=chosen.calls))
    print(shown("together", found))


if __name__ == "__main__":
    main()
