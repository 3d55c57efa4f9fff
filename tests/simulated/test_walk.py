"""How many modules one pod's event goes through at the consumer, from the watch to the write.

The modules that make up the way: what decides about the object is not counted, which is the
reflector's own, the contract's values and functions of values.
"""

from benchmarks.walk import Walk, walks

OUT, BACK = 12, 13
"""Modules from a pod's event to the creation of its ShadowPod, and from the remote pod's event to
the write of the status here."""


def way(walk: Walk) -> set[str]:
    """The modules that carry the event."""
    contract = ("plugins/contracts.py", "plugins/crossing.py", "apimachinery/kinds.py")
    decides = ("model/", "plugins/reflectors/", *contract)
    return {module for module in walk.modules if not module.startswith(decides)}


async def test_the_way_of_a_pods_event_is_short():
    out, back = await walks()
    assert len(way(out)) <= OUT, sorted(way(out))
    assert len(way(back)) <= BACK, sorted(way(back))
