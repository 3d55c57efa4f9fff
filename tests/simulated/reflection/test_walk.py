"""Modules of liqod that one pod's event goes through, from the watch here to the status here.

All of them in both daemons, as who follows it by reading meets them.
"""

from benchmarks.walk import CONSUMER, PROVIDER, walk

MOST = {CONSUMER: 52, PROVIDER: 45}
"""Modules of each daemon; a change that needs another one says why.

The provider's last one is `provider/slices/demands.py`: requests of pods have no room beside the
quotas any more.
"""
TOGETHER = 75


async def test_the_way_of_a_pods_event_is_no_longer_than_it_was():
    found = await walk()
    for side, most in MOST.items():
        assert len(found.of(side).modules) <= most, sorted(found.of(side).modules)
    assert len(found.modules) <= TOGETHER, sorted(found.modules)
