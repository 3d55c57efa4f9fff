"""The pure parts of the command line: tables, the text of ``status``, and what a Lease says."""

import json
import os
import signal
import subprocess
import sys
import time
from datetime import datetime

import msgspec
import pytest

from liqod import __version__
from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.cli import app, statustext
from liqod.cli.commands.events import line
from liqod.cli.output import pick, table
from liqod.cli.presence import verdict
from liqod.cli.report import Seen, figures, from_daemon, overview
from liqod.cli.statustext import render
from liqod.errors import Unreachable
from liqod.kube.leases import Lease, LeaseSpec, Look
from liqod.model.view.daemonfacts import ProcessFacts, SightingFacts
from liqod.model.view.figures import span
from liqod.model.view.problems import Problem
from liqod.model.view.rows import EventRow, NamespaceRow, NodeRow, PeerRow, PodRow, Slice, SliceRow
from liqod.model.view.snapshot import PodSummary, Snapshot
from liqod.model.view.state import LiveState
from liqod.resources import ForeignCluster, ResourceSlice, VirtualNode
from liqod.resources.authentication import SliceCondition, SliceSpec, SliceStatus
from liqod.resources.core import ForeignClusterSpec, ForeignClusterStatus, PeerCondition
from liqod.resources.nodes import VirtualNodeSpec
from tests.unit.model.states import NOW, peer, state

EARLY, LATER = "1970-01-01T00:10:00Z", "1970-01-01T00:10:02Z"
LONG = "x509: certificate signed by unknown authority, while trying to verify candidate " * 2


def look(renewed: str, ago: float | None = None, holder: str = "host-1") -> Look:
    return Look(Lease(spec=LeaseSpec(holder_identity=holder, renew_time=renewed)), ago)


@pytest.mark.parametrize("path", ["rows.2", "rows.-3", "rows.²", "rows.--1", "rows.0.x", "none"])
def test_what_cannot_be_picked_is_named(path: str):
    value = {"rows": ["a", "b"]}
    assert pick(value, "rows.-1") == "b"
    with pytest.raises(KeyError, match="there is no"):
        pick(value, path)


@pytest.mark.parametrize(
    ("seen", "before", "says"),
    [
        (None, None, "none has run here yet"),
        (look(""), None, "its Lease was never renewed"),
        (look(EARLY, 10.0), None, ""),
        (look(EARLY, 420.0), None, "last heard of 7 min ago"),
        (look(EARLY, 420.0, ""), None, "it was stopped 7 min ago"),
        (look(LATER, 420.0), look(EARLY, 400.0), ""),
        (look("1970-01-01T09:00:00Z", 75.0), None, "last heard of 75 s ago"),
        (look(EARLY), None, ""),
        (look(EARLY), look(EARLY), "its Lease is not renewed"),
        (look(LATER), look(EARLY), ""),
    ],
    ids=[
        *("none", "never", "fresh", "old", "released", "seen to change", "its clock is ahead"),
        *("no dates", "no dates, no change", "no dates, a change"),
    ],
)
def test_a_lease_tells_whether_a_daemon_works(seen: Look | None, before: Look | None, says: str):
    assert verdict(seen, before) == says


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (119, "119 s"), (120, "2 min"), (90000, "25 h"), (3e5, "3 d")]
)
def test_durations_have_one_unit(seconds: float, text: str):
    assert span(seconds) == text


def test_the_last_column_is_wrapped_where_the_terminal_ends():
    rows = [["milan", "one two three four five six seven eight"], ["turin", ""]]
    assert table(rows, ["PEER", "WHY"], width=32) == (
        "PEER   WHY\nmilan  one two three four five\n       six seven eight\nturin"
    )
    assert "five six seven" in table(rows, ["PEER", "WHY"])


def broken() -> Snapshot:
    """A peer that is down, with a denied slice and a pod that waits."""
    down = PeerCondition(
        type="APIServerStatus",
        status="Error",
        message=LONG,
        last_transition_time="1970-01-01T00:00:00Z",
    )
    denied = SliceCondition(type="Resources", status="Denied", message="too much")
    return Snapshot(
        cluster_id="rome",
        leader="host-1",
        leader_age=1.0,
        webhook=LONG,
        foreign_clusters=(
            ForeignCluster(
                metadata=ObjectMeta(name="milan"),
                spec=ForeignClusterSpec(cluster_id="milan"),
                status=ForeignClusterStatus(role="ConsumerAndProvider", conditions=(down,)),
            ),
        ),
        slices=(
            ResourceSlice(
                metadata=ObjectMeta(name="gpus"),
                spec=SliceSpec(provider_cluster_id="milan", resources={"cpu": "4"}),
                status=SliceStatus(conditions=(denied,)),
            ),
            ResourceSlice(
                metadata=ObjectMeta(
                    name="rome",
                    labels={labels.REPLICATED: "true", labels.ORIGIN_ID: "milan"},
                    annotations={labels.CORDON: "true"},
                ),
            ),
            ResourceSlice(
                metadata=ObjectMeta(name="other"), spec=SliceSpec(provider_cluster_id="turin")
            ),
        ),
        virtual_nodes=(
            VirtualNode(
                metadata=ObjectMeta(name="milan"), spec=VirtualNodeSpec(cluster_id="milan")
            ),
        ),
        pods=(
            PodSummary("shop", "web-1", "milan", "Pending", ready=False, reason=LONG),
            PodSummary("shop", "web-2", "milan", "Running", ready=True),
        ),
        nodes={"milan": LONG},
    )


