"""The endpoints that stay ready though nothing gets through to their clusters."""

import pytest

from liqod.model.clusterset.exports import Endpoint, Export, Slice
from liqod.model.clusterset.keeping import NOTHING, Keeping, condition, keeping, kept
from tests.unit.model.clusterset.values import export

LAST = Keeping(last=True)


def of(cluster: str, *, ready: bool = True) -> Export:
    found = Slice("web", "IPv4", (), (Endpoint(("10.81.0.1",), ready=ready),))
    return export(cluster, slices=(found,))


@pytest.mark.parametrize(
    ("annotations", "wish"),
    [
        ({}, NOTHING),
        ({"liqod.io/keep-last-endpoints": "false"}, NOTHING),
        ({"liqod.io/keep-last-endpoints": "true"}, LAST),
    ],
)
def test_a_service_asks_by_its_annotation(annotations: dict[str, str], wish: Keeping) -> None:
    assert keeping(annotations) == wish


@pytest.mark.parametrize("value", ["", "True", "yes", "x" * 100_000])
def test_another_value_asks_for_nothing_and_is_told(value: str) -> None:
    wish = keeping({"liqod.io/keep-last-endpoints": value})
    assert not wish.last
    said = condition(wish, ())
    assert said is not None
    assert (said["status"], said["reason"]) == ("False", "InvalidAnnotation")
    assert len(said["message"]) < 200


@pytest.mark.parametrize(
    ("reached", "ready", "others", "wanted"),
    [
        ({"milan": False, "turin": False}, ("milan", "turin"), 0, ("milan", "turin")),
        ({"milan": False, "turin": True}, ("milan", "turin"), 0, ()),
        ({"milan": False, "turin": None}, ("milan", "turin"), 0, ()),
        ({"milan": False, "turin": True}, ("milan",), 0, ("milan",)),
        ({"milan": False, "turin": False}, ("milan", "turin"), 1, ()),
        ({"milan": False, "turin": False}, (), 0, ()),
    ],
)
def test_those_of_silent_clusters_stay_only_where_no_other_is_ready(
    reached: dict[str, bool | None], ready: tuple[str, ...], others: int, wanted: tuple[str, ...]
) -> None:
    exports = [of(each, ready=each in ready) for each in reached]
    assert kept(LAST, exports, reached, others) == wanted
    assert kept(NOTHING, exports, reached, others) == ()


def test_what_is_kept_is_told_and_nothing_else() -> None:
    assert condition(LAST, ()) is None
    said = condition(LAST, ("milan", "turin"))
    assert said is not None
    assert (said["status"], said["reason"]) == ("True", "NothingReached")
    assert "milan, turin" in said["message"]
