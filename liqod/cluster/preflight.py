"""Discovers the facts about this cluster that the daemon needs before it can begin.

The cluster's id is in the ConfigMap that the installation made; networks are those of the
configuration, of the nodes and of the ServiceCIDRs; the address that virtual nodes show is the one
from which this process reaches the API server, since that server reaches it back.
"""

import ipaddress
import logging
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CONFIG_MAPS, NODES, Kind
from liqod.cluster.context import Addressing, ApiEndpoint
from liqod.cluster.ownid import WrongClusterId, id_problem, own_cluster_id
from liqod.config import Config
from liqod.errors import ConfigError, Forbidden, NotFound, TransientError
from liqod.kube.cache.informers import Informers
from liqod.kube.cache.store import StoreChange
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.selection import Selection
from liqod.model.objects.partial import Node
from liqod.runtime.sourceaddress import source_address

SERVICE_CIDRS = Kind("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs", namespaced=False)
"""Since Kubernetes 1.33; older servers do not have it."""
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
RETRY = 2.0
"""Seconds between tries while something is missing that others have to mend."""

logger = logging.getLogger(__name__)


class _IdMap(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


@dataclass(frozen=True)
class PreflightFacts:
    """Facts about this cluster, as fields of :class:`liqod.cluster.context.ClusterContext`."""

    cluster_id: str
    endpoint: ApiEndpoint
    version: str
    addressing: Addressing
    node_address: str
    in_cluster: bool


async def discover(
    client: Client, found: Credentials, config: Config, waiting: Callable[[str], None]
) -> PreflightFacts:
    """Ask the API server until all facts are known.

    Args:
        client: of this cluster.
        found: its credentials.
        waiting: called with the reason why that is not possible yet, when the reason changes.

    Raises:
        ConfigError: the configuration contradicts what is found.
    """
    told = ""
    while True:
        try:
            return await _discover(client, found, config)
        except (TransientError, NotFound, Forbidden, WrongClusterId) as error:
            if str(error) != told:
                told = str(error)
                waiting(told)
            await trio.sleep(RETRY)


async def _discover(client: Client, found: Credentials, config: Config) -> PreflightFacts:
    version = msgspec.json.decode((await client.raw("GET", "/version")).body)
    return PreflightFacts(
        cluster_id=await own_cluster_id(client, config.cluster.namespace),
        endpoint=advertised(found, config),
        version=str(version.get("gitVersion", "v1.30.0")),
        addressing=await _addressing(client, config),
        node_address=config.kubelet.host or await _outgoing_address(client.server),
        in_cluster=in_cluster(config),
    )


def in_cluster(config: Config) -> bool:
    """True if this process is a pod of the cluster that it works for."""
    return SERVICE_ACCOUNT.exists() and not config.cluster.kubeconfig


async def follow_id(informers: Informers, namespace: str, ours: str) -> NoReturn:
    """Say when somebody changes the id under a running daemon, which goes by the one it knows."""
    selector = f"{labels.APP_NAME}={labels.CLUSTER_ID_NAME_LABEL}"

    def changed(change: StoreChange) -> None:
        if change.new is None or change.key[1] != labels.CLUSTER_ID_CONFIG_MAP:
            return
        said = msgspec.json.decode(change.new, type=_IdMap).data.get(labels.CLUSTER_ID_FIELD, "")
        if said != ours:
            logger.error("%s", id_problem(said, ours, namespace))
        elif change.old is not None:
            logger.info("this cluster's id is %s again", ours)

    async with informers.share(CONFIG_MAPS, Selection(namespace, labels=selector)) as maps:
        stop = maps.subscribe(changed)
        try:
            await trio.sleep_forever()
        finally:
            stop()
    raise AssertionError("sleeping for ever has ended")


def advertised(found: Credentials, config: Config) -> ApiEndpoint:
    """How peers reach this API server.

    Raises:
        ConfigError: the authority's file cannot be read.
    """
    authority = found.ca or b""
    if config.api_server.ca_file:
        try:
            authority = Path(config.api_server.ca_file).read_bytes()
        except OSError as error:
            raise ConfigError(f"api_server.ca_file: {error}") from error
    problem = ""
    if in_cluster(config) and not config.api_server.advertise:
        problem = (
            f"the provider knows its API server as {found.server} only, an address inside its "
            "cluster: its administrator sets [api_server] advertise"
        )
        logger.warning("nothing is lent to new consumers: %s", problem)
    return ApiEndpoint(config.api_server.advertise or found.server, authority, problem)


async def _addressing(client: Client, config: Config) -> Addressing:
    pods = list(config.cluster.pod_cidrs)
    for node in await client.list(NODES, decode=Node):
        pods += node.spec.pod_cidrs or filter(None, (node.spec.pod_cidr,))
    services = list(config.cluster.service_cidrs)
    try:
        for item in await client.list(SERVICE_CIDRS):
            services += item.get("spec", {}).get("cidrs", ())
    except (NotFound, Forbidden) as error:
        logger.debug("no ServiceCIDRs are known", extra={"reason": str(error)})
    return Addressing(tuple(_networks(pods)), tuple(_networks(services)))


def _networks(texts: Iterable[str]) -> list[str]:
    """Distinct, valid prefixes, sorted as text.

    Raises:
        ConfigError: one is no prefix.
    """
    try:
        return sorted({str(ipaddress.ip_network(text, strict=False)) for text in texts})
    except ValueError as error:
        raise ConfigError(f"cluster: {error}") from error


async def _outgoing_address(server: str) -> str:
    """The local address from which the server at this URL is reached."""
    parts = urlsplit(server)
    host, port = parts.hostname or "127.0.0.1", parts.port or 443
    try:
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        return source_address(str(found[0][4][0]))
    except OSError:
        return "127.0.0.1"
