"""The views of a joined network and of the inbox."""

from __future__ import annotations

import msgspec
import pytest

from liqod.model.view.daemonfacts import SightingFacts
from liqod.model.view.requests import RequestRow
from liqod.model.view.rows import Pulse
from tests.unit.model.states import NOW, peer
from tests.unit.tui.sessions import session
from tests.unit.tui.tables import NETWORK, shown, words
from tui import pages
from tui.table import Cell, Place


def test_a_network_is_told_from_the_tunnel_up_to_pods() -> None:
    known = session(peer("milan"), networks={"milan": NETWORK})
    lines = [words(row) for row in shown(known, "peer", "milan", "network").rows]
    assert lines[0] == "tunnel wireguard (userspace), this cluster is the client"
    assert "MTU 1300 of 1340 bytes pass" in lines
    assert "received 2.5 MB" in lines
    assert "refused packets 0 spoofed, 3 to what was not lent, 0 too many" in lines
    assert "pod to pod 10.0.0.1 to 10.1.0.1: 1 ms" in lines


def test_a_network_that_is_silent_shows_no_round_trip() -> None:
    silent = msgspec.structs.replace(NETWORK, echo=40.0, rtt=0.001, loss=None)
    known = session(peer("milan"), networks={"milan": silent})
    rows = {
        row.cells[0].text: row.cells[1] for row in shown(known, "peer", "milan", "network").rows
    }
    assert rows["last round trip"] == Cell("40 s ago", "bad")
    assert "RTT" not in rows


@pytest.mark.parametrize(
    ("network", "rtt", "loss"),
    [
        (
            {"echo": 0.3, "rtt": 0.004, "loss": 0.02, "heard": 0.3},
            "4.0 ms",
            Cell("2%", "fair", 0.02),
        ),
        ({"echo": 40.0, "heard": 3.0}, "–", Cell("–", "", None)),  # its daemon is gone
        ({"echo": 40.0, "heard": 40.0}, "–", Cell("100%", "bad", 1.0)),
        ({"backend": ""}, "1.0 ms", Cell("0%", "", 0.0)),
    ],
)
def test_round_trips_are_those_of_the_tunnel_where_one_is(network, rtt, loss) -> None:
    joined = msgspec.structs.replace(NETWORK, **{"rtt": None, "loss": None, **network})
    known = session(
        peer("milan"),
        pulses={"milan": Pulse(heard=NOW, rtt=0.001, p50=0.001, p95=0.002, loss=0.0)},
        networks={"milan": joined},
    )
    table = shown(known, "peers")
    cells = dict(zip((each.title for each in table.columns), table.rows[0].cells, strict=True))
    assert cells["RTT"].text == rtt
    assert cells["LOSS"] == loss


def test_the_inbox_leaves_out_who_is_a_peer_already() -> None:
    seen = {
        "m/oslo": SightingFacts("oslo", "m", kubeconfig=True),
        "m/bern": SightingFacts("bern", "m", peered=True),
        "m/kyoto": SightingFacts("kyoto", "m", problem="no route"),
    }
    rows = shown(session(sightings=seen), "inbox").rows
    assert [row.key for row in rows] == ["m/kyoto", "m/oslo"]
    assert "no route" in words(rows[0])


def test_the_inbox_shows_first_who_waits_for_an_answer_and_the_words_to_compare() -> None:
    words_ = "copper-lantern-otter"
    asks = RequestRow(
        "bern-1", "bern", words_, {"cpu": "4"}, state="Waiting", source="192.0.2.7", since=NOW - 60
    )
    known = session(
        incoming={
            "aosta-1": RequestRow(
                "aosta-1", "aosta", state="Denied", reason="its operator says no"
            ),
            "bern-1": asks,
            "done": RequestRow("done", "turin", state="Done"),
        },
        outgoing={
            "milan": RequestRow(
                "milan", granted={"cpu": "2"}, state="Accepted", reason="nearly there"
            ),
            "pisa": RequestRow("pisa", state="", reason="no answer", lends=True),
        },
        sightings={"mdns/oslo/en0": SightingFacts("oslo", "mdns", where="en0", free={"cpu": "9"})},
    )
    rows = shown(known, "inbox").rows
    assert [words(row) for row in rows] == [
        f"bern asks 192.0.2.7 60 s {words_} cpu 4 waiting",
        "aosta asks the defaults denied: its operator says no",
        "milan is asked granted cpu 2 accepted: nearly there",
        "pisa is dialled new: no answer",
        "oslo is seen mdns en0 free cpu 9 seen; it brings no credentials to peer with",
    ]
    place = Place("inbox")
    for verb, whom in (
        ("accept", ["bern-1", "aosta-1", "", "", ""]),
        ("peer", ["", "", "", "", "oslo"]),
    ):
        assert [pages.subject(place, row.key, verb) for row in rows] == whom
    text = pages.describe(known, place, rows[0], NOW)
    assert text.startswith("bern asks to borrow from here\n  entry: bern-1\n")
    assert f"words: {words_}" in text
    assert pages.describe(known, place, rows[3], NOW).startswith("pisa is dialled to lend to it")
    assert pages.describe(known, place, rows[4], NOW).startswith("oslo\nis seen")
