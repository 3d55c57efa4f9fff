"""Reads what ``status`` shows from the API server: custom resources, nodes and pods, no daemon."""

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    ADMISSION_POLICIES,
    ADMISSION_POLICY_BINDINGS,
    CUSTOM_RESOURCES,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    Kind,
)
from liqod.apimachinery.meta import Partial
from liqod.cli.presence import beat, how_to_start, webhook_verdict
from liqod.cluster.ownid import PublicKeys, cluster_id, cluster_uid, copy_problem, id_problem, notes
from liqod.clusterset.byway import signer
from liqod.consumer.identities.clusterkeys import keys_here
from liqod.consumer.identities.formerkey import bound, needing
from liqod.errors import Forbidden, NotFound, ProtocolError
from liqod.identity import keys
from liqod.inspect.objectcaches import LISTED, Listed, lives
from liqod.install import daemonpolicies, homepolicies
from liqod.install.verbs import is_older
from liqod.kube import times
from liqod.kube.candidates import standbys
from liqod.kube.client import Client
from liqod.kube.definitions import name_of
from liqod.kube.selection import EVERY, Selection
from liqod.model.objects.partial import Node
from liqod.model.objects.podsight import LivePod, pod_of, unready
from liqod.model.peering import capacity
from liqod.model.view.servicefacts import SharedServices
from liqod.model.view.setfacts import SetFacts, set_facts
from liqod.model.view.snapshot import PodSummary, Snapshot
from liqod.model.view.wayfaults import Here, way_faults
from liqod.procedures import sharedservices
from liqod.provider.policies import admission, policycontroller
from liqod.resources import (
    DEFINITIONS,
    FOREIGN_CLUSTERS,
    ForeignCluster,
    NamespaceOffloading,
)
from liqod.resources.about import CLUSTER_PROPERTIES

T = TypeVar("T")


async def take(client: Client, namespace: str) -> Snapshot:
    """A snapshot of the cluster; kinds that may not be read, which it names, or are not there are
    empty.

    Raises:
        NotFound: liqod is not installed here.
    """
    said = await cluster_id(client, namespace)
    noted = await notes(client, namespace)
    known = noted.get(labels.KNOWN_AS, "")
    lists = KindLists(client)
    listed: dict[str, Any] = {
        field: await lists.kept(each, namespace) for field, each in LISTED.items()
    }
    listed["expiries"] = lives(listed["expiries"])
    virtual_nodes = listed["virtual_nodes"]
    nodes = await lists.of(NODES, Node)
    states = {
        node.metadata.name: unready(node.status) for node in nodes if capacity.is_virtual(node)
    }
    if NODES.plural in lists.refused:
        states = {node.name: "its Node cannot be read" for node in virtual_nodes}
    out: list[PodSummary] = []
    for node in virtual_nodes:
        found = await lists.of(PODS, LivePod, Selection(fields=f"spec.nodeName={node.name}"))
        out += [pod_of(pod) for pod in found]
    from liqod.cli import inspectorclient  # brings the websocket, which other commands do without

    missing, older = await _definitions(client)
    leads = await beat(client, namespace, await inspectorclient.refusal(known or said))
    key, met_at = await _own(client, namespace)
    return Snapshot(
        cluster_id=known or said,
        cluster_uid=await cluster_uid(client),
        id_problem=id_problem(said, known, namespace) or await copy_problem(client, said, noted),
        definitions=missing,
        older=older,
        leader=leads.holder,
        leader_age=leads.ago,
        leader_gone=leads.gone,
        start=await how_to_start(client, namespace),
        standbys=await standbys(client, namespace),
        webhook=await webhook_verdict(client),
        **listed,
        stayed=await _stayed(lists, listed["offloadings"], [node.name for node in virtual_nodes]),
        now=times.now(),
        nodes=states,
        allocatable=capacity.of_virtual(nodes),
        pods=tuple(out),
        requests_read=not lists.silent,
        key=key,
        former=await _former(client, namespace),
        met_at=met_at,
        policies=await _policies(client, namespace),
        unread=tuple(lists.refused),
        capacity=capacity.of_nodes(nodes),
        services=await _services(client, known or said, key),
        clusterset=await _clusterset(client, known or said),
    )


