"""Events of components: one struct for each topic, and facts that viewers of any age can read."""

import msgspec
import pytest

from liqod.inspect.stream import row
from liqod.model.view.rows import EventRow
from liqod.telemetry import events
from liqod.telemetry.hub import Hub

TOPICS = [
    each
    for each in vars(events).values()
    if isinstance(each, type)
    and issubclass(each, events.TopicEvent)
    and each is not events.TopicEvent
]


def test_no_two_have_one_topic() -> None:
    topics = [each.TOPIC for each in TOPICS if each is not events.KeyFailed]
    assert all(topics)
    assert len(set(topics)) == len(topics)


@pytest.mark.parametrize("kind", TOPICS, ids=lambda kind: kind.__name__)
def test_facts_are_json_and_what_is_not_said_is_left_out(kind: type[events.TopicEvent]) -> None:
    values = {str: "x", bool: True, int: 1, float: 1.0, tuple[str, ...]: ("x",)}
    needed = {
        each.name: values[each.type] for each in msgspec.structs.fields(kind) if each.required
    }
    told = kind(**needed)
    said = set(needed) - {"source"}
    assert told.facts().keys() == said
    assert msgspec.json.decode(msgspec.json.encode(told.facts())).keys() == said


def test_a_viewer_gets_topic_peer_and_facts() -> None:
    hub = Hub()
    hub.publish(events.LinkChanged(up=False, reason="no answer"), "milan")
    hub.publish(events.KeyFailed(source="peer.lent", key="pool", failed="no"), "milan")
    link, failed = (row(event) for event in hub.history)
    assert (link.topic, link.peer, link.facts) == (
        *("peer.link", "milan"),
        {"up": False, "reason": "no answer"},
    )
    assert (failed.topic, failed.facts) == ("peer.lent", {"key": "pool", "failed": "no"})


def test_one_text_for_all_who_show_events() -> None:
    event = EventRow(
        1, 0.0, "webhook", "", {"certified": ["a", "b"], "reachable": True, "reason": ""}
    )
    assert event.text == 'certified=["a","b"] reachable=true'
    assert not event.is_bad
    assert EventRow(1, 0.0, "peer.link", "milan", {"up": False, "reason": "cut"}).is_bad
    assert not EventRow(1, 0.0, "peer.link", "milan", {"up": True, "reason": "ok"}).is_bad
