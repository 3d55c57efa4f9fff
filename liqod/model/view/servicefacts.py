"""Facts about the Services of the set, from the objects of one cluster. Pure.

The doctor's checks (:mod:`liqod.plugins.checks.services`) and ``liqod explain`` read them.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from math import inf
from typing import Any, Final, Literal, NamedTuple

import msgspec

from liqod.apimachinery import labels
from liqod.errors import ProtocolError
from liqod.model import ids
from liqod.model.clusterset import byway
from liqod.model.clusterset.choosing import PREFERENCE
from liqod.model.clusterset.corefile import Names
from liqod.model.clusterset.exports import Export, Key, mark_of
from liqod.model.clusterset.keeping import KEPT
from liqod.resources.exchanges import ExchangeSpec, ExchangeStatus, ServiceExchange
from liqod.resources.multicluster import (
    SERVICE_NAME,
    SOURCE_CLUSTER,
    MultiClusterCondition,
    ServiceExport,
    ServiceImport,
)

READY: Final = "Ready"
Verdict = Literal["answered", "absent", "failed", "silent", "foreign"]


class Condition(NamedTuple):
    """A condition of an export or an import, and the seconds for which it has held."""

    status: str
    reason: str
    message: str
    lasts: float


class Endpoints(NamedTuple):
    """The number of endpoints, and of those that are ready."""

    total: int = 0
    ready: int = 0


class ExportFacts(msgspec.Struct, frozen=True):
    """A ServiceExport of this cluster.

    Attributes:
        key: namespace and name.
        age: seconds since it was made.
        conditions: by type.
    """

    key: Key
    age: float
    conditions: dict[str, Condition] = {}


class ImportFacts(msgspec.Struct, frozen=True):
    """A ServiceImport of this cluster.

    Attributes:
        key: namespace and name.
        age: seconds since it was made.
        ours: it is made by liqod.
        type: ``ClusterSetIP`` or ``Headless``.
        ips: its addresses.
        ready: the condition Ready; None while there is none.
        clusters: the exporters.
        endpoints: those in this cluster's EndpointSlices, by exporter.
        preference: the condition on the endpoints that its Service asks for; None for none.
        kept: the condition on endpoints of silent clusters that are kept; None for none.
        ways: the peers by way of which exporters are imported that are no peers, by these.
    """

    key: Key
    age: float
    ours: bool
    type: str
    ips: tuple[str, ...] = ()
    ready: Condition | None = None
    clusters: tuple[str, ...] = ()
    endpoints: dict[str, Endpoints] = {}
    preference: Condition | None = None
    kept: Condition | None = None
    ways: dict[str, str] = {}

    @property
    def backends(self) -> Endpoints:
        """The endpoints of all exporters."""
        found = self.endpoints.values()
        return Endpoints(sum(each.total for each in found), sum(each.ready for each in found))


class ExchangeFacts(msgspec.Struct, frozen=True):
    """The exchange of one namespace's exports with a peer.

    Attributes:
        peer: the peer.
        namespace: the namespace.
        asked: this cluster has made it, and the peer answers.
        age: seconds since it was made.
        shared: the peer's word on its sharing of the namespace; None while it has none.
        told: names of the exports that this cluster tells.
        heard: the exports of the peer, by name: their endpoints there. Those of other clusters that
            it shares on have the cluster's id behind the name, after a dot.
        relayed: the latter, as the peer tells them.
        passed: by such a name, whether another cluster has taken an export of this one by way of
            the peer, of those that it may; None where the peer has no room for it.
    """

    peer: str
    namespace: str
    asked: bool
    age: float
    shared: bool | None = None
    told: frozenset[str] = frozenset()
    heard: dict[str, Endpoints] = {}
    relayed: dict[str, str] = {}
    passed: dict[str, bool | None] = {}


class Asked(msgspec.Struct, frozen=True):
    """The answer of the cluster's DNS server about a name of the set.

    Attributes:
        server: its address.
        name: the name.
        verdict: the name has its address; it has none, or another; the server has failed
            (SERVFAIL); nothing answers there; or another cluster's server does.
    """

    server: str
    name: str
    verdict: Verdict


class NameServer(msgspec.Struct, frozen=True):
    """The cluster's DNS server, as far as it serves the names of the set.

    Attributes:
        place: its configuration, as ``namespace/name``; empty: unknown.
        names: what its configuration says of these names.
        version: of CoreDNS; empty: unknown.
        account: its ServiceAccount; empty: unknown.
        lists: that may list and watch ServiceImports; None: unknown.
        asked: its answer, where it was asked.
        responder: the answer of liqod's own DNS server of these names; None where there is none.
        deaf_cache: the configuration of a DNS cache on the nodes that sends the names elsewhere,
            as ``namespace/name``; empty where none is seen.
    """

    place: str = ""
    names: Names = Names()
    version: tuple[int, ...] = ()
    account: str = ""
    lists: bool | None = None
    asked: Asked | None = None
    responder: Asked | None = None
    deaf_cache: str = ""


class WayFault(msgspec.Struct, frozen=True):
    """A fault of what a namespace shares with another cluster by way of a peer.

    Attributes:
        namespace: the namespace.
        what: the fault, a sentence.
        remedy: the step against it.
        age: seconds since there is what it is about; infinite where that has no time.
    """

    namespace: str
    what: str
    remedy: str
    age: float = inf


class SharedServices(msgspec.Struct, frozen=True, kw_only=True):
    """The Services of the set in one cluster.

    Attributes:
        exports: its ServiceExports.
        imports: its ServiceImports.
        exchanges: those with all peers.
        missing: custom resources that are missing.
        unread: kinds that might not be read.
        dns: the DNS server.
        off: the daemon that runs does not share Services.
        ways: the faults of what is shared by way of peers.
    """

    exports: tuple[ExportFacts, ...] = ()
    imports: tuple[ImportFacts, ...] = ()
    exchanges: tuple[ExchangeFacts, ...] = ()
    missing: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    dns: NameServer = NameServer()
    off: bool = False
    ways: tuple[WayFault, ...] = ()


def export_facts(found: ServiceExport, now: float) -> ExportFacts:
    """The facts about an export at a Unix time."""
    meta = found.metadata
    conditions = {each.type: _condition(each, now) for each in found.status.conditions}
    return ExportFacts(
        (meta.namespace, meta.name), _since(meta.creation_timestamp, now), conditions
    )


def import_facts(
    found: ServiceImport, now: float, endpoints: Mapping[str, Endpoints]
) -> ImportFacts:
    """The facts about an import at a Unix time.

    Args:
        found: the import.
        now: the time.
        endpoints: in its EndpointSlices, by exporter.
    """
    meta, status = found.metadata, found.status
    said = {each.type: _condition(each, now) for each in status.conditions}
    return ImportFacts(
        (meta.namespace, meta.name),
        _since(meta.creation_timestamp, now),
        meta.labels.get(labels.MANAGED_BY_LIQOD) == labels.TRUE,
        found.spec.type,
        found.spec.ips,
        said.get(READY),
        tuple(each.cluster for each in status.clusters),
        dict(endpoints),
        said.get(PREFERENCE),
        said.get(KEPT),
        byway.read(meta.annotations),
    )


def exchange_facts(found: ServiceExchange, own: str, now: float) -> ExchangeFacts | None:
    """The facts about an exchange at a Unix time; None where it is none with a peer.

    Args:
        found: the exchange.
        own: this cluster's id.
        now: the time.
    """
    marks, status = found.metadata.labels, found.status
    namespace, _, provider = found.metadata.name.rpartition(".")
    age = _since(found.metadata.creation_timestamp, now)
    asks, answers = found.spec, status if status is not None else ExchangeStatus()
    shared: bool | None = True
    mine: ExchangeSpec | ExchangeStatus
    theirs: ExchangeSpec | ExchangeStatus
    if marks.get(labels.REPLICATED) == labels.TRUE and provider == own:
        peer, mine, theirs = marks.get(labels.ORIGIN_ID, ""), answers, asks
    elif marks.get(labels.REMOTE_ID) == provider:
        peer, mine, theirs = provider, asks, answers
        shared = status.shared if status is not None else None
    else:
        return None
    return ExchangeFacts(
        *(peer, namespace, peer == provider, age, shared),
        frozenset(mine.exports),
        _heard(theirs.exports),
        {name: text for name, text in theirs.exports.items() if _is_relayed(name)},
        _passed(mine.exports, theirs.confirmed),
    )


def _is_relayed(name: str) -> bool:
    """True if a peer can mean another cluster's export by that name, which may be any text."""
    return all(map(ids.is_dns_label, byway.of_told(name)))


