"""The doctor: checks every layer of every peer constantly, and reports the first that fails.

Each round gathers facts from memory and calls the checks, pure functions, with them; over a hundred
peers that is a few milliseconds in two seconds. Probes fetch the facts that need a request, now
and then, each behind a wall and with a deadline. A change of a verdict is an event.
"""

import logging
from typing import NoReturn

import msgspec
import trio

from liqod.cluster.context import ClusterContext
from liqod.errors import PluginError
from liqod.inspect.memoryfacts import FactsInMemory
from liqod.inspect.probing import CheckProbes
from liqod.model.view.rows import CheckRow, Ladder
from liqod.plugins.diagnosis import Check, ClusterFacts, Finding, PeerFacts, examine
from liqod.plugins.host import PluginHost
from liqod.plugins.typecheck import shown, type_problem
from liqod.runtime.ticks import sleep_until_tick
from liqod.telemetry.events import VerdictTurned

EVERY = 2.0
"""Seconds between two rounds."""
KEPT = 10.0
"""Seconds for which the old row is shown if the evidence has nothing new."""
TURN = 20
"""Peers checked before other tasks get a turn."""

log = logging.getLogger(__name__)


class Doctor:
    """Checks this cluster and all peers; see :attr:`ladders`.

    Args:
        facts: the facts that the checks read.
        probes: the requests that the checks need.

    Attributes:
        ladders: the findings by peer; this cluster's own by the empty string.
    """

    def __init__(
        self,
        context: ClusterContext,
        plugins: PluginHost,
        facts: FactsInMemory,
        probes: CheckProbes,
    ) -> None:
        self.ladders: dict[str, Ladder] = {"": Ladder("")}
        self._context = context
        self._plugins = plugins
        self._checks = plugins.loaded.checks
        self._probes = probes
        self._facts = facts
        self._broken: set[str] = set()
        self._kept = KEPT

    async def run(self) -> NoReturn:
        """Work until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._probes.run)
            while True:
                await self.round()
                await sleep_until_tick(EVERY)
        raise AssertionError("it looks until it is cancelled")

    async def probe(self, peer: str = "") -> None:
        """Run all probes of one peer or of all again, and check the results."""
        await self._probes.now(peer)
        self._kept = 0.0
        await self.round()
        self._kept = KEPT

    async def look(self, peer: str = "") -> None:
        """Check one peer or all again, with new requests if the facts of their servers are old."""
        await self._probes.look(peer)
        await self.round()

    async def round(self) -> None:
        """Run all checks once."""
        await self._facts.refresh()
        cluster = self._facts.cluster()
        self._examine("", cluster)
        peers = self._facts.peers()
        for number, peer in enumerate(peers, 1):
            self._examine(peer, self._facts.peer(peer, cluster))
            if number % TURN == 0:
                await trio.lowlevel.checkpoint()
        for gone in self.ladders.keys() - set(peers) - {""}:
            del self.ladders[gone]

    def _examine(self, peer: str, facts: ClusterFacts | PeerFacts) -> None:
        before = self.ladders.get(peer, Ladder(peer))
        scope = "peer" if peer else "cluster"
        old = {row.layer: row for row in before.checks}
        rows = {
            check.name: _row(check, finding, facts.now, old.get(check.name), self._kept)
            for check, finding in examine(
                (each for each in self._checks if each.scope == scope),
                lambda check: self._look(check, peer, facts),
            )
        }
        ladder = Ladder(peer, tuple(rows.values()))
        if ladder != before:
            self.ladders[peer] = ladder
            self._publish(peer, old, rows)

    def _look(self, check: Check, peer: str, facts: ClusterFacts | PeerFacts) -> Finding | None:
        """The finding of one check, given its probe's result and its settings."""
        probed = self._probes.found(peer, check.name)
        settings = self._plugins.settings("check", check.name)
        facts = msgspec.structs.replace(facts, probed=probed, settings=settings)
        return self._doubted(check, peer, self._run_check(check, facts))

    def _run_check(self, check: Check, facts: ClusterFacts | PeerFacts) -> Finding | None:
        """The finding of a check; one that breaks is logged once, and then reported as broken."""
        gauge = self._plugins.gauge("check", check.name)
        if gauge.rests:
            return Finding("unknown", f"the check is {gauge.trouble}")
        try:
            finding = gauge.judge(_nonsense, check.look, facts)
        except PluginError as error:
            if check.name not in self._broken:
                self._broken.add(check.name)
                log.exception("the check failed", extra={"check": check.name})
            return Finding("unknown", f"the check itself fails: {error}")
        return finding

    def _doubted(self, check: Check, peer: str, finding: Finding | None) -> Finding | None:
        """The finding; unknown if its probe fails, unless the finding is a failure itself."""
        failure = self._probes.failure(peer, check.name)
        if not failure or (finding is not None and finding.verdict == "failing"):
            return finding
        return Finding("unknown", f"its probe fails: {failure}")

    def _publish(self, peer: str, old: dict[str, CheckRow], new: dict[str, CheckRow]) -> None:
        """Publish each verdict that changed."""
        for name, row in new.items():
            before = old[name].verdict if name in old else "unknown"
            if row.verdict == before or {row.verdict, before} <= {"unknown", "skipped", "ok"}:
                continue
            told = VerdictTurned(layer=name, verdict=row.verdict, evidence=row.evidence)
            self._context.hub.publish(told, peer)


def _row(check: Check, finding: Finding, now: float, old: CheckRow | None, kept: float) -> CheckRow:
    """The row of one check; the old row if it has the same content and is not too old."""
    new = CheckRow(
        *(check.name, check.title, finding.verdict, now),
        *(finding.evidence, finding.remedy, now),
    )
    if old is None or old.verdict != new.verdict:
        return new
    if now - old.at < kept and old.verdict == "ok":
        return old
    same = old.evidence == new.evidence
    return (
        old if same and old.verdict == "skipped" else msgspec.structs.replace(new, since=old.since)
    )


def _nonsense(finding: object) -> str | None:
    """The fault of a check's result that is neither a finding nor None; None without fault."""
    if finding is None:
        return None
    if type(finding) is not Finding:
        return f"{shown(finding)}, not a Finding"
    return type_problem(finding)
