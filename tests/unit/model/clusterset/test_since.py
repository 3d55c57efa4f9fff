"""The times since when clusters export a Service."""

import pytest

from liqod.apimachinery import labels
from liqod.model.clusterset.since import not_before, noted, read, render
from tests.unit.model.clusterset.values import export

FIRST, LATER = "2026-11-28T10:00:01Z", "2026-11-28T10:00:02Z"


@pytest.mark.parametrize("times", [{}, {"milan": FIRST}, {"rome": LATER, "milan": FIRST}])
def test_what_is_written_is_read(times):
    assert read({labels.EXPORTED_SINCE: render(times)}) == times


def test_an_import_of_before_has_no_times():
    assert read({}) == {}


@pytest.mark.parametrize(("second", "created"), [(0, FIRST), (1, FIRST), (2, LATER)])
def test_an_export_is_no_older_than_it_was_told_to_be(second, created):
    assert not_before(export("rome", second), {"rome": FIRST}).created == created


def test_one_of_which_nothing_is_known_is_believed():
    assert not_before(export("rome", 1), {"milan": LATER}).created == FIRST


def test_the_time_of_an_export_that_has_ended_stays_and_the_own_one_is_not_kept():
    found = [export("turin", 2), export("rome", 1)]
    assert noted(found, {"milan": FIRST}, "rome") == {"milan": FIRST, "turin": LATER}
