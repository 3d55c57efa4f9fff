"""The view of room: no number is shown as known that may be wrong; what waits says why."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from liqod.inspect.protocol import ExplainPod
from liqod.model.view.roomrows import MOST_NODES, MOST_WAITS, NodeRoom, RoomSums, WaitGroup
from liqod.model.view.rows import CheckRow, Ladder, Pulse
from liqod.model.view.state import LiveState
from tests.unit.model.states import NOW, state
from tests.unit.model.states import peer as peer_row
from tests.unit.tui.driven import answers, asked, run
from tests.unit.tui.links import FakeLink
from tests.unit.tui.rooms import HERE, MARK, MILAN, THERE, scene
from tests.unit.tui.screens import Terminal
from tests.unit.tui.sessions import after, hello, snapshot
from tests.unit.tui.tables import shown, words
from tui import commands, keys, pages
from tui.session import Session
from tui.table import Order, Place, Row, Table, arrange, widths
from tui.views import catalog
from tui.views.room import HOME_UNTOLD, OLDER, UNTOLD


def known(of: LiveState) -> Session:
    return after(hello(), snapshot(of))


def look(of: LiveState, part: str = "", peer: str = "") -> Table:
    return shown(known(of), "room", peer, part)


def row(table: Table, key: str) -> Row:
    return next(each for each in table.rows if each.key == key)


def test_room_is_what_each_peer_tells_with_its_groups_below() -> None:
    table = look(scene())
    assert [each.key for each in table.rows] == [
        *("home", "node milan", "group milan 0", "group milan 1", "node turin"),
    ]
    milan = [cell.text for cell in row(table, "node milan").cells]
    assert milan == [
        *("milan", "✓", "cpu 8 memory 16Gi", "cpu 10 memory 40Gi", "cpu 3 memory 8Gi"),
        *("5 min", ""),
    ]
    assert words(row(table, "group milan 1")) == (
        "  1 machine zone=b cpu 1 cpu 1 memory 1Gi gpu=yes:NoSchedule"
    )
    assert table.notes[0].text == "14 pods waiting: 2 here, 12 at peers · 1 mark of returned pods"
    assert row(table, "node milan").into == Place("peer", "milan", "resources")


def test_a_peer_that_tells_nothing_has_no_number_but_its_grant() -> None:
    table = look(scene())
    turin = [cell.text for cell in row(table, "node turin").cells]
    assert turin == ["turin", "✓", "cpu 4 memory 8Gi", "not known", "–", "–", UNTOLD]
    home = [cell.text for cell in row(table, "home").cells]
    assert home == ["this cluster", "✓", "cpu 16", "not known", "–", "–", HOME_UNTOLD]


STALE = Ladder("milan", (CheckRow("replication", "it", "failing", NOW - 60, "nothing is written"),))


@pytest.mark.parametrize(
    ("milan", "tables", "said"),
    [
        ({"link": "down", "reason": "no answer"}, {}, "milan is down: no answer"),
        ({"failure": "it broke"}, {}, "milan is failed: it broke"),
        ({"state": "leaving"}, {}, "milan is leaving"),
        ({"link": "idle"}, {}, "milan is not reached"),
        ({}, {"pulses": {"milan": Pulse(heard=NOW - 30)}}, "milan is silent"),
        ({"daemon": "no renewal for 60 s"}, {}, "milan's daemon does not run: no renewal for 60 s"),
        ({"daemon": "not known"}, {}, "the state of milan's daemon is not known"),
        ({}, {"ladders": {"milan": STALE}}, "nothing new comes from milan: nothing is written"),
        (
            {},
            {"rooms": {"milan": msgspec.structs.replace(MILAN, not_told_since=NOW - 200)}},
            "not told for 3 min",
        ),
        ({}, {"peers": {}}, "milan is no peer any more"),
    ],
)
def test_a_word_that_may_be_wrong_by_now_is_not_shown_as_known(
    milan: dict[str, Any], tables: dict[str, Any], said: str
) -> None:
    of = msgspec.structs.replace(scene(milan=milan), **tables)
    table = look(of)
    cells = [cell.text for cell in row(table, "node milan").cells]
    assert (cells[1], cells[3:5]) == ("?", ["not known", "–"])
    assert cells[6] == f"{said}: what it told before may be wrong"
    assert not any(each.key.startswith("group milan") for each in table.rows)
    text = pages.describe(known(of), Place("room"), row(table, "node milan"), NOW)
    assert f"  {said}; the last word, which may be wrong by now:\n  free: cpu 10" in text


def test_a_node_that_is_not_ready_says_why() -> None:
    room = msgspec.structs.replace(MILAN, message="there is no such Node", allocatable={})
    milan = row(look(scene(rooms={"milan": room})), "node milan")
    assert [cell.text for cell in milan.cells][1:3] == ["✗", "not known"]
    assert milan.cells[-1].text == "there is no such Node"


def test_a_peer_without_a_virtual_node_is_not_left_out() -> None:
    assert "turin" not in words(row(look(scene()), "node milan"))
    table = look(scene(rooms={"": NodeRoom(), "milan": MILAN}))
    assert words(row(table, "peer turin")).endswith("it has no virtual node")


def test_an_older_daemon_tells_nothing_and_that_is_not_nothing_waits() -> None:
    for part in ("", "waiting", "returned"):
        table = look(scene(room=None, rooms={}, waits={}, avoided={}), part)
        assert (table.rows, table.empty) == ((), OLDER)


def test_pods_that_wait_say_where_for_how_long_and_why() -> None:
    table = look(scene(), "waiting")
    assert [[cell.text for cell in each.cells] for each in table.rows] == [
        ["2", "shop/StatefulSet big", "here", "90 s", "Unschedulable", HERE.message],
        [
            *("12", "shop/ReplicaSet web", "milan", "30 s", "ImageUnavailable"),
            "returns soon: no such image",
        ],
    ]
    assert [each.key for each in look(scene(), "waiting", "milan").rows] == ["pod shop/web-1"]
    told = pages.describe(known(scene()), Place("room"), table.rows[0], NOW)
    assert "`e`, or liqod explain pod big-0 -n shop" in told
    assert "2 pods of shop/StatefulSet big wait in this cluster, without a node" in told


def test_pods_that_wait_at_a_peer_that_is_gone_say_so_first() -> None:
    rows = look(scene(milan={"link": "down", "reason": "no answer"}), "waiting").rows
    assert [each.cells[-1].text for each in rows] == [
        HERE.message,
        "milan is down: no answer; before that: returns soon: no such image",
    ]


def test_marks_say_for_how_much_longer_and_what_ends_them_before() -> None:
    (only,) = look(scene(), "returned").rows
    assert [cell.text for cell in only.cells] == [
        *("shop/ReplicaSet web", "milan", "2", "60 s", "9 min", "Unschedulable"),
        "no machine; sooner if milan has cpu 4 free",
    ]
    assert only.into == Place("peer", "milan")
    told = pages.describe(known(scene()), Place("room"), only, NOW)
    assert "kubectl annotate namespaceoffloading offloading -n shop liqod.io/returned-" in told
    over = msgspec.structs.replace(MARK, until=NOW - 1)
    (ended,) = look(scene(avoided={"shop/u/milan": over}), "returned").rows
    assert "ends" in words(ended)


def test_rows_are_filtered_and_sorted_by_their_numbers() -> None:
    waiting = look(scene(), "waiting")
    assert [each.key for each in arrange(waiting, "image").rows] == ["pod shop/web-1"]
    by_pods = arrange(waiting, order=Order(0, descending=True))
    assert [each.cells[0].text for each in by_pods.rows] == ["12", "2"]
    small = msgspec.structs.replace(MILAN, free={"cpu": "900m"}, groups=())
    rooms = {"small": small, "large": msgspec.structs.replace(MILAN, groups=())}
    found = arrange(look(scene(rooms=rooms)), order=Order(3))
    assert [each.key for each in found.rows][:2] == ["node small", "node large"]


def test_what_is_left_out_is_counted() -> None:
    sums = RoomSums(nodes=MOST_NODES + 4, here=10_000, waits=10_000)
    rooms = {"": NodeRoom()} | {f"n{n:04}": MILAN for n in range(MOST_NODES)}
    notes = [each.text for each in look(scene(rooms=rooms, room=sums)).notes]
    assert notes[1] == "4 virtual nodes more, not shown"
    waits = {f"shop/{n}": WaitGroup("shop", f"{n}") for n in range(MOST_WAITS)}
    of = scene(waits=waits, room=sums)
    assert look(of, "waiting").notes[1].text == f"{10_000 - MOST_WAITS} rows more, not shown"


def test_names_of_others_are_fit_for_a_terminal() -> None:
    evil = "a\x1b[2J\nb"
    waits = {"shop/web": WaitGroup(evil, evil, evil, 1, evil, evil, evil, evil)}
    of = scene(
        rooms={evil: msgspec.structs.replace(MILAN, peer=evil, message=evil, free={evil: evil})},
        waits=waits,
        avoided={evil: msgspec.structs.replace(MARK, peer=evil, message=evil, owner=evil)},
    )
    for part in ("", "waiting", "returned"):
        for each in look(of, part).rows:
            assert all(cell.text.isprintable() for cell in each.cells)
            text = pages.describe(known(of), Place("room"), each, NOW)
            assert "\x1b" not in text


@pytest.mark.parametrize("part", ["free", "waiting", "returned"])
@pytest.mark.parametrize("room", [40, 80, 200])
def test_a_narrow_terminal_keeps_the_columns_that_matter(part: str, room: int) -> None:
    table = look(scene(), part)
    fitted = widths(table, room)
    assert sum(fitted) + 2 * (sum(map(bool, fitted)) - 1) <= room
    assert all(width for width, each in zip(fitted, table.columns, strict=True) if not each.rank)


def test_its_key_opens_it_and_arrows_turn_its_tabs() -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(scene())
        await screen.press("r")
        assert "tab: [free] waiting returned" in screen.text()
        assert "cpu 10 memory 40Gi" in screen.text()
        await screen.press("right")
        assert "returns soon: no such image" in screen.text()
        await screen.press("right")
        assert "sooner if milan has cpu 4 free" in screen.text()
        await screen.type(":room milan")
        assert "node turin" not in screen.text()
        assert "turin" not in "\n".join(screen.lines()[4:-2])
        await screen.press("d")
        assert "liqod explain node" in screen.text() or "allocatable" in screen.text()

    run(scenario, size=(120, 24))


def test_the_verdicts_of_nodes_are_asked_for_a_pod_of_the_row() -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(scene())
        await screen.press("r", "right", "e")
        assert "explain shop/big-0" in screen.text()
        assert "not to milan:" in screen.text()
        await screen.press("escape", "left", "e")
        assert len(asked(screen, ExplainPod)) == 1
        await screen.press("q")

    run(scenario, links=[FakeLink(answers)], size=(120, 24))


def test_a_peer_is_completed_and_narrows_the_view() -> None:
    session = known(scene())
    assert commands.completions("room m", session) == ["room milan"]
    assert commands.read("room milan") == commands.Go(Place("room", "milan"))
    assert commands.completions("roo", session) == ["room"]


def test_the_view_is_offered_with_a_key_of_its_own() -> None:
    taken = [each.key for each in keys.ALL] + [v.key for v in catalog.VIEWS.values() if v.key]
    assert len(taken) == len(set(taken))
    assert catalog.named("waiting") is None
    assert catalog.named("room") is catalog.VIEWS["room"]
    assert catalog.VIEWS["room"] in catalog.offered(known(state(peer_row())))
    assert THERE.step == "Unknown"
