"""Snapshot, then numbered updates; the slow are cut off, and large states come in parts."""

from typing import Any

import msgspec
import trio

from liqod.inspect import protocol
from liqod.inspect.protocol import StateSnapshot, Update
from liqod.inspect.stream import Stream, portions
from liqod.model.view.roomrows import RoomSums
from liqod.model.view.rows import Line, PodRow
from liqod.model.view.state import LiveState, apply, join
from liqod.telemetry.events import HeldUp, LinkChanged, Reflected
from liqod.telemetry.hub import KEPT_EVENTS, KEPT_OBJECTS, Hub
from tests.unit.model.states import NOW, peer, state


def update(text: str) -> Update:
    message = protocol.read_server(text)
    assert isinstance(message, Update)
    return message


async def watched(stream: Stream, first: LiveState, nursery: trio.Nursery):
    """A viewer, with its snapshot's parts joined."""

    async def publish() -> None:
        await stream.wanted.wait()
        stream.publish(first)

    nursery.start_soon(publish)
    viewer = await stream.attach()
    parts = list(stream.snapshot(10, 10))
    whole = parts[0].state
    for part in parts[1:]:
        whole = join(whole, part.state)
    return viewer, parts[0].sequence, whole


async def test_updates_lead_from_the_snapshot_to_the_state(nursery):
    stream = Stream(Hub())
    viewer, sequence, known = await watched(stream, state(peer()), nursery)
    for other in (state(peer(), peer("oslo")), state(peer("oslo", link="down")), LiveState()):
        stream.publish(other)
        message = update(viewer.updates.receive_nowait())
        sequence += 1
        assert message.sequence == sequence
        known = apply(known, message.delta)
        assert known == other


async def test_nothing_is_sent_where_nothing_happened(nursery):
    stream = Stream(Hub())
    viewer, sequence, known = await watched(stream, state(peer()), nursery)
    stream.publish(known)
    assert viewer.updates.statistics().current_buffer_used == 0
    assert stream.sequence == sequence


async def test_events_and_lines_are_sent_once_and_kept_for_the_next(nursery):
    hub = Hub()
    stream = Stream(hub)
    hub.publish(LinkChanged(up=False, reason="no answer"), "milan")
    viewer, _, known = await watched(stream, state(peer()), nursery)
    (part,) = stream.snapshot(10, 10)
    assert [event.topic for event in part.events] == ["peer.link"]
    assert part.events[0].peer == "milan"
    hub.publish(LinkChanged(up=True, reason="it answers"), "milan")
    stream.log(Line(NOW, "info", "again"))
    stream.publish(known)
    delta = update(viewer.updates.receive_nowait()).delta
    assert [event.facts["up"] for event in delta.events] == [True]
    assert [line.text for line in delta.lines] == ["again"]
    (part,) = stream.snapshot(1, 1)
    assert part.events == delta.events
    assert part.lines == delta.lines


async def test_one_that_falls_behind_is_cut_off_and_the_others_are_not(nursery):
    stream = Stream(Hub())
    slow, _, _ = await watched(stream, state(peer()), nursery)
    keen, _, _ = await watched(stream, state(peer()), nursery)
    for number in range(protocol.BEHIND + 10):
        stream.publish(state(peer(pods_out=number)))
        keen.updates.receive_nowait()
    assert len(stream) == 1
    assert len([text async for text in slow.updates]) == protocol.BEHIND


async def test_nothing_is_encoded_or_kept_while_nobody_watches(nursery):
    hub = Hub()
    stream = Stream(hub)
    viewer, sequence, _ = await watched(stream, state(peer()), nursery)
    stream.part(viewer)
    for number in range(10):
        hub.publish(HeldUp(seconds=number, by="somebody"))
        stream.publish(state(peer(pods_out=number)))
    assert stream.sequence == sequence
    assert stream.idle()
    assert not stream.wanted.is_set()


async def test_one_who_comes_back_waits_for_what_is_new(nursery):
    stream = Stream(Hub())
    viewer, _, _ = await watched(stream, state(peer()), nursery)
    stream.part(viewer)
    assert stream.idle()
    _, _, known = await watched(stream, state(peer("oslo")), nursery)
    assert known.peers.keys() == {"oslo"}


def test_a_large_state_comes_in_parts_within_the_limit():
    pods = {f"shop/{n}": PodRow("shop", str(n), "milan", "Running", True) for n in range(9000)}
    whole = state(peer(), pods=pods, room=RoomSums(here=3))
    parts = list(portions(whole))
    assert len(parts) == 5
    joined = parts[0]
    for part in parts:
        sent = StateSnapshot(sequence=0, at=NOW, state=part)
        assert len(msgspec.json.encode(sent)) < protocol.SERVER_LIMIT
        joined = join(joined, part)
    assert joined == whole


def test_a_busy_hour_of_objects_does_not_push_out_the_rest():
    hub = Hub()
    hub.publish(LinkChanged(up=False, reason="no answer"), "milan")
    for number in range(2 * KEPT_EVENTS):
        hub.publish(
            Reflected(reflector="pods", namespace="shop", name=str(number), action="create"),
            "milan",
        )
    assert isinstance(hub.history[0].payload, LinkChanged)
    assert len(hub.history) == 1 + KEPT_OBJECTS


def test_a_listener_that_fails_is_dropped_and_the_publisher_does_not_notice(caplog):
    hub = Hub()
    heard: list[Any] = []

    def broken(event):
        raise ValueError("no")

    hub.listen(broken)
    hub.listen(heard.append)
    told = [HeldUp(seconds=1, by="one"), HeldUp(seconds=2, by="two")]
    for each in told:
        hub.publish(each)
    assert [event.payload for event in heard] == told
    assert caplog.text.count("was dropped") == 1
