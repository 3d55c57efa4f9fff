"""The limits of a token bucket: a burst at once, and a rate from then on."""

from liqod.runtime.tokenbucket import TokenBucket


def test_so_many_go_at_once_and_so_many_a_second_from_then_on() -> None:
    bucket = TokenBucket(10.0, 20.0)
    assert sum(bucket.takes(5.0) for _ in range(100)) == 20
    assert sum(bucket.takes(6.0) for _ in range(100)) == 10
    assert sum(bucket.takes(1000.0) for _ in range(100)) == 20, "no more is kept than at first"


def test_who_is_refused_owes_nothing() -> None:
    bucket = TokenBucket(1.0, 1.0)
    assert [bucket.takes(0.0) for _ in range(50)] == [True] + 49 * [False]
    assert bucket.takes(1.0)


def test_what_is_taken_ahead_is_owed() -> None:
    bucket = TokenBucket(2.0, 3.0)
    assert [bucket.take(0.0) for _ in range(5)] == [0.0, 0.0, 0.0, 0.5, 1.0]
    assert bucket.take(100.0) == 0.0
    assert bucket.take(100.0, 6.0) == 2.0
    assert not bucket.takes(102.0)
    assert bucket.takes(102.5)
