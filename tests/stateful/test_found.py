"""Scripts that broke something once, as they were found (``make soak``), and what it was."""

import pytest

from tests.stateful.script import perform
from tests.stateful.steps import DropTenantNamespace, Peer, Put, Unpeer, Wait
from tests.stateful.troubles import Down, Jump, Kill, Storm

pytestmark = pytest.mark.long


def test_a_start_does_not_take_bounds_back_for_a_moment() -> None:
    # The wait for the quota controller was 0 by less than a rounding, and no bound is set before.
    perform(
        Put(kind="secret", name="a", value="b"),
        Kill(at="rome", turns=169),
        Peer(provider="turin"),
    )


def test_a_clock_that_jumps_back_takes_no_bounds_back() -> None:
    # The definitions looked younger than the quota controller's rounds to the next daemon.
    perform(Jump(seconds=-3600.0))


def test_a_peering_that_ended_unseen_ends_here_too() -> None:
    # The replicas went while the watches were away; that reading them is refused now says so.
    perform(
        Storm(provider="turin", kind="busy"),
        DropTenantNamespace(at="turin", peer="rome"),
    )


def test_a_clock_that_jumps_makes_no_node_silent() -> None:
    # A node whose Lease looked old was given up at once, taken back at once, and so on for ever.
    perform(Wait(0.3), Down(at="milan"), Jump(seconds=3600.0), Wait(3.0))


def test_a_connection_that_is_cut_before_it_is_served_is_closed() -> None:
    # One that was cancelled between its acceptance and its first step stayed open, and a watch over
    # it waited for ever.
    perform(Unpeer(at="milan", peer="rome"), Down(at="milan"))
