"""Rows of what the rooms show while they work: links, queues, plugins, sightings.

Everything here reads what a room has in memory and takes microseconds; nothing is asked of anybody.
"""

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from liqod.inspect.noted import Counted, Failing, Noted
from liqod.model.rows import Plugin, Reflection, Sighting

if TYPE_CHECKING:
    from liqod.consumer.link import Link
    from liqod.home import Home, Peer
    from liqod.inspect.hub import Hub
    from liqod.plugins.loader import Loaded


def link_word(link: "Link") -> str:
    """``up``, ``down``, or ``idle`` where nobody is asked."""
    if not link.looked:
        return "idle"
    return "up" if link.up else "down"


def peer_facts(peer: "Peer | None", failing: Failing | None) -> dict[str, Any]:
    """The fields of a peer's row that only the running daemon knows."""
    facts: dict[str, Any] = {}
    if peer is not None:
        link = peer.link
        facts |= {"link": link_word(link), "since": link.since, "reason": link.reason}
        facts |= {"version": link.version, "tenant_namespace": peer.tenant_namespace}
    if failing is not None:
        facts |= {"failure": failing.reason, "retry_at": failing.retry_at}
    return facts


def reflections(hub: "Hub", noted: Noted) -> dict[str, Reflection]:
    """What each reflector is at, by ``peer/reflector``."""
    rows: dict[str, Reflection] = {}
    for peer, engine in hub.shown("engine").items():
        for name, queue in engine.queues.items():
            count = noted.reflected.get((peer, name), Counted())
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


def plugins(home: "Home", noted: Noted) -> dict[str, Plugin]:
    """What became of each plugin, by ``kind/name``."""
    return {f"{each.kind}/{each.name}": _plugin(each, noted) for each in home.plugins.records}


def _plugin(found: "Loaded", noted: Noted) -> Plugin:
    failing = noted.plugins.get(found.name) if found.kind == "discovery" else None
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


def sightings(hub: "Hub", noted: Noted, peers: Container[str]) -> dict[str, Sighting]:
    """The clusters that are seen, by ``plugin/cluster``."""
    rows: dict[str, Sighting] = {}
    for inbox in hub.shown("inbox").values():
        for (plugin, cluster), seen in inbox.sightings.items():
            failing = noted.peerings.get(cluster)
            key = f"{plugin}/{cluster}"
            rows[key] = Sighting(
                cluster_id=cluster,
                plugin=plugin,
                seen=noted.seen.get(key, 0.0),
                peered=cluster in peers,
                kubeconfig=bool(seen.kubeconfig),
                step=noted.steps.get(cluster, "") if cluster not in peers else "",
                problem=failing.reason if failing is not None else "",
                retry_at=failing.retry_at if failing is not None else 0.0,
            )
    return rows