class KindLists:
    """Lists objects, and keeps in ``refused`` the kinds that this user may not list."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.refused: dict[str, None] = {}
        self.silent: set[str] = set()
        """Likewise the newer ones, of which nothing is said."""

    async def of(
        self,
        kind: Kind,
        decode: type[T],
        selection: Selection = EVERY,
        *,
        newer: bool = False,
    ) -> tuple[T, ...]:
        """The objects of a kind; none where it may not be read or is not there.

        With ``newer`` an installation from before, or its rights, may lack it: nothing is said.
        """
        try:
            found = await self._client.list(kind, selection, decode=decode)
        except NotFound:
            return ()
        except Forbidden:
            if newer:
                self.silent.add(kind.plural)
            else:
                self.refused[kind.plural] = None
            return ()
        return tuple(found)

    async def kept(self, listed: Listed, namespace: str) -> tuple[Any, ...]:
        """List a kind, and keep of its objects what can be read; an Event names the others."""
        selection = listed.selection(namespace)
        kept = []
        for each in await self.of(listed.kind, listed.type, selection, newer=listed.newer):
            with suppress(ProtocolError):
                kept.append(listed.make(each))
        return tuple(kept)


async def _own(client: Client, namespace: str) -> tuple[str, str]:
    """SHA-256 of this cluster's key, and where its daemon is met; empty where that is not known."""
    try:
        found = await client.find(SECRETS, labels.KEYS_SECRET, namespace, decode=PublicKeys)
    except Forbidden:
        return "", ""
    if found is None:
        return "", ""
    print_ = ""
    with suppress(ProtocolError):
        print_ = keys.print_of(found.data.public)
    return print_, found.metadata.annotations.get(labels.MET_AT, "")


async def _former(client: Client, namespace: str) -> tuple[str, ...]:
    """The peers that know this cluster by its former key alone, as far as that may be read."""
    try:
        own = await keys_here(client, namespace)
        if own is None or own.former is None:
            return ()
        return tuple(sorted(needing(own, await bound(client))))
    except Forbidden:
        return ()


async def _stayed(
    lists: KindLists, offloadings: Iterable[NamespaceOffloading], virtual: Iterable[str]
) -> dict[str, int]:
    """How many pods run here of each namespace whose pods are to run on peers only."""
    elsewhere = ",".join(f"spec.nodeName!={name}" for name in ("", *virtual))
    found: dict[str, int] = {}
    for each in offloadings:
        if each.spec.pod_offloading_strategy != "Remote" or each.leaving:
            continue
        count = 0
        for pod in await lists.of(PODS, LivePod, Selection(each.namespace, fields=elsewhere)):
            daemon = any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)
            count += not daemon and pod.status.phase not in ("Succeeded", "Failed")
        if count:
            found[each.namespace] = count
    return found


async def _services(client: Client, own: str, key: str) -> SharedServices | None:
    """The Services of the set, with the faults of what is shared by way of peers."""
    found = await sharedservices.read(client, own)
    if found is None or found.missing:
        return found
    lists = KindLists(client)
    peers = await lists.of(FOREIGN_CLUSTERS, ForeignCluster)
    namespaces = await lists.of(NAMESPACES, Partial)
    if lists.refused:
        return msgspec.structs.replace(found, unread=(*found.unread, *lists.refused))
    ids = {each.spec.cluster_id for each in peers}
    notes = {each.metadata.name: each.metadata.annotations for each in namespaces}
    here = Here(own, key, ids, notes, signer, time.time())
    return msgspec.structs.replace(found, ways=way_faults(found, here))


async def _clusterset(client: Client, own: str) -> SetFacts | None:
    """The ids of this cluster and of its set, which any program may have written; None: unknown."""
    try:
        return set_facts(own, await client.list(CLUSTER_PROPERTIES))
    except (Forbidden, NotFound):
        return None


async def _definitions(client: Client) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The custom resources that are missing, or on their way out, and those that are older than a
    daemon of this version needs; empty where that is unknown."""
    try:
        found = await client.list(CUSTOM_RESOURCES, decode=Partial)
    except Forbidden:
        return (), ()
    there = {
        each.metadata.name: each.metadata.annotations.get(labels.CRD_REVISION, "0")
        for each in found
        if each.metadata.deletion_timestamp is None
    }
    names = [name_of(each.resource.KIND) for each in DEFINITIONS]
    older = (name for name in names if name in there and is_older(there[name]))
    return tuple(name for name in names if name not in there), tuple(older)


async def _policies(client: Client, namespace: str) -> tuple[str, ...]:
    """Our admission policies that are missing, or deny nothing; empty where that is unknown."""
    try:
        policies = await client.list(ADMISSION_POLICIES, decode=policycontroller.InstalledPolicy)
        bindings = await client.list(
            ADMISSION_POLICY_BINDINGS, decode=policycontroller.PolicyBinding
        )
    except (Forbidden, NotFound):
        return ()
    wanted = [
        *admission.policies(),
        *daemonpolicies.policies(namespace),
        *homepolicies.policies(namespace),
    ]
    return policycontroller.missing(wanted, policies, bindings)
