"""The pure parts of the command line: tables, the text of ``status``, and what a Lease says."""

import pytest

from liqod.cli.common import table
from liqod.cli.presence import duration, verdict
from liqod.cli.render import render
from liqod.kube.leases import Lease, LeaseSpec
from liqod.kube.meta import ObjectMeta
from liqod.model import labels
from liqod.model.overview import Pod, Problem, Snapshot, overview
from liqod.resources import ForeignCluster, ResourceSlice, VirtualNode
from liqod.resources.authentication import SliceCondition, SliceSpec, SliceStatus
from liqod.resources.core import ForeignClusterSpec, ForeignClusterStatus, PeerCondition
from liqod.resources.nodes import VirtualNodeSpec

LONG = "x509: certificate signed by unknown authority, while trying to verify candidate " * 2


def lease(renewed: str, holder: str = "host-1") -> Lease:
    return Lease(spec=LeaseSpec(holder_identity=holder, renew_time=renewed))


@pytest.mark.parametrize(
    ("seen", "before", "says"),
    [
        (None, None, "none has run here yet"),
        (lease(""), None, "its Lease was never renewed"),
        (lease("1970-01-01T00:16:30Z"), None, ""),
        (lease("1970-01-01T00:10:00Z"), None, "last heard of 7 min ago"),
        (lease("1970-01-01T00:10:00Z", ""), None, "it was stopped 7 min ago"),
        (lease("1970-01-01T00:10:02Z"), lease("1970-01-01T00:10:00Z"), ""),
        (lease("1970-01-01T09:00:00Z"), None, ""),
    ],
    ids=["none", "never", "fresh", "old", "released", "renewed by another clock", "ahead"],
)
def test_a_lease_tells_whether_a_daemon_works(seen: Lease | None, before: Lease | None, says: str):
    assert verdict(seen, before, now=1000.0) == says


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (119, "119 s"), (120, "2 min"), (90000, "25 h"), (3e5, "3 d")]
)
def test_durations_have_one_unit(seconds: float, text: str):
    assert duration(seconds) == text


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
            Pod("shop", "web-1", "milan", "Pending", ready=False, reason=LONG),
            Pod("shop", "web-2", "milan", "Running", ready=True),
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


def test_without_a_terminal_nothing_is_wrapped():
    problem = Problem(1, "milan", LONG, "cure")
    view = overview(broken())
    assert view.detail is None
    shown = render(view, now=0.0)
    assert any(LONG in line for line in shown.splitlines())
    assert str(problem.what) in shown
