"""The answer of ``liqod explain`` about a Service of the set, and the sums of ``status``. Pure.

Of each cluster it has the endpoints here, and the reason where none is ready.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.model.clusterset import byway
from liqod.model.clusterset.choosing import LEAVES_OUT, PREFERENCE
from liqod.model.clusterset.corefile import ZONE
from liqod.model.clusterset.exports import HEADLESS, Key
from liqod.model.clusterset.importing import derived_name
from liqod.model.clusterset.keeping import KEPT
from liqod.model.clusterset.verdicts import CONFLICT, FAMILY_NOT_SUPPORTED
from liqod.model.peering.foreigncluster import API_SERVER, CONNECTION, ERROR, ESTABLISHED
from liqod.model.view.figures import counted
from liqod.model.view.servicefacts import (
    Endpoints,
    ExchangeFacts,
    ExportFacts,
    ImportFacts,
    SharedServices,
)
from liqod.resources import ForeignCluster

NO_TUNNEL: Final = "none"
TUNNEL: Final = "tunnel"


class PeerSight(msgspec.Struct, frozen=True):
    """A peer, as far as its endpoints depend on it.

    Attributes:
        down: the reason why its pods are not reached: the tunnel, or without one its API server;
            empty if they are.
        pod_network: the path to its pods.
    """

    down: str = ""
    pod_network: str = "tunnel"


class ClusterAnswer(msgspec.Struct, frozen=True):
    """The part of one cluster in a Service of the set.

    Attributes:
        cluster: its id.
        exports: it is an exporter.
        total: its endpoints in this cluster's EndpointSlices.
        ready: those that are ready.
        why: the reason why none is, or why nothing gets through to one that is; empty for neither.
        remedy: the step that changes that; empty for none.
        by_way: the peer by way of which it is reached; empty for this cluster and its peers.
    """

    cluster: str
    exports: bool
    total: int
    ready: int
    why: str = ""
    remedy: str = ""
    by_way: str = ""


class ServiceAnswer(msgspec.Struct, frozen=True):
    """The answer about a Service of the set.

    Attributes:
        namespace: of the Service.
        name: of the Service.
        type: of the import; empty where there is none.
        ips: its addresses.
        dns: its name in the set.
        rewrite: the line that has a CoreDNS without that zone answer it; empty for none.
        said: the conditions of this cluster's export and of the import that are not as they are to
            be, as sentences.
        clusters: the part of each cluster, this one first.
    """

    namespace: str
    name: str
    type: str
    ips: tuple[str, ...]
    dns: str
    rewrite: str
    said: tuple[str, ...]
    clusters: tuple[ClusterAnswer, ...]

    @property
    def ready(self) -> bool:
        """True if it has a ready endpoint in any cluster."""
        return any(each.ready for each in self.clusters)


def peer_sight(found: ForeignCluster) -> PeerSight:
    """The sight of a peer by its ForeignCluster."""
    path = found.metadata.annotations.get(labels.POD_NETWORK, NO_TUNNEL)
    down = (
        each.message or "it does not answer"
        for each in found.status.conditions
        if (
            (each.type, each.status) == (CONNECTION, ERROR)
            if path == TUNNEL
            else each.type == API_SERVER and each.status != ESTABLISHED
        )
    )
    return PeerSight(next(down, ""), path)


def answer(
    known: SharedServices, key: Key, own: str, peers: Mapping[str, PeerSight]
) -> ServiceAnswer | None:
    """The answer about one name; None where this cluster has to do with no export of it.

    Args:
        known: the Services of the set.
        key: namespace and name.
        own: this cluster's id.
        peers: the peers by id.
    """
    export = next((each for each in known.exports if each.key == key), None)
    import_ = next((each for each in known.imports if each.key == key), None)
    exchanges = [each for each in known.exchanges if each.namespace == key[0]]
    ways = _ways(key[1], import_, exchanges, peers)
    if export is None and import_ is None and not ways:
        return None
    others = {*peers, *(import_.clusters if import_ is not None else ())} - {own, *ways}
    found = [_own(own, key, export, import_)]
    for peer in sorted(others):
        heard = [each for each in exchanges if each.peer == peer]
        found.append(_peer(peer, key, import_, heard, peers.get(peer)))
    for cluster, hub in sorted(ways.items()):
        heard = [each for each in exchanges if each.peer == hub]
        found.append(_third(cluster, hub, key, import_, heard, peers.get(hub)))
    name, home = ".".join(reversed(key)), f"{derived_name(key)}.{key[0]}.svc.cluster.local"
    dns = f"{name}.svc.{ZONE}"
    addressed = import_ is not None and import_.type != HEADLESS
    return ServiceAnswer(
        *key,
        import_.type if import_ is not None else "",
        import_.ips if import_ is not None else (),
        dns,
        f"rewrite name exact {dns} {home}" if addressed else "",
        tuple(_said(export, import_)),
        tuple(found),
    )


def _said(export: ExportFacts | None, import_: ImportFacts | None) -> Iterable[str]:
    for type_, each in (export.conditions if export is not None else {}).items():
        if each.status != ("False" if type_ == CONFLICT else "True"):
            yield f"ServiceExport: {type_} is {each.status}: {each.reason}: {each.message}"
    ready = import_.ready if import_ is not None else None
    if ready is not None and ready.status != "True":
        yield f"ServiceImport: Ready is {ready.status}: {ready.reason}: {ready.message}"
    asked = import_.preference if import_ is not None else None
    if asked is not None:
        told = "" if asked.status == "True" else f"{PREFERENCE} is {asked.status}: "
        yield f"ServiceImport: {told}{asked.reason}: {asked.message}"
    kept = import_.kept if import_ is not None else None
    if kept is not None:
        yield f"ServiceImport: {KEPT} is {kept.status}: {kept.reason}: {kept.message}"


def _part(cluster: str, import_: ImportFacts | None) -> tuple[Endpoints, bool]:
    """The endpoints of a cluster in the import, and whether it is an exporter."""
    if import_ is None:
        return Endpoints(), False
    return import_.endpoints.get(cluster, Endpoints()), cluster in import_.clusters


def _own(
    own: str, key: Key, export: ExportFacts | None, import_: ImportFacts | None
) -> ClusterAnswer:
    here, exports = _part(own, import_)
    if here.ready:
        return ClusterAnswer(own, exports, *here)
    namespace, name = key
    if export is None:
        why, remedy = "it does not export it", ""
    elif not exports:
        why, remedy = "its export is not in the import", "the conditions above say why"
    elif here.total:
        why, remedy = f"of its {counted(here.total, 'pod')} none is ready", _pods(key)
    else:
        why = "its Service has no pods"
        remedy = f"`kubectl get endpointslices -n {namespace} -l {labels.SERVICE_NAME}={name}`"
    return ClusterAnswer(own, exports, *here, why, remedy)


def _pods(key: Key) -> str:
    return f"`kubectl get pods -n {key[0]}` says why"


def _peer(
    peer: str,
    key: Key,
    import_: ImportFacts | None,
    exchanges: list[ExchangeFacts],
    sight: PeerSight | None,
) -> ClusterAnswer:
    here, exports = _part(peer, import_)
    if here.ready:
        kept = import_ is not None and import_.kept is not None
        why = f"nothing gets through to it: {sight.down}" if kept and sight and sight.down else ""
        return ClusterAnswer(peer, exports, *here, why, _doctor(peer) if why else "")
    heard = [each.heard[key[1]] for each in exchanges if key[1] in each.heard]
    if heard:
        why, remedy = _unready(peer, key, max(heard), sight, import_)
    else:
        why, remedy = _unheard(peer, key[0], exchanges)
    return ClusterAnswer(peer, exports, *here, why, remedy)


def _ways(
    name: str,
    import_: ImportFacts | None,
    exchanges: Iterable[ExchangeFacts],
    peers: Collection[str],
) -> dict[str, str]:
    """The clusters, no peers, that have to do with a Service by way of a peer, with that peer."""
    found = {
        cluster: each.peer
        for each in exchanges
        for service, cluster in map(byway.of_told, sorted({*each.relayed, *each.passed}))
        if service == name and cluster not in peers
    }
    return {**found, **(import_.ways if import_ is not None else {})}


def _third(
    cluster: str,
    hub: str,
    key: Key,
    import_: ImportFacts | None,
    exchanges: list[ExchangeFacts],
    sight: PeerSight | None,
) -> ClusterAnswer:
    """The part of a cluster that is reached by way of a peer."""
    here, exports = _part(cluster, import_)
    name = byway.told_name(key[1], cluster)
    heard = [each.heard[name] for each in exchanges if name in each.heard]
    why, remedy = f"by way of {hub}", ""
    if sight is not None and sight.down:
        why, remedy = f"{why}, to which nothing gets through: {sight.down}", _doctor(hub)
    elif not heard:
        why = f"{why}, which tells no export of it"
    elif not exports:
        why, remedy = f"{why}; its export is left out", "`liqod doctor` and `liqod events` say why"
    elif not here.ready and not max(heard).total:
        why, remedy = f"{why}, which tells no endpoint of it", f"`liqod events` at {hub} says why"
    elif not here.ready and not max(heard).ready:
        why = f"{why}: of its {counted(max(heard).total, 'pod')} none is ready there"
        remedy = _there(key)
    elif not here.ready:
        why, remedy = _unready(hub, key, max(heard), sight, import_)
        why = f"by way of {hub}: {why}"
    lacks = any(name in each.passed for each in exchanges)
    if lacks and not any(each.passed.get(name) for each in exchanges):
        why = f"{why}; it has not taken this cluster's export, whose Ready says why"
    return ClusterAnswer(cluster, exports, *here, why, remedy, hub)


def _unready(
    peer: str, key: Key, there: Endpoints, sight: PeerSight | None, import_: ImportFacts | None
) -> tuple[str, str]:
    """The reason why no endpoint of an export that a peer tells is ready here, and the remedy."""
    ready = import_.ready if import_ is not None else None
    asked = import_.preference if import_ is not None else None
    if sight is not None and sight.down:
        return f"nothing gets through to it, so none is ready: {sight.down}", _doctor(peer)
    if not there.total:
        return "it tells of no endpoint: its Service has no pods that it can tell", _there(key)
    if not there.ready:
        return f"of its {counted(there.total, 'pod')} none is ready there", _there(key)
    if ready is not None and ready.reason == FAMILY_NOT_SUPPORTED:
        return ready.message, "give the Service a family that this cluster has, too"
    if sight is not None and sight.pod_network == NO_TUNNEL:
        why = f"{counted(there.ready, 'pod')} there, and this cluster does not reach its pods"
        return why, "join the networks, or say that they are one: pod_network"
    if asked is not None and asked.reason in LEAVES_OUT:
        return f"the Service here leaves its endpoints out, by {labels.ENDPOINT_PREFERENCE}", ""
    why = f"it tells of {counted(there.ready, 'ready pod')}, and none is taken here"
    return why, f"`liqod doctor {peer}` and `liqod events` say why"


def _doctor(peer: str) -> str:
    return f"`liqod doctor {peer}` says which layer fails"


def _there(key: Key) -> str:
    return f"`kubectl get pods -n {key[0]}` there says why"


def _unheard(peer: str, namespace: str, exchanges: list[ExchangeFacts]) -> tuple[str, str]:
    """The reason why a peer tells of no export of a name, and the remedy."""
    share = f"`kubectl annotate namespace {namespace} {labels.SHARE_SERVICES}={{}}`"
    if not exchanges:
        why = f"the namespace {namespace} is not shared by both clusters"
        return why, f"{share.format(peer)} here, and the same there with this cluster's id"
    if any(each.shared is None for each in exchanges):
        why = "it has not answered what is told it"
        return why, "see that its daemon runs, with `liqod install --services`"
    if not any(each.shared for each in exchanges):
        why = f"it does not share the namespace {namespace}"
        return why, f"there, annotate it {labels.SHARE_SERVICES}, with this cluster's id"
    return "it does not export it", ""


class PeerShare(msgspec.Struct, frozen=True):
    """The number of exports that a peer is told, and that it tells, and of their namespaces."""

    peer: str
    namespaces: int
    told: int
    heard: int


class ServicesRow(msgspec.Struct, frozen=True):
    """The number of ServiceExports and ServiceImports, and the part of each peer."""

    exports: int
    imports: int
    peers: tuple[PeerShare, ...] = ()


def sums(known: SharedServices | None) -> ServicesRow | None:
    """The sums of the Services of the set; None where there are none."""
    if known is None or not (known.exports or known.imports or known.exchanges):
        return None
    rows = []
    for peer in sorted({each.peer for each in known.exchanges}):
        mine = [each for each in known.exchanges if each.peer == peer]
        # Two clusters that borrow from each other have one exchange in each direction.
        told = {(each.namespace, name) for each in mine for name in each.told}
        heard = {(each.namespace, name) for each in mine for name in each.heard}
        spaces = len({each.namespace for each in mine})
        rows.append(PeerShare(peer, spaces, len(told), len(heard)))
    return ServicesRow(len(known.exports), len(known.imports), tuple(rows))
