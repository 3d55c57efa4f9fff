"""How a peer's daemon is by its Lease: what is known when, and whose clock says it."""

import pytest

from liqod.model.peering.heartbeat import Heartbeat, HeartbeatView, judge, observe

A, B, C = (Heartbeat("host-1", renewed) for renewed in ("a", "b", "c"))
STOPPED = Heartbeat("", "d")


def seen(*looks: tuple[float, Heartbeat, float | None]) -> HeartbeatView:
    """The observation after looks at times, each with the age by the server's clock."""
    sight: HeartbeatView | None = None
    for at, beat, ago in looks:
        sight = observe(sight, beat, at, ago)
    assert sight is not None
    return sight


@pytest.mark.parametrize(
    ("looks", "renewed", "quiet", "state"),
    [
        (((0, A, 1.0),), -1.0, 1.0, "unasked"),
        (((0, A, 1.0), (29, B, 2.0)), 27.0, 2.0, "runs"),
        # It died a second after the first look: the next one says how old that is.
        (((0, A, 1.0), (29, B, 28.0)), 1.0, 28.0, "runs"),
        (((0, A, 1.0), (29, B, 28.0), (50, B, 49.0)), 1.0, 49.0, "silent"),
        # Nobody tells the time: it has changed since the look before, and that is all.
        (((0, A, None), (29, B, None)), 0.0, 0.0, "runs"),
        (((0, A, None), (29, B, None), (39, B, None)), 0.0, 10.0, "runs"),
        # Two servers of one cluster, whose clocks differ by a minute.
        (((0, A, 1.0), (10, B, 61.0)), 0.0, 0.0, "runs"),
        (((0, A, 61.0), (10, B, 61.0), (20, C, 61.0)), 10.0, 0.0, "runs"),
        (((0, A, 1.0), (29, STOPPED, 3.0), (39, STOPPED, 13.0)), 26.0, 13.0, "unasked"),
        (((0, A, 1.0), (29, STOPPED, 3.0), (50, STOPPED, 24.0)), 26.0, 24.0, "silent"),
    ],
)
def test_a_renewal_is_as_old_as_its_own_server_says(looks, renewed, quiet, state):
    sight = seen(*looks)
    assert (sight.renewed, sight.quiet) == (renewed, quiet)
    assert judge(sight, looks[-1][0]).state == state
