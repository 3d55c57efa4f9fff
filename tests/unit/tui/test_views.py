"""The views: what each shows of a state, the worst first."""

from __future__ import annotations

import msgspec
import pytest

from liqod.inspect.protocol import Tasks
from liqod.model.view.daemonfacts import PluginFacts, SightingFacts
from liqod.model.view.problems import HINTS, Problem
from liqod.model.view.requests import RequestRow
from liqod.model.view.roomrows import FreeGroup, MarkRow, NodeRoom, RoomSums, WaitGroup
from liqod.model.view.rows import (
    Amount,
    ConditionRow,
    EventRow,
    Line,
    NamespaceRow,
    NodeRow,
    PodRow,
    Pulse,
    Queue,
    Reflection,
    Slice,
    Task,
    Watching,
)
from liqod.model.view.snapshot import GuestSummary
from tests.unit.model.states import NOW, failing, peer, state
from tests.unit.tui.sessions import after, hello, session, snapshot
from tests.unit.tui.tables import NETWORK, shown, words
from tui import head, keys, pages
from tui.table import Place, Row
from tui.views import catalog, peers
from tui.views.catalog import VIEWS
from tui.viewstate import ViewState


def test_every_view_of_nothing_says_so() -> None:
    known = session()
    for name in VIEWS:
        table = shown(known, name, "nobody" if name == "peer" else "")
        assert table.rows or table.empty


def test_the_line_of_views_is_no_wider_than_the_screen_and_whole_where_there_is_room() -> None:
    known = ViewState("rome.sock")
    known.session = session(
        plugins={"reflector/pods": PluginFacts("pods", "reflector")},
        guests={"shop-oslo/a": GuestSummary("shop-oslo", "a", "n1", "Running", True)},
    )
    offered = catalog.offered(known.session)
    assert {view.title for view in offered} >= {"Guests", "Plugins"}
    for view in offered:
        known.places = [Place(view.name)]
        if catalog.parts(known.place):
            continue  # it has tabs of its own in that line
        for width in (80, 40):
            line = head.tabs(known, width)
            assert len(line) <= width
            assert f"[{view.key} {view.title}]" in line
            keys_shown = [word.strip("[") for word in line.split() if len(word.strip("[")) == 1]
            assert keys_shown == [each.key for each in offered]
        assert all(f"{each.key} {each.title}" in head.tabs(known, 120) for each in offered)


def test_every_row_has_a_cell_for_each_column() -> None:
    known = session(
        peer("milan"),
        peer("turin", link="down", reason="no answer"),
        nodes={"milan": NodeRow("milan", "milan", True, "", {"cpu": "4"}, 1, 1)},
        pods={"shop/web": PodRow("shop", "web", "milan", "Running", True, peer="milan")},
        slices={"t/s": Slice("s", "borrowed", "", {}, {}, "", "", "", False, "milan", "t")},
        ladders={"milan": failing("milan", "api"), "": failing("", "api")},
        reflections={"milan/pods": Reflection("milan", "pods")},
        networks={"milan": NETWORK},
        plugins={"reflector/pods": PluginFacts("pods", "reflector")},
        sightings={"manual/oslo": SightingFacts("oslo", "manual")},
        incoming={"bern-1": RequestRow("bern-1", "bern", state="Waiting")},
        outgoing={"kyoto": RequestRow("kyoto", state="Denied")},
        guests={
            "shop-milan/web": GuestSummary(
                "shop-milan", "web", "n1", "Running", True, consumer="milan"
            )
        },
        rooms={"": NodeRoom(), "milan": NodeRoom("milan", told=True, groups=(FreeGroup(),) * 2)},
        waits={"shop/web": WaitGroup("shop", "web")},
        avoided={"shop/u/milan": MarkRow("shop", "ReplicaSet web", "milan")},
        room=RoomSums(nodes=1, here=1, waits=1, marks=1),
    )
    known = after(Tasks(id=1, tasks=(Task("main", 0),)), start=known)
    for view in VIEWS.values():
        for part in catalog.parts(Place(view.name)) or ("",):
            subject = "milan" if view.name == "peer" else ""
            table = shown(known, view.name, subject, part)
            assert table.rows or part in ("timeline", "log") or view.name in ("timeline", "log")
            for row in table.rows:
                assert len(row.cells) == len(table.columns), (view.name, part, row)
            assert len({row.key for row in table.rows}) == len(table.rows)


