"""The time to peer with a cluster whose daemon is asked, until its node is Ready.

Two daemons on one machine, peered and unpeered again and again, in two ways:

- by a line: `liqod peer 'liqod://…'`, the line fresh from `liqod invite`;
- by name: `liqod peer milan`, whose address and key the consumer's configuration has.

The provider's policy is `auto`, so that no person is waited for. A time is from the start of the
command, which is a program that has to be imported, until the node is Ready.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import trio

from benchmarks.embedded import CONSUMER
from benchmarks.peers import peer
from benchmarks.report import Aim, Report
from benchmarks.stage import PROVIDER, Stage, parser, run, say, stage
from liqod.apimachinery import labels
from liqod.handshake.protocol.invitationtokens import parse_token
from tests.testbed.federation import ASKED, Member

TIME = Aim("peer by a line until the virtual node is Ready, s", "3.6-6.6", 1.0)
POLICY = {"action": "auto", "max_resources": ASKED}
SETTLE = 60.0
"""Seconds for what is left of a peering to go."""


@dataclass
class Met:
    """One peering.

    Attributes:
        way: how the provider was named.
        ready: seconds from the start of the command until the node was Ready.
        ended: the same until the command ended.
        consumer: CPU seconds of the consumer's daemon meanwhile.
        provider: likewise the provider's.
    """

    way: str
    ready: float
    ended: float
    consumer: float
    provider: float


def invite(milan: Member) -> str:
    """A line by which one cluster may borrow what is asked for."""
    words = [word for key, value in ASKED.items() for word in (f"--{key}", value)]
    return milan.liqod("invite", *words).stdout.strip()


def leave(rome: Member, milan: Member) -> None:
    """Unpeer on both sides, until nothing is left that a next peering could use."""
    rome.liqod("unpeer", PROVIDER, "--yes")
    milan.liqod("unpeer", CONSUMER, "--yes")
    rome.goes(f"/api/v1/nodes/{PROVIDER}", SETTLE)
    rome.goes(f"/api/v1/namespaces/liqo-tenant-{PROVIDER}", SETTLE)
    milan.goes(f"/api/v1/namespaces/liqo-tenant-{CONSUMER}", SETTLE)


def meet(rome: Member, milan: Member, way: str, whom: Callable[[], str]) -> Met:
    """Peer once, and leave again."""
    named = whom()
    before = rome.daemon.usage().cpu, milan.daemon.usage().cpu
    ready, ended = trio.run(peer, rome, PROVIDER, named)
    after = rome.daemon.usage().cpu, milan.daemon.usage().cpu
    leave(rome, milan)
    return Met(way, ready, ended, after[0] - before[0], after[1] - before[1])


def measure(chosen: argparse.Namespace) -> Report:
    """Both ways in turn, so often."""
    with stage(embedded=chosen.embedded) as made:
        rome, milan = started(made)
        ways: dict[str, Callable[[], str]] = {
            "by a line": lambda: invite(milan),
            "by name": lambda: PROVIDER,
        }
        found = []
        for number in range(chosen.rounds):
            for way, whom in ways.items():
                found.append(meet(rome, milan, way, whom))
                say(f"{number + 1}: {way} {found[-1].ready:.2f} s")
    return report(found)


def started(made: Stage) -> tuple[Member, Member]:
    """A consumer that has the address and the key of a provider."""
    say("starting two clusters with liqod")
    made.start(CONSUMER, PROVIDER)
    milan = made.join(PROVIDER, more={"policies": [POLICY]})
    keys = f"/api/v1/namespaces/liqo/secrets/{labels.KEYS_SECRET}"
    milan.comes_to(keys, lambda found: found["metadata"].get("annotations", {}).get(labels.MET_AT))
    token = parse_token(invite(milan))
    known: dict[str, Any] = {
        "id": PROVIDER,
        "key": token.key,
        "addresses": list(token.addresses),
    }
    return made.join(CONSUMER, more={"peers": [known]}), milan


def report(found: list[Met]) -> Report:
    """A row for each way: medians, and the slowest."""
    made = Report("Peering with a daemon that is asked")
    made.figures = {"peerings": [asdict(each) for each in found]}
    made.rows = [
        ("", "node Ready, s", "slowest", "command, s", "CPU ms: consumer's daemon", "provider's")
    ]
    for way in dict.fromkeys(each.way for each in found):
        of = [each for each in found if each.way == way]

        def middle(what: str, of: list[Met] = of) -> float:
            return float(statistics.median(getattr(each, what) for each in of))

        made.rows.append(
            (
                way,
                f"{middle('ready'):.2f}",
                f"{max(each.ready for each in of):.2f}",
                f"{middle('ended'):.2f}",
                f"{middle('consumer') * 1e3:.0f}",
                f"{middle('provider') * 1e3:.0f}",
            )
        )
    made.aims = [(TIME, statistics.median(e.ready for e in found if e.way == found[0].way))]
    return made


def arguments() -> argparse.ArgumentParser:
    """Its command line."""
    made = parser("meeting", __doc__ or "")
    made.add_argument("--rounds", type=int, default=5, help="of each way")
    return made


if __name__ == "__main__":
    sys.exit(run(measure, arguments()))
