"""Readiness of a peer's pods and endpoints: by its tunnel, or else its API server."""

import pytest

from liqod.model.peering.reach import SERVER, THROUGH, TUNNEL, ReachFacts, unreachable

UNKNOWN = None


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize("asked", [True, False])
def test_a_tunnel_decides_whatever_the_api_server_does(asked, answers, settled):
    def said(stands):
        facts = ReachFacts(
            tunnel=True, connected=stands, probed=asked, answers=answers, settled=settled
        )
        return unreachable(facts)

    assert said(True) == THROUGH
    assert said(False) == (TUNNEL if settled else UNKNOWN)
    if not settled:
        assert said(None) is UNKNOWN


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (ReachFacts(probed=True, answers=True), THROUGH),
        (ReachFacts(probed=True, answers=False), SERVER),
        (ReachFacts(probed=True, answers=False, settled=True), SERVER),
        (ReachFacts(), UNKNOWN),
        (ReachFacts(settled=True), THROUGH),  # nothing is borrowed, and nobody asks
        (ReachFacts(tunnel=True, settled=True, probed=True, answers=False), SERVER),
        (ReachFacts(tunnel=True, settled=True, probed=True), THROUGH),
    ],
)
def test_where_no_tunnel_is_or_nobody_has_looked_at_it(facts, expected):
    assert unreachable(facts) == expected
