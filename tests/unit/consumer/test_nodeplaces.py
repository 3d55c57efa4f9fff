"""Places that pods take on a virtual node as soon as they are sent."""

import msgspec
import pytest

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.consumer.nodes import nodeplan
from liqod.consumer.nodes.nodeplan import NodeState
from tests.unit.consumer.test_nodeplan import UP, live, virtual_node


@pytest.mark.parametrize("part", [False, True], ids=["whole", "part"])
@pytest.mark.parametrize("counts", [True, False], ids=["counted", "older"])
def test_what_was_sent_since_takes_places_until_it_is_counted(part: bool, counts: bool):
    group = {
        "nodes": 4,
        "free": {"cpu": "12", "memory": "200G"},
        "largest": [{"cpu": "8", "memory": "50G"}],
        "holes": {"cpu": {"8": 1, "4": 4}, "memory": {"50G": 4}},
    }
    counted = {"pods": "1", "cpu": "2"} if counts else {}
    text = msgspec.json.encode({"groups": [group], "counted": counted}).decode()
    notes = {labels.FREE_CAPACITY: text, labels.WAITING_GIVES_WAY: "true"}
    marks = {labels.PART: "0a1b2c3d"} if part else {}
    meta = ObjectMeta(name="lz", annotations=notes, labels=marks)
    node = msgspec.structs.replace(virtual_node(), metadata=meta)
    assert nodeplan.has_places(node)

    def shown(facts: NodeState) -> tuple[str, str]:
        value = live(node, facts)
        return value["status"]["allocatable"]["cpu"], value["metadata"]["labels"][
            "liqod.io/largest-cpu"
        ]

    two, six = {"cpu": 2 * 10**9}, {"cpu": 6 * 10**9}
    settled = {} if counts else two
    held = msgspec.structs.replace(UP, held=two, placed=1, settled=settled)
    assert shown(held) == ("20" if part else "14", "8100")
    sent = ((six, 1), (two, 1)) if counts else ((six, 1),)
    new = msgspec.structs.replace(held, held={"cpu": 8 * 10**9}, placed=2, sent=sent)
    if part and not counts:  # then nothing is known of what a provider of the version before counts
        assert shown(new) == shown(held)
        return
    # 8 are held. Of the place of eight two are left, and of no other one has a place for six.
    assert shown(new) == ("12", "4100")


def test_a_machine_shows_no_more_than_it_has_though_its_share_counts_what_has_just_begun() -> None:
    # The share is what runs, and what was free: here the same four CPUs.
    group = {"nodes": 1, "free": {"cpu": "8", "memory": "50G"}, "key": "0a1b2c3d"}
    text = msgspec.json.encode({"groups": [group], "counted": {"pods": "0"}}).decode()
    notes = {labels.FREE_CAPACITY: text, labels.WAITING_GIVES_WAY: "true"}
    meta = ObjectMeta(name="lz", annotations=notes, labels={labels.PART: "0a1b2c3d"})
    node = msgspec.structs.replace(virtual_node(), metadata=meta)

    def cpus(facts: NodeState) -> str:
        found: str = live(node, facts)["status"]["allocatable"]["cpu"]
        return found

    four = {"cpu": 4 * 10**9}
    assert cpus(UP) == "20"
    sent = msgspec.structs.replace(UP, held=four, placed=1, sent=((four, 1),))
    assert cpus(sent) == "8"
    assert cpus(msgspec.structs.replace(sent, sent=())) == "20"


def test_a_node_of_which_nothing_is_told_has_no_places():
    assert not nodeplan.has_places(virtual_node())
    assert not nodeplan.has_places(None)
