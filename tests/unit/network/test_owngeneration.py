"""The generation of a daemon follows the leader's Lease and its start, and the latest orders."""

from __future__ import annotations

import pytest

from liqod.kube.leases import LeaseTerm
from liqod.network.orders import greeting
from liqod.network.orders.greeting import Admitted, Denied, Generation, Greeting
from liqod.network.owngeneration import OwnGeneration


def test_of_two_daemons_the_one_started_later_is_the_later_one_until_the_first_leads():
    one, two = OwnGeneration(), OwnGeneration()
    assert one.now < two.now
    for each in (one, two):
        each.enter(LeaseTerm(100, 4, held=False))
    assert one.now < two.now
    one.enter(LeaseTerm(100, 5, held=True))
    assert one.now > two.now
    two.enter(LeaseTerm(100, 5, held=False))
    assert one.now > two.now


def test_who_leads_without_a_lease_is_later_than_who_has_read_none():
    one, two = OwnGeneration(), OwnGeneration()
    one.lead_alone()
    assert one.now > two.now
    two.lead_alone()
    assert one.now < two.now


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        # Of those that only stand by the one that was started later orders, as after an update.
        (Generation(100, 3, leads=False, started=7), Generation(100, 3, leads=False, started=8)),
        # A standby that was started later takes nothing from the leader.
        (Generation(100, 3, leads=False, started=8), Generation(100, 3, leads=True, started=7)),
        # A leader that has not noticed yet that another one leads.
        (Generation(100, 3, leads=True, started=8), Generation(100, 4, leads=True, started=7)),
        (Generation(100, 3, leads=True, started=8), Generation(100, 4, leads=False, started=7)),
        # The Lease was deleted, and made anew by the next leader.
        (Generation(100, 9, leads=True, started=8), Generation(250, 0, leads=True, started=7)),
        # One that has not read the Lease yet.
        (Generation(started=8), Generation(100, 0, leads=False, started=7)),
    ],
)
def test_who_leads_by_the_newest_lease_orders(older: Generation, newer: Generation):
    def answered(theirs: Generation, before: Generation) -> Admitted | Denied:
        return greeting.answer(Greeting(1, 1, "rome", theirs), "rome", before)

    assert answered(newer, older) == Admitted(1)
    assert isinstance(answered(older, newer), Denied)