def test_everything_fits_eighty_columns_and_problems_come_worst_first():
    view = overview(broken(), "milan")
    assert [problem.rank for problem in view.problems] == sorted(p.rank for p in view.problems)
    text = render(view, 80, now=7200.0)
    assert max(map(len, text.splitlines())) <= 80, text
    assert text.index("problems, worst first") < text.index("PEER ")
    assert "APIServerStatus  Error   2 h  x509" in text
    assert "gpus   borrowed   waiting   Denied             Resources: too much" in text
    assert "rome   lent       waiting   waiting, cordoned" in text
    assert "other" not in text
    assert "shop/web-1" in text
    assert "shop/web-2" not in text


def test_what_the_daemon_adds_has_a_table_of_its_own_where_there_is_no_room():
    view = overview(broken(), "milan")
    for width in (80, 120, 0):
        text = render(
            view, width, now=7200.0, live=figures(Seen("rome", NOW, state(peer("milan"))))
        )
        assert not width or max(map(len, text.splitlines())) <= width, text
        together = "MET BY      RTT     HEARD" in text
        assert together == (width != 80), text
        assert "2.0 ms" in text


def test_what_may_not_be_read_is_not_said_to_be_nothing():
    refused = Snapshot(cluster_id="rome", unread=("foreignclusters", "nodes"))
    text = render(overview(refused), now=0.0)
    assert "this is not all: foreignclusters, nodes cannot be read" in text
    assert "no peers yet" not in text
    assert "no peers yet" in render(overview(Snapshot(cluster_id="rome")), now=0.0)


def test_an_event_of_another_day_has_its_date():
    event = EventRow(1, NOW, "peer.link", "milan", {"up": True})
    assert line(event, NOW).split() == [
        line(event, NOW).split()[0],
        "milan",
        "peer.link",
        "up=true",
    ]
    day, _ = line(event, NOW + 3 * 86400).split(maxsplit=1)
    assert day == datetime.fromtimestamp(NOW).date().isoformat()


def test_of_very_many_clusters_that_are_seen_status_shows_some_and_counts_the_rest() -> None:
    number = statustext.MOST_SEEN + 980
    rows = tuple(SightingFacts(f"cluster-{each:04}", "http-peers") for each in range(number))
    text = statustext.seen_clusters(rows, 100)
    assert len(text.splitlines()) == statustext.MOST_SEEN + 2
    assert text.endswith("and 980 more: `liqod discover` lists them")
    assert "more" not in statustext.seen_clusters(rows[: statustext.MOST_SEEN], 100)


def test_what_a_daemon_remembers_is_shown_as_what_the_custom_resources_say():
    node = NodeRow("milan", "milan", ready=False, message=LONG, resources={}, pods=1, pods_ready=0)
    pod = PodRow("shop", "web", "milan", "Pending", ready=False, reason="no room", peer="milan")
    namespace = NamespaceRow("shop", "Remote", "Ready", "shop-rome", {"milan": "ready"})
    part = Slice("gpus", "lent", "default", {}, {"cpu": "4"}, "Accepted", "", "", False, "milan")
    own = Problem(2, "turin", "a slice is denied", "ask the provider")
    seen = Seen(
        "rome",
        NOW,
        state(
            *(peer("milan"), peer("turin")),
            daemon=ProcessFacts(state="leading", webhook="reachable"),
            nodes={"milan": node},
            pods={"shop/web": pod},
            namespaces={"shop": namespace},
            slices={"tenant/gpus": part},
            problems=(own,),
        ),
    )
    gone = Unreachable("https://rome: connection refused")
    view = from_daemon(seen, "", gone)
    assert (view.source, view.daemon, view.webhook) == ("daemon", "running, leading", "reachable")
    assert [row.id for row in view.peers] == ["milan", "turin"]
    assert {type(row) for row in view.peers} == {PeerRow}
    assert view.problems[0].what == f"the custom resources cannot be read: {gone}"
    assert view.problems[1:] == (own,)
    text = render(view, now=NOW, live=figures(seen))
    assert "\n\nturin: a slice is denied\n" in text
    assert "2.0 ms" in text

    one = from_daemon(seen, "milan", gone)
    assert own not in one.problems
    assert one.detail is not None
    assert [row.why for row in one.detail.waiting] == ["no room"]
    assert [type(row) for row in one.detail.slices] == [SliceRow]
    assert "shop/web" in render(one, now=NOW)

    idle = Seen("rome", NOW, LiveState())
    nothing = render(from_daemon(idle, "", gone), now=NOW, live=figures(idle))
    assert "the daemon is starting" in nothing
    assert "no peers yet" not in nothing


