"""What is published of one peer to another, and the addresses for it."""

import trio
import trio.testing

from liqod.cluster.transitaddresses import MOST, REFLECTION, Passage, TransitAddresses
from liqod.model.network.ranges import MOST_TRANSIT

HOST = "10.72.0.5"
WAY = Passage("milan", "turin", HOST)


def known() -> TransitAddresses:
    return TransitAddresses([("milan", "turin")])


def test_a_pair_is_allowed_both_ways_and_nobody_else():
    found = known()
    assert found.allows("milan", "turin")
    assert found.allows("turin", "milan")
    assert not found.allows("milan", "milan")
    assert not found.allows("milan", "oslo")
    assert not TransitAddresses().allows("milan", "turin")


def test_what_is_not_allowed_is_not_wanted():
    found = known()
    found.publish("web", "oslo", [("turin", HOST)])
    found.publish("web", "milan", [("milan", HOST), ("oslo", HOST)])
    assert found.wanted() == ()
    assert found.refusal("oslo", "turin", HOST) == "[network] transit does not name oslo and turin"


def test_an_address_is_known_once_it_is_given():
    found = known()
    found.publish("web", "milan", [("turin", HOST)])
    assert found.wanted() == (WAY,)
    assert found.address("milan", "turin", HOST) is None
    assert found.refusal("milan", "turin", HOST) == "it has no address for milan yet"
    assert found.awaits("milan", "turin", HOST)
    assert (found.users("milan"), found.users("turin")) == ({"web"}, set())
    found.give("milan", {WAY: "10.70.0.9"})
    assert found.address("milan", "turin", HOST) == "10.70.0.9"
    assert found.refusal("milan", "turin", HOST) == ""
    assert not found.awaits("milan", "turin", HOST)
    assert not found.awaits("milan", "oslo", HOST)
    assert found.address("turin", "milan", HOST) is None
    assert found.address("milan", "oslo", HOST) is None
    found.give("milan", {})
    assert found.address("milan", "turin", HOST) is None


def test_it_is_wanted_until_the_last_object_has_released_it():
    found = known()
    found.publish("one", "milan", [("turin", HOST)])
    found.publish("two", "milan", [("turin", HOST), ("turin", "10.72.0.6")])
    found.release("one", "milan")
    assert WAY in found.wanted()
    found.publish("two", "milan", [("turin", "10.72.0.6")])
    assert found.wanted() == (Passage("milan", "turin", "10.72.0.6"),)
    found.release("two", "milan")
    found.release("two", "milan")
    assert found.wanted() == ()


def test_a_pair_is_bounded_in_each_direction():
    found = known()
    every = [("turin", f"10.72.{number >> 8}.{number & 255}") for number in range(MOST)]
    found.publish("many", "milan", every)
    found.publish("late", "milan", [("turin", "10.72.99.9")])
    found.publish("back", "turin", [("milan", HOST)])
    late = Passage("milan", "turin", "10.72.99.9")
    assert len(found.wanted()) == MOST + 1
    assert not found.wants(late)
    assert not found.awaits("milan", "turin", "10.72.99.9")
    why = f"{MOST} endpoints at turin are published to milan already"
    assert found.refusal("milan", "turin", "10.72.99.9") == why
    found.publish("many", "milan", every[1:])
    assert found.wants(late)
    assert len(found.wanted()) == MOST + 1


def test_all_pairs_together_are_bounded():
    peers = [f"peer{number}" for number in range(MOST_TRANSIT // MOST + 1)]
    found = TransitAddresses([("milan", each) for each in peers])
    for peer in peers:
        every = [(peer, f"10.72.{number >> 8}.{number & 255}") for number in range(MOST)]
        found.publish(peer, "milan", every)
    last = peers[-1]
    assert len(found.wanted()) == MOST_TRANSIT
    why = f"{MOST_TRANSIT} endpoints at peers are published to other peers already"
    assert found.refusal("milan", last, "10.72.0.1") == why
    found.release(peers[0], "milan")
    assert len(found.wanted()) == MOST_TRANSIT
    assert found.wants(Passage("milan", last, "10.72.0.1"))


async def test_who_waits_is_notified_of_changes_alone():
    found = known()
    heard: list[str] = []

    async def hear() -> None:
        while True:
            await found.wait_changed()
            heard.append("given")

    async def wish() -> None:
        wait = found.wishes()
        while True:
            await wait()
            heard.append("wanted")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hear)
        nursery.start_soon(wish)
        for step in (
            lambda: found.publish("web", "milan", [("turin", HOST)]),
            lambda: found.publish("web", "milan", [("turin", HOST)]),
            lambda: found.give("milan", {WAY: "10.70.0.9"}),
            lambda: found.give("milan", {WAY: "10.70.0.9"}),
            lambda: found.settle("milan", REFLECTION),
            lambda: found.settle("milan", REFLECTION),
        ):
            await trio.testing.wait_all_tasks_blocked()
            step()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert heard == ["wanted", "given", "wanted"]
    assert found.is_settled("milan")
    assert not found.is_settled("turin")
