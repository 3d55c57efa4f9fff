"""Rows of what the rooms show while they work: links, queues, plugins, sightings.

Everything here reads what a room has in memory and takes microseconds; nothing is asked of anybody.
"""

import time
from collections.abc import Container
from itertools import islice
from typing import TYPE_CHECKING
from zlib import crc32

from liqod.inspect.summary import Counted, EventSummary, Failing
from liqod.model.view.peerview import Working
from liqod.model.view.rows import Plugin, Reflection, Sighting, Told
from liqod.plugins.contracts import Reason

MOST_REASONS = 2000
"""Reasons of one peer's objects that are read."""
MOST_KINDS = 100
"""Different ones that are shown."""

if TYPE_CHECKING:
    from liqod.context import ClusterContext
    from liqod.inspect.rooms import Rooms
    from liqod.peer import Peer
    from liqod.plugins.calls import Gauge
    from liqod.plugins.loader import Loaded


def working(peer: "Peer | None", failing: Failing | None) -> Working:
    """What of a peer only the running daemon knows."""
    failure = failing.reason if failing is not None else ""
    retry_at = failing.retry_at if failing is not None else 0.0
    if peer is None:
        return Working(failure=failure, retry_at=retry_at)
    link = peer.link
    return Working(
        link=link.state,
        since=link.since,
        reason=link.reason,
        version=link.version,
        tenant_namespace=peer.tenant_namespace,
        failure=failure,
        retry_at=retry_at,
    )


def reflections(rooms: "Rooms", summary: EventSummary) -> dict[str, Reflection]:
    """What each reflector is at, by ``peer/reflector``."""
    rows: dict[str, Reflection] = {}
    for peer, borrowing in rooms.borrowing().items():
        for name, queue in borrowing.engine.queues.items():
            count = summary.reflected.get((peer, name), Counted())
            rows[f"{peer}/{name}"] = Reflection(
                peer=peer,
                reflector=name,
                waiting=queue.waiting,
                busy=queue.busy,
                oldest=round(queue.oldest, 1),
                done=count.done,
                failed=count.failed,
                error=count.error,
            )
    return rows


def reasons(rooms: "Rooms") -> dict[str, Told]:
    """Why objects are not as they are to be, of each reason once."""
    found: dict[tuple[str, str, Reason], list[str]] = {}
    for peer, borrowing in rooms.borrowing().items():
        told = islice(borrowing.engine.told(), MOST_REASONS)
        for (reflector, namespace, name), reason in told:
            found.setdefault((peer, reflector, reason), []).append(f"{namespace}/{name}")
    rows: dict[str, Told] = {}
    for (peer, reflector, reason), objects in islice(found.items(), MOST_KINDS):
        rows[f"{peer}/{reflector}/{reason.code}/{crc32(reason.message.encode()):08x}"] = Told(
            peer=peer,
            reflector=reflector,
            code=reason.code,
            message=reason.message,
            objects=len(objects),
            example=min(objects),
        )
    return rows


def plugins(home: "ClusterContext", summary: EventSummary) -> dict[str, Plugin]:
    """What became of each plugin, by ``kind/name``."""
    return {
        f"{each.kind}/{each.name}": _plugin(each, summary, home.calls.find(each.kind, each.name))
        for each in home.plugins.records
    }


def _plugin(found: "Loaded", summary: EventSummary, gauge: "Gauge | None") -> Plugin:
    failing = summary.plugins.get(found.name) if found.kind == "discovery" else None
    if gauge is not None and (trouble := gauge.trouble):
        rests = gauge.rests
        failing = Failing(trouble, time.time() + rests if rests else 0.0)
    return Plugin(
        name=found.name,
        kind=found.kind,
        version=found.version,
        package=found.package,
        state=found.state,
        why=found.why,
        failure=failing.reason if failing is not None else "",
        retry_at=failing.retry_at if failing is not None else 0.0,
    )


def sightings(rooms: "Rooms", summary: EventSummary, peers: Container[str]) -> dict[str, Sighting]:
    """The clusters that are seen, by ``plugin/cluster``."""
    discovery = rooms.discovery
    if discovery is None:
        return {}
    rows: dict[str, Sighting] = {}
    for (plugin, cluster), seen in discovery.sightings.items():
        failing = summary.peerings.get(cluster)
        key = f"{plugin}/{cluster}"
        rows[key] = Sighting(
            cluster_id=cluster,
            plugin=plugin,
            seen=summary.seen.get(key, 0.0),
            peered=cluster in peers,
            kubeconfig=bool(seen.kubeconfig),
            waits=cluster not in peers and discovery.waits(cluster),
            step=summary.steps.get(cluster, "") if cluster not in peers else "",
            problem=failing.reason if failing is not None else "",
            retry_at=failing.retry_at if failing is not None else 0.0,
        )
    return rows
