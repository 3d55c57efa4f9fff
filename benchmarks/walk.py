"""Through which modules one pod's event goes: from the watch's word to the request that is written.

Two walks on the consumer's side, on embedded clusters and in a system at rest: a pod is bound to a
virtual node, until its ShadowPod is created; and the pod at the peer has become Ready, until the
status here is patched. Counted are modules and functions of liqod that are called in between, in
the consumer's tasks: what reads and decodes the watch comes before, and the transport of the
request after. ``--calls`` prints each call below its caller.
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
from typing import NamedTuple

import trio

import liqod
from liqod.apimachinery.kinds import NAMESPACES
from liqod.cluster.guestpolicies import GuestPolicies
from liqod.peers.peer import Peer
from liqod.provider.workloads.shadowpods import ShadowPods
from tests.simulated.lendingpods import LENDER, here, quota
from tests.simulated.reflecting import pair

ROOT = Path(liqod.__file__).parent
TELLS = "kube/cache/handlers.py", "tell"
"""The function where a watched change leaves the cache."""
CREATES, PATCHES = ("kube/client.py", "create"), ("kube/client.py", "patch")
"""The functions where a request is handed to the transport."""

PODS_ALONE = '[reflection]\ndisabled = ["tokens"]\n'
"""The reflector of a pod's tokens goes its own way, at the same time."""
TRANSPORT = "kube/watch.py", "kube/http/", "tlspump.py"
"""The modules that read on meanwhile, and are not on the way."""

_consumer: ContextVar[bool] = ContextVar("consumer", default=False)
"""True in the tasks of the consumer: they inherit it from the one that starts the engine."""


class Call(NamedTuple):
    """One call of a function of liqod's.

    Attributes:
        depth: how many functions of liqod's are above it.
        module: its file, from the package on.
        function: its name.
    """

    depth: int
    module: str
    function: str


class Walk(NamedTuple):
    """The calls between an event and its write."""

    calls: tuple[Call, ...]

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules, in the order in which they are first entered."""
        return tuple(dict.fromkeys(call.module for call in self.calls))

    @property
    def functions(self) -> int:
        """The number of functions."""
        return len({call[1:] for call in self.calls})

    @property
    def packages(self) -> Counter[str]:
        """The number of modules of each package."""
        return Counter(module.partition("/")[0] for module in self.modules)


class Recorder:
    """Notes the calls of the consumer's tasks."""

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

    def walk(self, last: tuple[str, str]) -> Walk:
        """The calls from the last word of a watch before a write on, up to that write."""
        places = [call[1:] for call in self._calls]
        end = places.index(last)
        begin = max(at for at, place in enumerate(places[:end]) if place == TELLS)
        between = self._calls[begin:end]
        return Walk(tuple(call for call in between if not call.module.startswith(TRANSPORT)))

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not _consumer.get():
            return
        code = frame.f_code
        path = Path(code.co_filename)
        if not path.is_relative_to(ROOT) or code.co_name.startswith("<"):
            return
        depth, above = 0, frame.f_back
        while above is not None:
            depth += above.f_code.co_filename.startswith(str(ROOT))
            above = above.f_back
        self._calls.append(Call(depth, str(path.relative_to(ROOT)), code.co_name))


async def walks() -> tuple[Walk, Walk]:
    """The way of one pod out, and of its status back."""
    async with pair(text=PODS_ALONE) as both, trio.open_nursery() as nursery:
        await both.there.create(NAMESPACES, {"metadata": {"name": LENDER}})
        await quota(both, "milan-rome", "10")
        provider = Peer("rome", both.lender, LENDER)
        await nursery.start(ShadowPods(provider, GuestPolicies()).run)
        _consumer.set(True)
        await both.start(nursery)
        _consumer.set(False)
        await both.pod("warm-up")
        await here(both, "warm-up")
        recorder = Recorder()
        with recorder.recording():
            await both.pod("web")
            await here(both, "web")
        nursery.cancel_scope.cancel()
        return recorder.walk(CREATES), recorder.walk(PATCHES)


def shown(name: str, walk: Walk, *, calls: bool) -> str:
    """A walk for people."""
    parts = ", ".join(f"{package} {count}" for package, count in walk.packages.items())
    lines = [f"{name}: {len(walk.modules)} modules ({parts}), {walk.functions} functions"]
    if calls:
        least = min(call.depth for call in walk.calls)
        lines += [f"{'  ' * (c.depth - least)}{c.module} {c.function}" for c in walk.calls]
    else:
        lines += [f"  {module}" for module in walk.modules]
    return "\n".join(lines)


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.walk", description=__doc__)
    parser.add_argument("--calls", action="store_true", help="print each call below its caller")
    chosen = parser.parse_args()
    out, back = trio.run(walks)
    print(shown("A pod, until its ShadowPod is created", out, calls=chosen.calls))
    print(shown("Its status, until it is written here", back, calls=chosen.calls))


if __name__ == "__main__":
    main()
