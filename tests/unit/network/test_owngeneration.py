"""The generation of a daemon follows the leader's Lease, and its own start."""

from __future__ import annotations

from liqod.kube.leases import LeaseTerm
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