def test_peers_are_in_order_of_how_bad_they_are_and_say_why() -> None:
    known = session(
        peer("bern"),
        peer("milan", link="down", since=NOW - 14, reason="no answer"),
        peer("turin", layer="clock", layer_since=NOW - 60),
        peer("oslo", failure="it broke"),
    )
    table = shown(known, "peers")
    assert [row.key for row in table.rows] == ["oslo", "milan", "turin", "bern"]
    assert words(table.rows[1]).startswith("✗ milan down 14 s")
    assert "degraded: clock" in words(table.rows[2])
    assert table.rows[0].into == Place("peer", "oslo")


@pytest.mark.parametrize(
    ("days", "said", "tone"),
    [(300.0, "300 d", ""), (1.0, "1 d", "fair"), (-0.5, "expired", "bad"), (None, "–", "dim")],
)
def test_certificates_that_end_soon_are_marked(days: float | None, said: str, tone: str) -> None:
    table = shown(session(peer(certificate_days=days)), "peers")
    cell = table.rows[0].cells[[column.title for column in peers.COLUMNS].index("CERT")]
    assert (cell.text, cell.tone) == (said, tone)


def test_the_scarcest_resource_is_shown() -> None:
    quota = {"cpu": Amount("4", "1", 0.25), "memory": Amount("8Gi", "8Gi", 1.0)}
    row = shown(session(peer(quota=quota)), "peers").rows[0]
    assert "100% memory" in words(row)


def test_a_ladder_says_what_to_do_below_what_fails() -> None:
    known = session(peer(), ladders={"milan": failing("milan", "clock", evidence="5 s apart")})
    table = shown(known, "peer", "milan")
    assert [row.key for row in table.rows] == ["below", "clock", "clock/remedy"]
    assert "5 s apart" in words(table.rows[1])
    assert "mend it" in words(table.rows[2])
    assert any("mend it" in note.text for note in table.notes)


def test_a_peer_that_is_gone_says_so() -> None:
    assert shown(session(), "peer", "milan").notes[0].text == "this peer is gone"


def test_a_node_that_has_less_than_its_grant_says_so() -> None:
    grant = {"cpu": "4", "memory": "8Gi"}
    row = NodeRow("milan", "milan", True, "", {"cpu": "1500m", "memory": "8Gi"}, 0, 0, 0, grant)
    known = session(peer(), nodes={"milan": row})
    place = Place("offloaded")
    told = pages.describe(known, place, Row("node milan", ()), NOW).splitlines()
    assert told[-2:] == ["  cpu: 1500m, of 4 granted", "  memory: 8Gi"]


def test_pods_are_below_their_node_and_say_why_they_wait() -> None:
    known = session(
        peer(),
        nodes={
            "milan": NodeRow("milan", "milan", True, "", {"cpu": "4"}, 2, 1),
            "turin": NodeRow("turin", "turin", False, "no lease", {}, 0, 0),
        },
        pods={
            "shop/a": PodRow("shop", "a", "milan", "Running", True, peer="milan"),
            "shop/b": PodRow("shop", "b", "milan", "Pending", False, "over quota", peer="milan"),
        },
    )
    rows = shown(known, "offloaded").rows
    assert [row.key for row in rows] == [
        "node turin",
        "node milan",
        "namespace milan shop",
        "pod shop/a",
        "pod shop/b",
    ]
    assert "no lease" in words(rows[0])
    assert "over quota" in words(rows[4])
    assert [row.key for row in shown(known, "offloaded", "turin").rows] == ["node turin"]


