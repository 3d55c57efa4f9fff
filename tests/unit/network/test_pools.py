"""Allocation from pools: nothing twice, the first that is free, and the same after a new start."""

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liqod.errors import ConfigError
from liqod.network.ipam.pools import POOLS, Addresses, Prefixes


def test_a_range_that_is_free_is_kept() -> None:
    pools = Prefixes[str]()
    assert pools.allocate("milan", "10.71.0.0/16") == "10.71.0.0/16"
    assert pools.allocate("turin", "10.71.0.0/16") == "10.64.0.0/16"


def test_a_range_outside_the_pools_is_not() -> None:
    """Else a peer could draw any address of the world to itself."""
    assert Prefixes[str]().allocate("milan", "8.8.8.0/24") == "10.64.0.0/24"
    assert Prefixes[str]().allocate("milan", "2001:db8::/64") == "fd18:6c71:8000::/64"


def test_the_first_as_large_is_given_between_what_is_taken() -> None:
    pools = Prefixes[str](["10.0.0.0/14"])
    pools.take("own", "10.0.0.0/17", "10.2.3.0/24", "fd00::/64")
    assert pools.allocate("a", "192.168.0.0/16") == "10.1.0.0/16"
    assert pools.allocate("b", "192.168.0.0/17") == "10.0.128.0/17"
    assert pools.allocate("c", "192.168.0.0/16") == "10.3.0.0/16"
    assert pools.allocate("d", "192.168.0.0/24") == "10.2.0.0/24"
    pools.take("a")
    assert pools.allocate("e", "192.168.0.0/16") == "10.1.0.0/16"


def test_a_full_pool_says_what_to_do() -> None:
    pools = Prefixes[str](["10.0.0.0/15"])
    for name in ("a", "b"):
        pools.allocate(name, "10.244.0.0/16")
    with pytest.raises(ConfigError, match=r"10\.244\.0\.0/16 is free in 10\.0\.0\.0/15.*pools"):
        pools.allocate("c", "10.244.0.0/16")
    with pytest.raises(ConfigError, match="any pool of its family"):
        pools.allocate("c", "fd00::/64")


def test_there_is_room_for_many_peers() -> None:
    """Of which each has a /16 of pods and a range of other addresses, and all have the same."""
    pools = Prefixes[str]()
    pools.take("own", "10.244.0.0/16", "10.96.0.0/12", "10.70.0.0/20")
    for peer in range(128):
        pools.allocate(f"{peer} pods", "10.244.0.0/16")
        pools.allocate(f"{peer} others", "10.70.0.0/20")


LENGTHS = {4: st.integers(12, 26), 6: st.integers(40, 64)}
WANTED = st.sampled_from([4, 6]).flatmap(
    lambda family: st.tuples(
        st.integers(0, 2**32 - 1 if family == 4 else 2**128 - 1), LENGTHS[family], st.just(family)
    )
)


def prefix(number: int, length: int, family: int) -> str:
    """A prefix with a number's first bits."""
    make = ipaddress.IPv4Network if family == 4 else ipaddress.IPv6Network
    return str(make((number, length), strict=False))


@settings(max_examples=80)
@given(
    steps=st.lists(st.tuples(st.integers(0, 12), st.one_of(st.none(), WANTED)), max_size=30),
)
def test_no_two_ranges_overlap_and_a_new_start_gives_the_same(
    steps: list[tuple[int, tuple[int, int, int] | None]],
) -> None:
    pools = Prefixes[int](POOLS)
    have: dict[int, str] = {}
    for owner, wanted in steps:
        if wanted is None:
            pools.take(owner)
            have.pop(owner, None)
            continue
        asked = prefix(*wanted)
        have[owner] = pools.allocate(owner, asked)
        given = ipaddress.ip_network(have[owner])
        assert given.prefixlen == ipaddress.ip_network(asked).prefixlen
        assert pools.pooled(have[owner])
    networks = [ipaddress.ip_network(each) for each in have.values()]
    for at, one in enumerate(networks):
        for other in networks[at + 1 :]:
            assert one.version != other.version or not one.overlaps(other)
    again = Prefixes[int](POOLS)
    for owner, found in reversed(have.items()):
        again.take(owner, found)
    assert again.allocate(99, "10.244.0.0/16") == pools.allocate(99, "10.244.0.0/16")


def test_addresses_are_given_from_the_first_that_is_not_reserved() -> None:
    found = Addresses[str]("10.70.0.0/29", reserved=1)
    assert [found.allocate(each) for each in "abc"] == ["10.70.0.1", "10.70.0.2", "10.70.0.3"]
    assert found.allocate("b") == "10.70.0.2", "it has one"
    found.free("a")
    assert found.allocate("d") == "10.70.0.1"


def test_an_address_has_one_owner() -> None:
    found = Addresses[str]("10.70.0.0/29", reserved=1)
    assert found.take("a", "10.70.0.5") is None
    assert found.take("b", "10.70.0.5") == "a"
    for strange in ("10.70.0.0", "10.71.0.1", "10.69.255.255"):
        with pytest.raises(ValueError, match="none that"):
            found.take("b", strange)


def test_a_full_range_of_addresses() -> None:
    found = Addresses[int]("10.70.0.0/30", reserved=1)
    for owner in range(2):
        found.allocate(owner)
    # The last one is a broadcast to some; who has it from before keeps it.
    with pytest.raises(ConfigError, match=r"10\.70\.0\.0/30"):
        found.allocate(3)
    assert found.take(3, "10.70.0.3") is None
    six = Addresses[int]("fd00::/126", reserved=1)
    assert [six.allocate(owner) for owner in range(3)][-1] == "fd00::3"


@given(
    prefix=st.sampled_from(["10.70.0.0/27", "fd00::/123"]),
    steps=st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=60),
)
def test_no_address_is_given_twice(prefix: str, steps: list[tuple[int, bool]]) -> None:
    found = Addresses[int](prefix, reserved=1)
    have: dict[int, str] = {}
    for owner, wants in steps:
        if wants:
            have[owner] = found.allocate(owner)
        else:
            found.free(owner)
            have.pop(owner, None)
    assert len(set(have.values())) == len(have)
    again = Addresses[int](prefix, reserved=1)
    for owner, address in have.items():
        assert again.take(owner, address) is None
    assert again.allocate(99) == found.allocate(99)
