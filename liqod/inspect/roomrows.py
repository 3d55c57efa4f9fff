"""Rows of what the components show while they work: links, queues, plugins, sightings.

Everything here reads what a component has in memory and takes microseconds; nobody is asked.
"""

import time
from collections.abc import Container, Iterable
from itertools import islice
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec

from liqod.inspect.summary import Counted, EventSummary, Failing
from liqod.model.view.networkfacts import NetworkFacts
from liqod.model.view.rows import Plugin, Reflection, Sighting, Told
from liqod.plugins.contracts import Reason
from liqod.plugins.host import PluginHost

MOST_REASONS = 2000
"""Reasons of one peer's objects that are read."""
MOST_KINDS = 100
"""Different ones that are shown."""

if TYPE_CHECKING:
    from liqod.discovery.sightings import KeptSighting
    from liqod.inspect.components import Components
    from liqod.plugins.callguard import Gauge
    from liqod.plugins.loader import Loaded


def reflections(components: "Components", summary: EventSummary) -> dict[str, Reflection]:
    """The work of each reflector, by ``peer/reflector``."""
    rows: dict[str, Reflection] = {}
    for peer, borrowing in components.borrowing().items():
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


def networks(components: "Components", *, fresh: bool = True) -> dict[str, NetworkFacts]:
    """The facts of each joined network, by peer.

    Args:
        components: those that work.
        fresh: have the figures be read anew for the next time.
    """
    rows: dict[str, NetworkFacts] = {}
    for name, peer in components.peers.items():
        network = peer.network
        if network.facts is not None and network.begun:
            rows[name] = network.facts().rounded()
            if fresh:
                network.nudge()
    return rows


def reasons(components: "Components") -> dict[str, Told]:
    """Why objects are not as they are to be, of each reason once."""
    found: dict[tuple[str, str, Reason], list[str]] = {}
    for peer, borrowing in components.borrowing().items():
        told = islice(borrowing.engine.told(), MOST_REASONS)
        for (reflector, namespace, name), reason in told:
            if reason.expected:
                continue
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


def plugins(host: PluginHost, summary: EventSummary) -> dict[str, Plugin]:
    """The state of each plugin, by ``kind/name``."""
    return {
        f"{each.kind}/{each.name}": _plugin(each, summary, _gauges(host, each))
        for each in host.loaded.records
    }


def _gauges(host: PluginHost, found: "Loaded") -> "list[Gauge]":
    """The gauges of a plugin's calls; a check's probe has one of its own."""
    kinds = ("check", "probe") if found.kind == "check" else (found.kind,)
    gauges = (host.calls.find(kind, found.name) for kind in kinds)
    return [each for each in gauges if each is not None]


def _plugin(found: "Loaded", summary: EventSummary, gauges: "Iterable[Gauge]") -> Plugin:
    failing = summary.plugins.get(found.name) if found.kind == "discovery" else None
    for gauge in gauges:
        if trouble := gauge.trouble:
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


def sightings(
    components: "Components", summary: EventSummary, peers: Container[str]
) -> dict[str, Sighting]:
    """The sightings of clusters, by ``plugin/cluster/source``."""
    discovery = components.discovery
    if discovery is None:
        return {}
    rows: dict[str, Sighting] = {}
    for cluster in discovery.book.clusters():
        seen = discovery.seen(cluster)
        assert seen is not None, "it is in the book"
        failing = summary.peerings.get(cluster)
        whole = Sighting(
            cluster_id=cluster,
            plugin="",
            own=cluster == discovery.context.cluster_id,
            named=bool(discovery.context.config.peer(cluster).key),
            conflict=seen.conflict,
            peered=cluster in peers,
            waits=cluster not in peers and discovery.waits(cluster),
            step=summary.steps.get(cluster, "") if cluster not in peers else "",
            problem=failing.reason if failing is not None else "",
            retry_at=failing.retry_at if failing is not None else 0.0,
        )
        for entry in seen.entries:
            rows["/".join(filter(None, entry.key))] = _sighting(whole, entry)
    return rows


def _sighting(whole: Sighting, entry: "KeptSighting") -> Sighting:
    """The row of one source, of what is so of the cluster as a whole and of the source."""
    seen, told = entry.seen, entry.verified
    return msgspec.structs.replace(
        whole,
        plugin=seen.plugin,
        where=seen.where,
        seen=entry.since,
        kubeconfig=bool(seen.kubeconfig),
        addresses=tuple(dict.fromkeys((*(told.addresses if told else ()), *seen.addresses))),
        key=told.key if told else "",
        unverified=entry.problem,
        proof=seen.proof,
        free=dict(told.free) if told else {},
        capabilities=told.capabilities if told else (),
    )