def test_a_lender_sees_its_guests_and_why_one_waits() -> None:
    known = session(
        peer(),
        guests={
            "shop-oslo/a": GuestSummary("shop-oslo", "a", "n1", "Running", True, consumer="oslo"),
            "shop-oslo/b": GuestSummary(
                "shop-oslo", "b", "", "Pending", False, "no room", consumer="oslo"
            ),
            "x-bern/c": GuestSummary("x-bern", "c", "n2", "Succeeded", False, consumer="bern"),
        },
    )
    rows = shown(known, "guests").rows
    assert [row.key for row in rows] == [
        *("guests bern/x-bern", "pod x-bern/c"),
        *("guests oslo/shop-oslo", "pod shop-oslo/a", "pod shop-oslo/b"),
    ]
    assert words(rows[2]) == "oslo  shop-oslo 1/2 1 Pending, 1 Running"
    assert "no room" in words(rows[4])
    assert len(shown(known, "peer", "oslo", "guests").rows) == 3
    text = pages.describe(known, Place("guests"), rows[4], NOW)
    assert text.startswith("shop-oslo/b runs here for oslo\n")
    assert pages.behind(Place("peer", "oslo", "guests"), rows[4]) == pages.Object(
        "Pod", "b", "shop-oslo"
    )


def test_all_problems_are_in_one_view_with_what_to_do() -> None:
    known = session(
        peer("bern"),
        peer("milan", layer="clock", layer_since=NOW - 11, verdict="5 s apart"),
        peer("turin", link="down", since=NOW - 14, reason="no answer"),
        ladders={"milan": failing("milan", "clock")},
        problems=(
            Problem(2, "", "a policy is missing", "run `liqod install`"),
            Problem(HINTS, "bern", "a pod waits", ""),
        ),
    )
    rows = shown(known, "problems").rows
    assert [words(row) for row in rows] == [
        "✗ turin API unreachable for 14 s (no answer), 3 pods there out of reach",
        "✗ own a policy is missing",
        "→ run `liqod install`",
        "! milan the clock fails: no (for 60 s)",
        "→ mend it",
        "· bern a pod waits",
    ]
    assert rows[2].child
    assert rows[0].into == Place("peer", "turin")
    assert shown(session(peer()), "problems").empty == "nothing is wrong"


def test_what_is_said_of_a_peer_is_as_old_as_that_is() -> None:
    known = session(peer(since=NOW - 300, layer="clock", layer_since=NOW - 11))
    assert "degraded for 11 s" in shown(known, "peer", "milan").notes[0].text
    assert "degraded: clock 11 s" in words(shown(known, "peers").rows[0])
    known = session(peer(since=NOW - 300), pulses={"milan": Pulse(heard=NOW - 9)})
    assert "silent for 9 s" in shown(known, "peer", "milan").notes[0].text
    known = session(peer(since=NOW - 300, failure="it broke"))
    assert "failed · " in shown(known, "peer", "milan").notes[0].text


def test_what_was_cordoned_on_purpose_is_no_failure() -> None:
    plain = Slice("a", "borrowed", "", {}, {}, "", "", "", True, "milan", "t")
    meant = msgspec.structs.replace(plain, resources="Accepted")
    wrong = msgspec.structs.replace(plain, resources="Denied")
    rows = shown(session(peer(), slices={"t/a": meant, "t/b": wrong}), "peer", "milan", "resources")
    assert "· cordoned" in words(rows.rows[0])
    assert "✗ Denied" in words(rows.rows[1])


def test_a_filter_that_fits_nothing_does_not_say_that_there_is_nothing() -> None:
    view_state = ViewState("rome.sock")
    assert "has not answered" in view_state.table(NOW).empty
    for message in (hello(), snapshot(state(peer()))):
        view_state.receive(message, 0.0)
    view_state.options.expression = "nobody"
    table = view_state.table(NOW)
    assert table.rows == ()
    assert table.empty == "nothing here matches nobody; esc shows all again"


def test_plugins_that_fail_come_first() -> None:
    known = session(
        plugins={
            "a": PluginFacts("a", "reflector"),
            "b": PluginFacts("b", "reflector", state="left out", why="it needs another version"),
        }
    )
    rows = shown(known, "plugins").rows
    assert [row.key for row in rows] == ["b", "a"]
    assert "another version" in words(rows[0])


def test_tasks_show_the_tree_and_what_does_not_follow() -> None:
    tree = Tasks(
        id=1,
        tasks=(Task("main", 0), Task("peer milan", 1, "milan", "Event.wait", "link.py:10")),
        queues=(Queue("pods", "milan", 3, 1),),
        watches=(Watching("pods", "", "milan", problem="410 Gone"),),
    )
    table = shown(after(tree, start=session()), "tasks")
    assert table.rows[1].cells[0].text == "  peer milan"
    assert "3 waiting" in table.notes[1].text
    assert "410 Gone" in table.notes[2].text


