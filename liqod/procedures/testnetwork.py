"""Tests the network: makes pods in each cluster, lets them try each other, and deletes them.

A namespace is offloaded to the peers, so the peers' own daemons make the pods in them: all requests
go to this cluster's API server, with the rights that offloading needs.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
import trio

from liqod.apimachinery.kinds import EVENTS, NAMESPACES, NODES, PODS, SERVICES, Kind
from liqod.apimachinery.meta import Partial
from liqod.errors import ConfigError, Forbidden, Invalid, NotFound
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model.crossing.addresses import parse
from liqod.model.objects import conditions
from liqod.model.objects.partial import Event, Node, Pod, PodStatus
from liqod.model.objects.podsight import unpulled, why
from liqod.procedures import testplan
from liqod.procedures.offload import NAME, bring_back, offloaded, spread
from liqod.procedures.testplaces import places
from liqod.procedures.testplan import NAMESPACE, NetworkTestRow, ProbeLocation, Try
from liqod.resources import NAMESPACE_OFFLOADINGS
from liqod.runtime.polling import poll_until
from liqod.runtime.progress import Progress

Json = dict[str, Any]
CLEAN_UP: Final = 60.0
"""Seconds that deleting all objects may take; the clusters go on with it by themselves."""
SETTLING: Final = 20.0
"""Seconds that a namespace may take to have a ServiceAccount."""
OPENING: Final = 20.0
"""Seconds for which a taint may keep pods from a node that is Ready: that of a node that is new
goes a moment after its condition."""
LOOK: Final = 0.5
REFUSED: Final = "ReflectionRefused"
"""Reason of the Event on an object that a peer refuses (:mod:`liqod.reflection.remotewriter`)."""
PULLED_WITHIN: Final = 5.0
"""Seconds for which an image may fail to come before it is taken not to come at all."""


class NetworkTestOptions(msgspec.Struct, frozen=True):
    """The options of a network test.

    Attributes:
        cluster: id of this cluster.
        peers: ids; empty for all that lend.
        nodes: how many nodes of this cluster clients run on, at the most.
        image: of all pods; it has busybox.
        outside: ``address:port`` outside of the clusters; empty for none.
        ready: seconds that servers may take to start.
    """

    cluster: str
    peers: tuple[str, ...] = ()
    nodes: int = 3
    image: str = testplan.IMAGE
    outside: str = ""
    ready: float = 60.0


class ProbeClient(msgspec.Struct, frozen=True):
    """A client: its pod, and its tries."""

    manifest: Json
    tries: list[Try]


async def test_network(
    client: Client, asked: NetworkTestOptions, progress: Progress
) -> list[NetworkTestRow]:
    """Make the test's objects, run its clients, delete the objects; returns the results.

    Raises:
        ConfigError: there is no peer to try, or a foreign namespace has the same name.
    """
    here, there, left_out = await _places(client, asked, progress)
    if not there:
        raise ConfigError(
            "; ".join(row.detail for row in left_out)
            or "no peer lends anything to this cluster: run it where pods are offloaded from"
        )
    progress("clear what a test before this one left")
    await _clear(client, progress)
    async with _brought(client, progress):
        return [*await _tried(client, asked, here, there, progress), *left_out]


async def _places(
    client: Client, asked: NetworkTestOptions, progress: Progress
) -> tuple[list[ProbeLocation], list[ProbeLocation], list[NetworkTestRow]]:
    """Nodes of this cluster, a virtual node of each peer, and rows of peers without one."""
    which = (asked.cluster, asked.peers, asked.nodes)
    found = places(await client.list(NODES, decode=dict[str, Any]), *which)
    if found.tainted:
        progress(f"wait for the nodes of {', '.join(sorted(found.tainted))} to take pods")

        async def open_() -> bool:
            nonlocal found
            found = places(await client.list(NODES, decode=dict[str, Any]), *which)
            return not found.tainted

        with trio.move_on_after(OPENING):
            await poll_until(open_, longest_pause=LOOK)
    if not found.here:
        raise ConfigError("no node of this cluster takes pods: none is Ready and without taints")
    missing = [
        NetworkTestRow(asked.cluster, each, "failed", f"{each}: {problem}")
        for each, problem in sorted(found.problems.items())
    ]
    return found.here, found.there, missing


# --- Bringing and taking away ---------------------------------------------------------------------


@asynccontextmanager
async def _brought(client: Client, progress: Progress) -> AsyncIterator[None]:
    """Holds the offloaded namespace during the block; deletes all of it at any end."""
    try:
        await client.create(NAMESPACES, testplan.namespace())
        progress("wait for the peers to make the namespace")
        generation = await spread(client, NAMESPACE, {})
        status = await offloaded(client, NAMESPACE, generation)
        if status.get("offloadingPhase") not in ("Ready", "SomeFailed"):
            raise ConfigError(f"{NAMESPACE} is {status.get('offloadingPhase')}; see `liqod status`")
        yield
    finally:
        # Also on Ctrl-C and when time is up: the test's objects are not left to the user.
        with trio.CancelScope(shield=True, deadline=trio.current_time() + CLEAN_UP):
            await _clear(client, progress)


async def _clear(client: Client, progress: Progress) -> None:
    """Delete the namespace, and wait for its end in this cluster and at the peers that answer."""
    found = await client.find(NAMESPACES, NAMESPACE, decode=Partial)
    if found is None:
        return
    key, value = next(iter(testplan.OWN.items()))
    if found.metadata.labels.get(key) != value:
        raise ConfigError(f"there is a namespace {NAMESPACE} that is not of this test: remove it")
    # Nothing in it is worth an orderly end.
    await client.delete_selected(PODS, Selection(NAMESPACE))
    spread_out = await client.find(NAMESPACE_OFFLOADINGS, NAME, NAMESPACE)
    if spread_out is not None:
        await bring_back(client, spread_out, progress)
    progress(f"wait for {NAMESPACE} to end")
    await client.delete(NAMESPACES, NAMESPACE, uid=found.metadata.uid)

    async def gone() -> bool:
        return await client.find(NAMESPACES, NAMESPACE, decode=Partial) is None

    await poll_until(gone, longest_pause=LOOK)


# --- Trying ---------------------------------------------------------------------------------------


async def _tried(
    client: Client,
    asked: NetworkTestOptions,
    here: list[ProbeLocation],
    there: list[ProbeLocation],
    progress: Progress,
) -> list[NetworkTestRow]:
    """Run the servers first, then the clients that use them; the results of the clients."""
    own = here[0]
    servers = [own, *there]
    services: dict[str, Json] = {}
    for place in servers:
        for kind in ("at", "pods", "port"):
            made = testplan.service(place.number, kind)
            services[made["metadata"]["name"]] = await _create(client, SERVICES, made)
        await _create(client, PODS, testplan.server(place, asked.image))
    progress("wait for the servers to start")
    late = await _started(client, servers, asked)
    pods = await client.list(PODS, Selection(NAMESPACE), decode=Pod)
    addresses = {
        each.metadata.name: [one.ip for one in each.status.pod_ips if one.ip] for each in pods
    }
    refused = await refused_node_ports(client, own, there)
    clients, found = probe_clients(asked, here, there, addresses, services, refused)
    for place in there:
        if not addresses.get(f"server-{place.number}"):
            reason = late.get(place.cluster) or await _no_address(client, place)
            found.append(NetworkTestRow(asked.cluster, f"pod {place.cluster}", "failed", reason))
    progress("wait for the clients to try")
    async with trio.open_nursery() as nursery:
        for each in clients:
            nursery.start_soon(_run, client, each, asked.ready, found)
    return sorted(found, key=lambda row: (row.source, row.target))


def probe_clients(
    asked: NetworkTestOptions,
    here: list[ProbeLocation],
    there: list[ProbeLocation],
    addresses: Mapping[str, Sequence[str]],
    services: Mapping[str, Json],
    refused: Collection[str],
) -> tuple[list[ProbeClient], list[NetworkTestRow]]:
    """The clients, and rows of the tries that none of them can make.

    Args:
        asked: the tries to make.
        here, there: places of clients in this cluster, the first with its servers, and at peers.
        addresses: of the servers' pods, by name.
        services: the Services of the servers, by name.
        refused: the peers whose guests choose no node ports.
    """
    own, ports = here[0], dict[int, int]()
    for place in (own, *there):
        offered: Json = services[f"port-{place.number}"].get("spec", {})
        first: Json = next(iter(offered.get("ports") or ()), {})
        ports[place.number] = int(first.get("nodePort") or 0)
    of_services = {
        name: [
            address
            for address in each.get("spec", {}).get("clusterIPs") or ()
            if parse(address) is not None
        ]
        for name, each in services.items()
    }
    made: list[ProbeClient] = []
    for number, place in enumerate(here):
        for host in (False, True):
            tries = testplan.tries_here(
                place, there, addresses, of_services, ports, asked.outside, host=host
            )
            name = f"{'node' if host else 'client'}-{number}"
            manifest = testplan.client(name, place, asked.image, tries, host=host)
            made.append(ProbeClient(manifest, tries))
    for place in there:
        offered_there = {} if place.cluster in refused else ports
        tries = testplan.tries_there(place, [own], offered_there, asked.outside)
        name = f"client-at-{place.number}"
        made.append(ProbeClient(testplan.client(name, place, asked.image, tries), tries))
    stay = "pods on a node's own network do not leave their cluster: try it from there"
    sources = [f"node {place.cluster}" for place in there]
    rows = testplan.skipped(sources, f"pods {asked.cluster}", stay)
    for each in sorted(refused):
        ports_of = f"node port of {own.cluster}'s pods"
        why_not = f"{each} lets guests choose no node ports (`fields` under [guests] there)"
        rows += testplan.skipped([f"pod {each}"], ports_of, why_not)
    return made, rows


async def refused_node_ports(
    client: Client, own: ProbeLocation, there: list[ProbeLocation]
) -> set[str]:
    """The peers that refuse the node port of this cluster's servers, by the Service's Events.

    A Service requests the same port at a peer, which providers let no guest choose by default.

    Args:
        client: of this cluster.
        own: the place of this cluster's servers.
        there: the places of the peers'.
    """
    told = await client.list(
        EVENTS, Selection(NAMESPACE, fields=f"involvedObject.name=port-{own.number}"), decode=Event
    )
    refused = {each.related.name for each in told if each.reason == REFUSED and each.related}
    return refused & {place.cluster for place in there}


async def _started(
    client: Client, servers: list[ProbeLocation], asked: NetworkTestOptions
) -> dict[str, str]:
    """Wait until all servers are ready; the reasons of those that are not in time, by cluster.

    Raises:
        ConfigError: a cluster cannot pull the image, so that nothing can be tried with it.
    """
    waiting: dict[str, str] = {}
    missed: dict[str, float] = {}

    async def look() -> bool:
        waiting.clear()
        now = trio.current_time()
        for place in servers:
            name = f"server-{place.number}"
            pod = await client.find(PODS, name, NAMESPACE, decode=Pod)
            if pod is None or not conditions.holds(pod.status.conditions, "Ready"):
                reason = "" if pod is None else why(pod.status)
                waiting[place.cluster] = f"{name} does not start: {reason or 'nothing is said'}"
            unpulled_by = "" if pod is None else unpulled(pod.status)
            if not unpulled_by:
                missed.pop(place.cluster, None)
            elif now >= missed.setdefault(place.cluster, now) + PULLED_WITHIN:
                raise ConfigError(
                    f"untried: the image {asked.image} cannot be pulled at {place.cluster}"
                    f" ({unpulled_by}); --image names another that has busybox"
                )
        return not waiting

    with trio.move_on_after(asked.ready):
        await poll_until(look, longest_pause=LOOK)
    return waiting


async def _no_address(client: Client, place: ProbeLocation) -> str:
    """The reason why a peer's pods have no address in this cluster, from the node."""
    node = await client.find(NODES, place.node, decode=Node)
    told = None
    if node is not None:
        told = conditions.of_type(node.status.conditions, "NetworkUnavailable")
    return told.message if told is not None else "its pods have no address here"