def test_without_a_terminal_nothing_is_wrapped():
    problem = Problem(1, "milan", LONG, "remedy")
    view = overview(broken())
    assert view.detail is None
    shown = render(view, now=0.0)
    assert any(LONG in line for line in shown.splitlines())
    assert str(problem.what) in shown


def test_a_verb_imports_no_more_than_it_needs():
    look = (
        "import sys; from liqod.cli.app import tree; tree(['peer']); "
        "print(sorted(name for name in sys.modules if name.startswith('liqod.cli.')))"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    modules = [
        *(
            "app",
            "channels",
            "clusters",
            "commands",
            "commands.peer",
            "completion",
            "files",
            "frame",
        ),
        *(
            "meet",
            "options",
            "output",
            "presence",
            "progressdisplay",
            "terminal",
            "timings",
            "typed",
        ),
    ]
    assert done.stdout.strip() == str([f"liqod.cli.{name}" for name in modules])


HEAVY = {"asyncio", "kubernetes", "prometheus_client", "pydantic", "rich", "textual", "websockets"}
"""Modules that take long to import, or much memory, for other programs or seldom needs."""
WEBSOCKET = {"trio_websocket", "wsproto", "h11"}
DAEMONS = {"liqod.daemon", "simulator", "liqod.inspect.inspector"}


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        ("run --help", {"typer", "liqod.cli", "simulator"}),
        ("version", {*WEBSOCKET, *DAEMONS}),
        ("status --help", {*WEBSOCKET, *DAEMONS}),
        ("peer --help", {*WEBSOCKET, *DAEMONS, "cryptography", "liqod.cluster.context", "pluggy"}),
        ("doctor --help", {*DAEMONS, "cryptography", "pluggy"}),
    ],
)
def test_a_start_imports_nothing_heavy(words: str, absent: set[str]):
    look = (
        "import atexit, sys; from liqod.__main__ import main; "
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", look, *words.split()], capture_output=True, text=True, check=True
    )
    loaded = set(done.stderr.split())
    assert "liqod.__main__" in loaded
    assert not loaded & (HEAVY | absent)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"n\n", "liqod: nothing was changed"),
        (b"", "liqod: interrupted"),
        (b"y\n", "cannot read the kubeconfig /nowhere"),
    ],
)
def test_who_is_asked_may_take_longer_than_the_command(answer: bytes, said: str):
    """At a terminal; the time that the command has begins with the answer, be it Ctrl-C."""
    words = ("delete", "peering-user", "--consumer-cluster-id", "rome", "--timeout", "0.3")
    ours, theirs = os.openpty()
    program = (sys.executable, "-m", "liqod", *words, "--kubeconfig", "/nowhere")
    with subprocess.Popen(program, stdin=theirs, stderr=subprocess.PIPE) as asked:
        os.close(theirs)
        assert asked.stderr is not None
        shown = b""
        while b"Go on?" not in shown:
            shown += os.read(asked.stderr.fileno(), 4096)
        time.sleep(0.5)
        if answer:
            os.write(ours, answer)
        else:
            asked.send_signal(signal.SIGINT)
        shown += asked.stderr.read()
    os.close(ours)
    assert asked.returncode == (1 if answer else 128 + signal.SIGINT)
    assert said in shown.decode()
    assert "Traceback" not in shown.decode()


def test_every_verb_is_in_the_help():
    done = subprocess.run(
        [sys.executable, "-m", "liqod", "--help"], capture_output=True, text=True, check=True
    )
    for command in app.COMMANDS:
        assert f"\n  {command.split()[0]} " in done.stdout
    assert "..." not in done.stdout.partition("Commands:")[2], "a sentence is cut"


def test_the_version_is_told_both_ways(capsys: pytest.CaptureFixture[str]):
    assert app.main(["version"]) == app.main(["--version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second == f"liqod {__version__}"
    assert app.main(["version", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"version": __version__}


def test_the_live_view_needs_a_terminal():
    program = (sys.executable, "-m", "liqod", "top", "--socket", "/nowhere")
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "liqod top: it needs a terminal" in done.stderr


def test_the_table_of_nodes_has_no_number_where_the_node_is_not_known():
    grant = {"cpu": "4", "pods": "10"}
    row = NodeRow("milan", "milan", True, "", {"cpu": "1500m", "pods": "3"}, 2, 2, granted=grant)
    view = msgspec.structs.replace(overview(Snapshot(cluster_id="rome")), nodes=(row,))
    assert "milan         milan  Ready   2/2         1500m  -       3" in render(view, now=0.0)
    unknown = msgspec.structs.replace(row, ready=False, resources={})
    text = render(msgspec.structs.replace(view, nodes=(unknown,)), now=0.0)
    assert "milan         milan  NotReady  2/2         -    -       -" in text
