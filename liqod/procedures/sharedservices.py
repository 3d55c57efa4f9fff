"""Reads the Services of the set from one cluster, for ``liqod doctor``, ``status`` and ``explain``.

The cluster's DNS server is read as well, and left as it is.
"""

import time
from collections.abc import Iterable
from typing import Any, Final

from liqod.apimachinery.kinds import (
    CONFIG_MAPS,
    CUSTOM_RESOURCES,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    Kind,
)
from liqod.clusterset.sharing import MADE_HERE, Kinds, kinds_here
from liqod.errors import Forbidden, LiqodError, NotFound
from liqod.kube.client import Client
from liqod.kube.definitions import name_of
from liqod.kube.reviews import AuthenticatedUser, may
from liqod.kube.selection import EVERY, Selection
from liqod.model.clusterset import corefile
from liqod.model.clusterset.exports import Key
from liqod.model.view import servicefacts
from liqod.model.view.serviceanswer import ServiceAnswer, answer, peer_sight
from liqod.model.view.servicefacts import NameServer, SharedServices
from liqod.resources import FOREIGN_CLUSTERS, ForeignCluster
from liqod.resources.exchanges import SERVICE_EXCHANGES, ServiceExchange
from liqod.resources.multicluster import (
    GROUP,
    SERVICE_EXPORTS,
    SERVICE_IMPORTS,
    VERSIONS,
    ServiceExport,
    ServiceImport,
)

SYSTEM: Final = "kube-system"
DNS: Final = Selection(SYSTEM, labels="k8s-app=kube-dns")
"""The Deployment of the cluster's DNS server, whichever program it is."""
COREFILE: Final = "Corefile"


async def read(client: Client, own: str) -> SharedServices | None:
    """The Services of the set; None in a cluster without ``liqod install --services``.

    Args:
        client: of the cluster.
        own: its id.
    """
    try:
        if await client.find(CUSTOM_RESOURCES, name_of(SERVICE_EXCHANGES)) is None:
            return None
        kinds = await kinds_here(client)
    except Forbidden:
        return None
    if kinds is None:
        named = (SERVICE_EXPORTS[VERSIONS[0]], SERVICE_IMPORTS[VERSIONS[0]])
        return SharedServices(missing=tuple(map(name_of, named)))
    return await _of(client, kinds, own)


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
        dns=await name_server(client),
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


async def name_server(client: Client) -> NameServer:
    """The cluster's DNS server; what cannot be read of it is left empty."""
    try:
        found = await client.list(CONFIG_MAPS, Selection(SYSTEM))
        deployments = await client.list(DEPLOYMENTS, DNS)
    except (Forbidden, NotFound):
        return NameServer()
    pod: Any = deployments[0]["spec"]["template"]["spec"] if deployments else {}
    used = {(volume.get("configMap") or {}).get("name") for volume in pod.get("volumes") or ()}
    texts: dict[str, dict[str, str]] = {
        each["metadata"]["name"]: each.get("data") or {}
        for each in found
        if not deployments or each["metadata"]["name"] in used
    }
    place = next((name for name, data in sorted(texts.items()) if COREFILE in data), "")
    if not place:
        return NameServer()
    # A Corefile may import the files of another ConfigMap that the pods have.
    others = [text for name, data in texts.items() if name != place for text in data.values()]
    names = corefile.read("\n".join((texts[place][COREFILE], *(others if deployments else ()))))
    account = str(pod.get("serviceAccountName") or "")
    return NameServer(
        f"{SYSTEM}/{place}",
        names,
        _version(pod),
        account,
        await _lists(client, account) if names.directive == corefile.OPTION else None,
    )


def _version(pod: Any) -> tuple[int, ...]:
    images = (str(each.get("image")) for each in pod.get("containers") or ())
    found = (corefile.version_of(each) for each in images if "coredns" in each)
    return next(found, ())


async def _lists(client: Client, account: str) -> bool | None:
    """True if the DNS server may list and watch ServiceImports; None: unknown."""
    if not account:
        return None
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{SYSTEM}", "system:authenticated")
    user = AuthenticatedUser(f"system:serviceaccount:{SYSTEM}:{account}", groups)
    asked = {"group": GROUP, "resource": SERVICE_IMPORTS[VERSIONS[0]].plural}
    try:
        return all([await may(client, user, verb=verb, **asked) for verb in ("list", "watch")])
    except LiqodError:
        return None
