"""This cluster's announcements are signed, and those of others are verified."""

import time

import pytest
import time_machine

from liqod.advertsigner import OLD, PACE, SignedAdverts, left
from liqod.errors import ProtocolError
from liqod.identity import keys

PRIVATE = keys.generate()


def adverts(cluster: str = "milan", **more) -> SignedAdverts:
    more.setdefault("port", lambda: 6446)
    return SignedAdverts(cluster, more.pop("private", PRIVATE), **more)


def test_what_one_announces_another_reads():
    milan = adverts(addresses=("milan.example:6446", "[fd00::1]"), free=lambda: {"cpu": "4"})
    told = milan.announcement()
    assert told is not None
    assert told.addresses == ("milan.example:6446", "[fd00::1]")
    found = adverts("rome", private=keys.generate()).read(told.advert)
    assert (found.cluster_id, found.key) == ("milan", milan.key)
    assert found.addresses == ("milan.example:6446", "[fd00::1]:6446")
    assert found.free == {"cpu": "4"}
    assert found.serial == pytest.approx(time.time(), abs=60)


def test_a_changed_letter_is_found_out():
    told = adverts().announcement()
    assert told is not None
    head, payload, signature = told.advert.split(".")
    middle = len(payload) // 2
    other = "A" if payload[middle] != "A" else "B"
    with pytest.raises(ProtocolError):
        adverts().read(f"{head}.{payload[:middle]}{other}{payload[middle + 1 :]}.{signature}")


def test_nothing_is_announced_while_no_hand_shake_is_taken_and_nothing_is_told_unasked():
    port = [0]
    milan = adverts(port=lambda: port[0])
    assert milan.announcement() is None
    port[0] = 7000
    told = milan.announcement()
    assert told is not None
    assert told.port == 7000
    assert milan.read(told.advert).free == {}


def test_it_is_signed_anew_when_it_changes_and_when_it_is_old():
    free = {"cpu": "4"}
    milan = adverts(free=lambda: free)
    with time_machine.travel(1_000_000, tick=False) as clock:
        first = milan.announcement()
        assert milan.announcement() is first
        free = {"cpu": "2"}
        clock.shift(PACE)
        second = milan.announcement()
        assert second is not None
        assert second != first
        clock.shift(OLD + 1)
        third = milan.announcement()
        assert third is not None
        assert milan.read(third.advert).serial > milan.read(second.advert).serial


def test_many_grants_in_a_minute_are_one_advert():
    number = 0

    def free() -> dict[str, str]:
        nonlocal number
        number += 1
        return {"cpu": str(number)}

    milan = adverts(free=free)
    with time_machine.travel(1_000_000, tick=False) as clock:
        told = []
        for _ in range(600):  # ten minutes, looked at each second
            told.append(milan.announcement())
            clock.shift(1)
    assert len({each.advert for each in told if each is not None}) == 10
    assert number == 10


@pytest.mark.parametrize(
    ("granted", "expected"),
    [
        ([], {"cpu": "4", "memory": "8Gi"}),
        ([{"cpu": "1500m"}, {"cpu": "1", "memory": "2Gi"}], {"cpu": "1500m", "memory": "6Gi"}),
        ([{"cpu": "9", "example.org/gpu": "1"}], {"cpu": "0", "memory": "8Gi"}),
        ([{"cpu": "a lot"}], {"cpu": "4", "memory": "8Gi"}),
    ],
)
def test_what_is_free_is_what_nobody_was_granted(granted, expected):
    assert left({"cpu": "4", "memory": "8Gi"}, granted) == expected


def test_what_is_too_large_is_not_announced_and_said_once(caplog):
    names = tuple(f"{n}.{'x' * 60}.{'y' * 60}.{'z' * 60}.example:6446" for n in range(8))
    milan = adverts(addresses=names)
    assert milan.announcement() is None
    assert milan.announcement() is None
    assert len(caplog.records) == 1
    assert "announce fewer" in caplog.text
