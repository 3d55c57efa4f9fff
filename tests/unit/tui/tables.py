"""A view's table as text, and a network to show in it, for tests."""

from __future__ import annotations

from liqod.model.view.networkfacts import NetworkFacts, NodeWay, PodTrip
from tests.unit.model.states import NOW
from tui.session import Session
from tui.table import Place, Row, Table
from tui.views.catalog import VIEWS

NETWORK = NetworkFacts(
    backend="wireguard", side="client", path="userspace", endpoint="198.51.100.2:51840",
    candidates=("198.51.100.2:51840",), echo=0.0, rtt=0.001, loss=0.02, mtu=1340, passes=1300,
    received=2_500_000, sent=10, missing=("route a set, 3 times in a minute", "route b"),
    nodes=(NodeWay("n2", told=1.0), NodeWay("n3", ("route",))), strangers=3,
    aliases=("10.244.0.0/16 as 10.71.0.0/16",),
    pods=PodTrip(3.0, 0.001, "", "10.0.0.1 to 10.1.0.1"),
)  # fmt: skip


def shown(known: Session, view: str, subject: str = "", part: str = "") -> Table:
    """A view's table."""
    return VIEWS[view].build(known, Place(view, subject, part), NOW)


def words(row: Row) -> str:
    """The text of a row."""
    return " ".join(cell.text for cell in row.cells if cell.text)
