"""What discovery plugins see is kept, but not any number of clusters."""

from types import SimpleNamespace
from typing import Any

from liqod.inbox import MOST_SEEN, Inbox
from liqod.inspect.hub import Hub
from liqod.plugins.providers import Sighting


def seen(cluster: str, *, gone: bool = False) -> Sighting:
    return Sighting(cluster_id=cluster, plugin="mdns", gone=gone)


async def test_of_ever_more_clusters_so_many_are_kept(nursery, caplog):
    home: Any = SimpleNamespace(hub=Hub(), cluster_id="rome")
    inbox = Inbox(home)

    def sighted(sighting: Sighting) -> None:
        inbox._sighted(nursery, "mdns", sighting)

    for number in range(2 * MOST_SEEN):
        sighted(seen(f"cluster-{number}"))
        sighted(seen(f"No_Cluster_{number}"))
    assert len(inbox.sightings) == MOST_SEEN
    assert len(caplog.records) == 2
    sighted(seen("cluster-0", gone=True))
    sighted(seen("milan"))
    assert ("mdns", "milan") in inbox.sightings
