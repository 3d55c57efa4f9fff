"""Who has to go for one more."""

import trio

from liqod.handshake.crowds import Crowd, source_of
from liqod.handshake.tls import called


async def test_for_one_more_the_oldest_of_whoever_has_most_goes() -> None:
    crowd = Crowd(most=4, of_one=3)
    many = [trio.CancelScope() for _ in range(4)]
    for scope in many:
        crowd.enter("many", scope)
    assert [scope.cancel_called for scope in many] == [True, False, False, False]
    first, second = trio.CancelScope(), trio.CancelScope()
    crowd.enter("first", first)
    crowd.enter("second", second)
    assert [scope.cancel_called for scope in many] == [True, True, False, False]
    assert not first.cancel_called
    assert len(crowd) == 4
    for scope in (*many, first, second):
        crowd.leave(scope)
    assert len(crowd) == 0


def test_whose_an_address_is() -> None:
    assert source_of("192.0.2.1") == source_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert source_of("2001:db8::1") == source_of("2001:db8::2%eth0") == "2001:db8::/64"
    assert source_of("") == ""


def test_what_is_called_can_be_told_from_other_uses_of_a_port() -> None:
    assert called("milan.example") == "liqod-peering.milan.example"
    assert called("10.0.0.1") == called("fd00::1") == "liqod-peering.liqod.internal"
    assert called("x" * 250) == "liqod-peering.liqod.internal"