def test_the_timeline_is_newest_first_and_has_an_axis() -> None:
    events = (
        EventRow(1, NOW - 300, "peer.link", "milan", {"up": False, "reason": "cut"}),
        EventRow(2, NOW - 1, "peer.link", "turin", {"up": True}),
    )
    lines = (Line(NOW, "error", "it\x1b[2J"),)
    known = msgspec.structs.replace(session(peer()), events=events, lines=lines)
    table = shown(known, "timeline")
    assert [row.key for row in table.rows] == ["2", "1"]
    assert "up=false reason=cut" in words(table.rows[1])
    assert table.notes[0].text.count("█") == 2
    assert [row.key for row in shown(known, "peer", "milan", "timeline").rows] == ["1"]
    assert "\x1b" not in words(shown(known, "log").rows[0])


def test_a_hostile_peer_cannot_write_to_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J"
    known = session(
        peer("milan", server=f"https://{evil}", state=evil, version=evil, layer=evil),
        nodes={"n": NodeRow(evil, "milan", False, evil, {evil: evil}, 0, 0)},
        pods={"shop/a": PodRow("shop", evil, "n", evil, False, evil, peer="milan")},
        sightings={"m/x": SightingFacts(evil, evil, problem=evil)},
        incoming={
            "x": RequestRow(evil, evil, evil, {evil: evil}, {}, evil, source=evil, reason=evil)
        },
        outgoing={
            "y": RequestRow("y", evil, evil, {}, {evil: evil}, evil, source=evil, reason=evil)
        },
        ladders={"milan": failing("milan", "clock", evidence=evil)},
        guests={"x/a": GuestSummary(evil, evil, evil, evil, False, evil, consumer="milan")},
        problems=(Problem(1, evil, evil, evil),),
    )
    for view in VIEWS.values():
        for part in catalog.parts(Place(view.name)) or ("",):
            table = shown(known, view.name, "milan" if view.name == "peer" else "", part)
            texts = [cell.text for row in table.rows for cell in row.cells]
            for text in [*texts, *(note.text for note in table.notes)]:
                assert "\x1b" not in text, (view.name, part)
                assert "\x07" not in text


def test_the_narrowest_terminal_still_says_how_to_get_help_and_out():
    for view in catalog.VIEWS:
        for acting in (True, False):
            assert keys.line(view, acting).startswith("? help  q quit  ")


def test_every_row_can_be_described():
    since = "2026-11-21T20:43:59Z"
    told = ConditionRow("", "APIServerStatus", "Established", since, "ready")
    known = session(
        peer(conditions=(told,)),
        nodes={"milan": NodeRow("milan", "milan", True, "", {"cpu": "4"}, 1, 0)},
        namespaces={
            "shop": NamespaceRow("shop", "Remote", "Ready", "shop-rome", {"milan": "ready"})
        },
        pods={
            "shop/web": PodRow("shop", "web", "milan", "Pending", False, "no room", peer="milan")
        },
    )
    rows = {
        Place("peers"): ("milan", ("milan is", f"Established since {since}", "pods: 3 out")),
        Place("peer", "milan"): ("api", ("milan is", "last heard of: 1 s ago")),
        Place("offloaded"): ("pod shop/web", ("shop/web is not ready", "why: no room")),
        Place("peer", "milan", "workloads"): ("node milan", ("cpu: 4",)),
    }
    for place, (key, texts) in rows.items():
        text = pages.describe(known, place, Row(key, ()), NOW)
        for each in texts:
            assert each in text, (place, text)
        # Names of fields are the program's own affair.
        assert "_" not in text, text
    assert "shop-rome" in pages.describe(
        known, Place("offloaded"), Row("namespace milan shop", ()), NOW
    )
    assert pages.describe(known, Place("peers"), Row("oslo", ()), NOW) == "this peer is gone"
    assert pages.describe(known, Place("log"), None, NOW) == "there is no row"