def _passed(told: Mapping[str, str], confirmed: Mapping[str, str]) -> dict[str, bool | None]:
    """The clusters that may have exports by way of the one that is told, and whether they have."""
    return {
        other: None
        if confirmed.get(other) == byway.LEFT_OUT
        else confirmed.get(other) == mark_of(text)
        for name, text in told.items()
        if not byway.of_told(name)[1]
        for other in (byway.told_name(name, each) for each in byway.consents(text))
    }


def endpoints_of(found: Iterable[Mapping[str, Any]]) -> dict[Key, dict[str, Endpoints]]:
    """The endpoints in the EndpointSlices of imports, by import and exporter."""
    counted: dict[Key, dict[str, Endpoints]] = defaultdict(dict)
    for each in found:
        meta = each["metadata"]
        marks = meta.get("labels") or {}
        key, source = (meta["namespace"], marks.get(SERVICE_NAME, "")), marks.get(SOURCE_CLUSTER)
        if not source:
            continue
        before = counted[key].get(source, Endpoints())
        endpoints = each.get("endpoints") or ()
        # An endpoint without that condition is ready (``discovery/v1 EndpointConditions``).
        ready = sum((one.get("conditions") or {}).get("ready") is not False for one in endpoints)
        counted[key][source] = Endpoints(before.total + len(endpoints), before.ready + ready)
    return dict(counted)


def _heard(texts: Mapping[str, str]) -> dict[str, Endpoints]:
    """The endpoints that each export has where it is from; none in one that cannot be read."""
    found: dict[str, Endpoints] = {}
    for name, text in texts.items():
        try:
            slices = msgspec.json.decode(text, type=Export).slices
        except (msgspec.DecodeError, ProtocolError):
            slices = ()
        every = [one for each in slices for one in each.endpoints]
        found[name] = Endpoints(len(every), sum(one.ready for one in every))
    return found


def _condition(found: MultiClusterCondition, now: float) -> Condition:
    lasts = _since(found.last_transition_time, now)
    return Condition(found.status, found.reason, found.message, lasts)


def _since(stamp: str | None, now: float) -> float:
    """Seconds since a time; 0 for one that cannot be read, or of a clock that is ahead."""
    try:
        return max(now - datetime.fromisoformat(stamp or "").timestamp(), 0.0)
    except ValueError:
        return 0.0
