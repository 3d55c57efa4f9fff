"""The times that the documentation names are those that are kept."""

import re
from pathlib import Path

import pytest

from liqod import loopwatchdog
from liqod.consumer.webhook.timings import WebhookTimings
from liqod.inspect import doctor, inspector, probing, protocol
from liqod.inspect.timings import InspectorTimings
from liqod.kube import definitions
from liqod.model.objects.webhook import TIMEOUT_SECONDS
from liqod.model.peering import intervals
from liqod.network.failover import election
from liqod.network.machine import tunnelcontrol
from liqod.plugins.callguard import CallGuardTimings
from liqod.plugins.reflectors import pods
from liqod.provider.timings import ORDINARY
from liqod.reflection import writebackoff
from liqod.reflection.timings import ReflectionTimings
from liqod.runtime.account import CLIENTS, LOCAL, SHARES

DOCS = Path(__file__).parents[2] / "docs"
IN_WORDS = {
    0.25: "a quarter of a second",
    0.5: "half a second",
    1.0: "second",
    2.0: "two seconds",
    4.0: "four",
    5.0: "five seconds",
    10.0: "ten seconds",
    60.0: "minute",
    600.0: "ten minutes",
    3600.0: "hour",
}

KEPT = [
    ("failures", "Nodes stay Ready for {} s", intervals.NODE_LEASE),
    ("failures", "After {} s the log says who it is", loopwatchdog.LATE),
    (
        "failures",
        "it is parked for a {}, and each time for twice as long",
        CallGuardTimings().parked,
    ),
    ("failures", "it is written {} times", writebackoff.TIMES),
    ("failures", "and then left for a {}", ReflectionTimings().contested.first),
    ("failures", "packets go on for 9 to {} s", election.KERNEL),
    ("failures", "| {} to 0.7 s without the tunnel |", election.SILENCE),
    ("failures", "within {} of when another may be the gateway", election.GRACE),
    ("network", "of which {} is waited for Nodes", election.TOGETHER),
    ("network", "leave the Lease to the others for {} s", election.DEFERENCE),
    ("network", "tries the same after {}", election.YIELDS_AGAIN),
    ("failures", "nothing has come through the tunnel for {} s", tunnelcontrol.CUT),
    ("network", "After {} s of silence the gateway cuts", tunnelcontrol.CUT),
    ("failures", "cannot renew its Lease for {} s", intervals.LEADER_STOPS_AFTER),
    ("failures", "until the definition has been back for {} s", definitions.RETURN),
    ("failures", "what waited is looked at within {} s", ORDINARY.policies_missing),
    ("failures", "it does not answer within {} s", TIMEOUT_SECONDS),
    (
        "failures",
        "proves the way at its start (in a cluster as soon as its pod is ready) and every {}",
        intervals.WEBHOOK_PROOF_EVERY,
    ),
    ("failures", "every {} s where it fails", WebhookTimings().probe_again),
    ("inspector", "Changes are collected for {}", inspector.TICK),
    ("inspector", "| requests under way, of one client | {} |", protocol.REQUESTS),
    ("inspector", "| updates that wait for a client | {} |", protocol.BEHIND),
    ("inspector", "| clients | {} |", SHARES[CLIENTS].most),
    ("inspector", "here and over the network | {} each |", SHARES[LOCAL].most),
    ("inspector", "the websocket's handshake | {} s |", InspectorTimings().greeting),
    ("inspector", "bytes that a client does not take | {} s |", InspectorTimings().write),
    ("inspector", "Each layer of each peering is checked every {}", doctor.EVERY),
    ("inspector", "`server`: its API server, asked every {} s", probing.SERVER_EVERY),
    ("inspector", "*failing* after {} s without a sign of life", intervals.FRESH),
    ("inspector", "what it serves, asked every {}", intervals.PEER_VERSION_EVERY),
    ("inspector", "is idle between probes, {} apart", intervals.PROBE_EVERY),
    ("inspector", "keep-alive has it acknowledged every {}", intervals.ACKNOWLEDGED_EVERY),
    ("inspector", "where nothing was for {}", probing.QUIET),
    ("top", "silent (nothing came back for {})", intervals.FRESH),
    ("performance", "One that stays Pending is read after {} s", pods.SLOW_START),
    ("performance", "every {} s in its first minute", pods.PACE),
    ("performance", "first minute and every {} after it", pods.SLOW_PACE),
    ("performance", "that runs and is not Ready yet** waits a {}", pods.DEBOUNCE),
    ("performance", "have ended for good** waits up to {} s", pods.LAST_WORD),
    ("performance", "that stays Pending for more than {} s", pods.SLOW_START),
]
"""The text of a page, and the figure at its braces."""

UNANSWERED = intervals.PROBE_EVERY + intervals.FIRST_DEADLINE
WITHIN = [
    ("after a crash within {} s", intervals.LEADER_LEASE),
    ("| it is gone | noticed within {} s", intervals.GONE_WITHIN),
    ("accepts, and answers nothing | noticed within {} s", intervals.FROZEN_WITHIN),
    ("of the link gets no answer, within {} s", UNANSWERED),
    ("within {} s of its return condition and taint are taken", intervals.PROBE_EVERY),
]
"""The promises of docs/background/failures.md, and the most seconds of each by the constants."""


def text(page: str) -> str:
    (file,) = DOCS.glob(f"*/{page}.md")
    return " ".join(file.read_text().split())


@pytest.mark.parametrize(("page", "said", "kept"), KEPT)
def test_a_time_that_a_page_names_is_the_one_that_is_kept(page: str, said: str, kept: float):
    forms = [f"{kept:g}", *filter(None, [IN_WORDS.get(float(kept))])]
    # Behind the figure the page may say more, but no further digit.
    patterns = [re.escape(said.replace("{}", each)) + r"(?!\.?\d)" for each in forms]
    assert any(re.search(each, text(page)) for each in patterns), f"{page}: {said}: {kept:g}"


@pytest.mark.parametrize(("said", "most"), WITHIN)
def test_a_promise_is_kept_and_says_no_more_than_twice_what_it_takes(said: str, most: float):
    found = re.findall(re.escape(said).replace(r"\{\}", r"(\d+)"), text("failures"))
    assert len(found) == 1, said
    assert most <= float(found[0]) <= 2 * most
