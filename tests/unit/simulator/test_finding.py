"""How the demo's clusters find each other: who may announce, and what is said where it fails."""

import socket
from pathlib import Path

import pytest
import trio

from liqod import config
from simulator.demo import finding
from simulator.demo.story import CONFIGURATION, WANTED

BOTH = ("milan", "turin")


@pytest.fixture
def port() -> int:
    """A port that no demo of this machine holds."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        number: int = found.getsockname()[1]
    return number


def test_one_demo_announces_and_the_next_one_says_why_it_does_not(port):
    with finding.claimed(port) as first, finding.claimed(port) as second:
        assert first == ""
        assert f"UDP port {port} of loopback is taken" in second
    with finding.claimed(port) as again:
        assert again == ""


def test_without_loopback_nobody_announces(port):
    with finding.claimed(port, loopbacks=()) as why:
        assert why == "this machine has no loopback interface"


@pytest.mark.parametrize(
    ("found", "failure", "why", "took"),
    [
        ({"milan": "signed", "turin": "signed"}, "", "", 0),
        ({"turin": "signed"}, "", "nothing was heard of milan for 8 s", 8),
        ({"milan": "unsigned", "turin": "signed"}, "", "nothing was heard of milan for 8 s", 8),
        (
            {"milan": "signed", "turin": "conflict"},
            "",
            "somebody else here is called turin, too",
            0,
        ),
        ({}, "it needs zeroconf", "mDNS does not work here: it needs zeroconf", 0),
    ],
)
async def test_why_others_are_not_told_by_what_is_heard(autojump_clock, found, failure, why, took):
    async def seen(path: Path) -> tuple[dict[str, str], str]:
        return found, failure

    assert await finding.unseen(Path("rome.sock"), BOTH, seen) == why
    assert trio.current_time() == took


def test_the_configuration_takes_what_is_written_into_it():
    text = CONFIGURATION.format(kubeconfig="rome", pod_cidr="10.201.0.0/16", socket="rome.sock")
    named = finding.NAMED.format(
        cluster_id="milan",
        address="127.0.0.1:6446",
        key="ab" * 32,
        resources=", ".join(f'{name} = "{n}"' for name, n in WANTED.items()),
    )
    found = config.parse(text + finding.ANNOUNCED.format(interface="lo") + named)
    assert found.plugins.settings["mdns"] == {"interfaces": ["lo"]}
    assert dict(found.peer("milan").resources) == WANTED
    assert found.peer("milan").pod_network == found.peer("turin").pod_network == "routed"
