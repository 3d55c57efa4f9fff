"""The chart, made once for the tests of a process: it takes seconds, and its sources stay."""

from collections.abc import Iterator
from functools import cache

import pytest

from deploy import chart


@pytest.fixture(scope="session", autouse=True)
def chart_made_once() -> Iterator[None]:
    """Has :func:`deploy.chart.files` make the files once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chart, "files", cache(chart.files))
        yield
