"""Reads the Services of the set from one cluster, for ``liqod doctor``, ``status`` and ``explain``.

The cluster's DNS server is read as well, and left as it is.
"""

import time
from collections.abc import Iterable
from typing import Any

from liqod.apimachinery.kinds import ENDPOINT_SLICES, Kind
from liqod.clusterset.sharing import MADE_HERE, Kinds, KindsMissing, kinds_here
from liqod.errors import Forbidden, NotFound
from liqod.kube.client import Client
from liqod.kube.definitions import name_of
from liqod.kube.selection import EVERY, Selection
from liqod.model.clusterset.exports import Key
from liqod.model.view import servicefacts
from liqod.model.view.serviceanswer import ServiceAnswer, answer, peer_sight
from liqod.model.view.servicefacts import SharedServices
from liqod.procedures import clusterdns
from liqod.resources import FOREIGN_CLUSTERS, ForeignCluster
from liqod.resources.exchanges import SERVICE_EXCHANGES, ServiceExchange
from liqod.resources.multicluster import (
    SERVICE_EXPORTS,
    SERVICE_IMPORTS,
    VERSIONS,
    ServiceExport,
    ServiceImport,
)


async def read(client: Client, own: str) -> SharedServices | None:
    """The Services of the set; None in a cluster without ``liqod install --services``.

    Args:
        client: of the cluster.
        own: its id.
    """
    try:
        kinds = await kinds_here(client)
    except Forbidden:
        return None
    except KindsMissing:
        named = (SERVICE_EXPORTS[VERSIONS[0]], SERVICE_IMPORTS[VERSIONS[0]])
        return SharedServices(missing=tuple(map(name_of, named)))
    return await _of(client, kinds, own) if kinds is not None else None


async def _of(client: Client, kinds: Kinds, own: str) -> SharedServices:
    now = time.time()
    unread: list[str] = []
    exports = await _list(client, kinds.exports, unread, decode=ServiceExport)
    imports = await _list(client, kinds.imports, unread, decode=ServiceImport)
    exchanges = await _list(client, SERVICE_EXCHANGES, unread, decode=ServiceExchange)
    made = await _list(client, ENDPOINT_SLICES, unread, Selection(labels=MADE_HERE))
    endpoints = servicefacts.endpoints_of(made)
    of_peers = (servicefacts.exchange_facts(each, own, now) for each in exchanges)
    return SharedServices(
        exports=tuple(
            servicefacts.export_facts(each, now)
            for each in exports
            if each.metadata.deletion_timestamp is None
        ),
        imports=tuple(
            servicefacts.import_facts(
                each, now, endpoints.get((each.metadata.namespace, each.metadata.name), {})
            )
            for each in imports
        ),
        exchanges=tuple(each for each in of_peers if each is not None),
        unread=tuple(unread),
        dns=await clusterdns.name_server(client),
    )


async def explain(client: Client, own: str, key: Key) -> ServiceAnswer:
    """The answer about one Service of the set.

    Args:
        client: of the cluster.
        own: its id.
        key: namespace and name.

    Raises:
        NotFound: the cluster shares no Services, or has none of that name.
        Forbidden: they cannot be read.
    """
    known = await read(client, own)
    if known is None or known.missing:
        raise NotFound("this cluster shares no Services: `liqod install --services`")
    if known.unread:
        raise Forbidden(f"{', '.join(known.unread)} cannot be read by this user")
    found = await client.list(FOREIGN_CLUSTERS, decode=ForeignCluster)
    peers = {each.spec.cluster_id: peer_sight(each) for each in found}
    told = answer(known, key, own, peers)
    if told is None:
        raise NotFound(f"there is no ServiceExport or ServiceImport {'/'.join(key)}")
    return told


async def _list(
    client: Client, kind: Kind, unread: list[str], selection: Selection = EVERY, decode: Any = dict
) -> Iterable[Any]:
    """The objects of a kind; ``unread`` notes one that may not be read."""
    try:
        found: list[Any] = await client.list(kind, selection, decode=decode)
    except NotFound:
        return ()
    except Forbidden:
        unread.append(kind.plural)
        return ()
    return found
