"""The contract of a doctor's check: a pure function of facts, and perhaps a probe for more.

A :class:`Check` looks at one layer of one peer, or of this cluster. ``look`` is called every two
seconds with the daemon's present facts, does no I/O and has no clock. A ``probe`` fetches other
facts, now and then, behind a wall and with a deadline; what it returns comes to ``look`` as
``facts.probed``. The layers of a peer form a ladder: the first that fails is the answer to "what is
wrong".
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Literal, Protocol

import msgspec

from liqod.model.view.facts import ClusterFacts as ClusterFacts
from liqod.model.view.facts import DaemonFacts as DaemonFacts
from liqod.model.view.facts import LinkFacts as LinkFacts
from liqod.model.view.facts import NodeFacts as NodeFacts
from liqod.model.view.facts import PeerFacts as PeerFacts
from liqod.model.view.facts import QueueFacts as QueueFacts
from liqod.model.view.facts import ReflectionFacts as ReflectionFacts
from liqod.model.view.facts import Trip as Trip
from liqod.model.view.facts import WorkFacts as WorkFacts
from liqod.model.view.figures import counted
from liqod.model.view.networkfacts import NetworkFacts as NetworkFacts
from liqod.model.view.problems import Fault as Fault
from liqod.plugins.contracts import NoSettings

Verdict = Literal["ok", "failing", "unknown", "skipped"]


class Finding(msgspec.Struct, frozen=True):
    """The result of a check.

    Attributes:
        verdict: ``unknown`` where there is no result yet; ``skipped`` where it does not work and is
            not meant to.
        evidence: the observation, one clause with figures.
        remedy: the action to take, one clause; for a failing layer.
        faults: its entries in the list of problems, such as each object that is concerned; empty:
            of a failing layer its title and its evidence, of others nothing.
    """

    verdict: Verdict
    evidence: str
    remedy: str = ""
    faults: tuple[Fault, ...] = ()


def ok(evidence: str, *faults: Fault) -> Finding:
    """The layer works; the faults are hints."""
    return Finding("ok", evidence, faults=faults)


def failing(evidence: str, remedy: str, what: str = "") -> Finding:
    """The layer does not work; ``what`` is the same as an independent clause."""
    return Finding("failing", evidence, remedy, (Fault(what, remedy),) if what else ())


def unknown(evidence: str, *faults: Fault) -> Finding:
    """The result is unknown yet."""
    return Finding("unknown", evidence, faults=faults)


def found(faults: Iterable[Fault], well: str) -> Finding:
    """The finding of a layer with several faults: the first that is no hint has it fail.

    Args:
        faults: all there are.
        well: the evidence where none but hints are among them.
    """
    all_faults = tuple(faults)
    grave = [each for each in all_faults if not each.hint]
    if not grave:
        return Finding("ok", well, faults=all_faults)
    others = f" (and {counted(len(grave) - 1, 'other')})" if len(grave) > 1 else ""
    return Finding("failing", f"{grave[0].what}{others}", grave[0].remedy, all_faults)


def skipped(evidence: str) -> Finding:
    """The layer does not work because somebody wants that: no fault, and not well either."""
    return Finding("skipped", evidence)


class Asker(Protocol):
    """The interface of a probe to one API server: it may only read."""

    @property
    def settings(self) -> Any:
        """The check's own settings, as its ``config_type``."""
        ...

    async def read(self, path: str) -> bytes:
        """The answer to a GET. Raises a LiqodError."""
        ...


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One layer's check.

    Attributes:
        name: the layer, such as ``api``; unique within its scope.
        title: the layer in a few words, as the subject of "… fails".
        scope: ``cluster``: ``look`` gets ClusterFacts; ``peer``: PeerFacts.
        order: its place in the ladder; the built-in ones have 10, 20, 30 …
        look: returns the finding; None where the layer does not apply.
        needs: layers of the same ladder without which there is nothing to look at.
        by_objects: the objects of the API server show it too: it is also checked where no
            daemon can be queried.
        probe: fetches more, from the API server of the scope.
        every: seconds between two probes.
        config_type: the struct its table of the configuration is decoded as.
        api: the version of the contract.
    """

    name: str
    title: str
    scope: Literal["cluster", "peer"]
    order: int
    look: Callable[[Any], Finding | None]
    needs: tuple[str, ...] = ()
    by_objects: bool = False
    probe: Callable[[Asker], Awaitable[Any]] | None = None
    every: float = 60.0
    config_type: type[Any] = NoSettings
    api: int = 1


def examine(
    checks: Iterable[Check], look: Callable[[Check], Finding | None], *, independent: bool = False
) -> Iterator[tuple[Check, Finding]]:
    """Each layer that applies with its finding; layers on one that does not work are skipped.

    Args:
        checks: of one scope, the lowest layer first.
        look: runs a check.
        independent: each layer has its own result, as of objects: one that fails is reported
            although the layer below it is unknown.
    """
    hindering: dict[str, tuple[Check, Verdict]] = {}
    for check in checks:
        below = next((hindering[name] for name in check.needs if name in hindering), None)
        known = independent and below is not None and below[1] != "failing"
        finding = look(check) if below is None or known else None
        if below is not None and (finding is None or finding.verdict != "failing"):
            finding = skipped(f"waits for {below[0].title}")
        if finding is None:
            continue
        if finding.verdict != "ok":
            hindering[check.name] = check, finding.verdict
        yield check, finding