async def _run(
    client: Client, each: ProbeClient, within: float, found: list[NetworkTestRow]
) -> None:
    """Run a client; returns its rows."""
    name = each.manifest["metadata"]["name"]
    if not each.tries:
        return
    try:
        await _create(client, PODS, each.manifest)
    except (Forbidden, Invalid) as error:
        sources = {one.source for one in each.tries}
        found += testplan.skipped(sorted(sources), "everything", f"not let in: {error}")
        return
    message, otherwise = "", "its pod did not end in time"

    async def ended() -> bool:
        nonlocal message, otherwise
        pod = await client.find(PODS, name, NAMESPACE)
        if pod is None:
            raise NotFound(f"the pod {name} was deleted by somebody")
        status = pod.get("status") or {}
        message = _last_word(status)
        reason = why(msgspec.convert(status, PodStatus))
        otherwise = f"its pod {name} said nothing{f': {reason}' if reason else ''}"
        return bool(message) or status.get("phase") in ("Succeeded", "Failed")

    with trio.move_on_after(within + testplan.PATIENCE + 10):
        await poll_until(ended, longest_pause=LOOK)
    found += testplan.rows(each.tries, message, otherwise)


def _last_word(status: Mapping[str, Any]) -> str:
    for container in status.get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended.get("message"):
            return str(ended["message"])
    return ""


async def _create(client: Client, kind: Kind, manifest: Json) -> Json:
    """Make an object, with retries while a namespace is new; returns the object."""

    async def made() -> bool:
        try:
            await client.create(kind, manifest, NAMESPACE)
        except Forbidden as error:
            if "serviceaccount" not in str(error).lower():
                raise
            return False  # the namespace's own ServiceAccount comes a moment after it
        return True

    await poll_until(made, longest_pause=LOOK, within=SETTLING)
    return await client.get(kind, manifest["metadata"]["name"], NAMESPACE)
