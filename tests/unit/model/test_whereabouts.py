"""How to start a daemon, and where it answers, by what its Lease notes."""

import pytest

from liqod.apimachinery import labels
from liqod.model.view.whereabouts import Whereabouts, daemon_step, noted, read, start


@pytest.mark.parametrize(
    ("found", "how", "where"),
    [
        (Whereabouts(), "start `liqod run`", ""),
        (
            Whereabouts(host="rome-1"),
            "start `liqod run` on rome-1",
            "it runs on rome-1: `liqod events` there",
        ),
        (
            Whereabouts(host="rome-1", unit="liqod@rome.service"),
            "`systemctl start liqod@rome.service` on rome-1",
            "it runs on rome-1: `liqod events` there",
        ),
        (
            Whereabouts(host="liqod-7", pod=True),
            "see `kubectl -n liqo rollout status deployment liqod`",
            "it runs in the cluster: `kubectl -n liqo exec -it deployment/liqod -- liqod events`",
        ),
    ],
)
def test_what_fits_how_it_runs_is_said(found: Whereabouts, how: str, where: str):
    assert read(noted(found)) == found
    assert start(found, "liqo") == how
    assert daemon_step(found, "liqo", "events") == where


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"host": 7}'])
def test_what_cannot_be_read_says_nothing(text: str):
    assert read({labels.RUNS_AT: text}) == Whereabouts()
    assert read({}) == Whereabouts()
