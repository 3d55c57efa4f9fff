"""What the daemon has to know of its own cluster before it can begin, and how it finds out.

The cluster's id is in the ConfigMap that the installation made; networks are those of the
configuration, of the nodes and of the ServiceCIDRs; the address that virtual nodes show is the one
from which this process reaches the API server, since that server reaches it back.
"""

import ipaddress
import logging
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import trio

from liqod.config import Config
from liqod.errors import ConfigError, Forbidden, LiqodError, NotFound, TransientError
from liqod.home import Addressing, ApiEndpoint
from liqod.kube.client import Client
from liqod.kube.credentials import Credentials
from liqod.kube.kinds import CONFIG_MAPS, NODES, Kind
from liqod.model import ids, labels

SERVICE_CIDRS = Kind("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs", namespaced=False)
"""Since Kubernetes 1.33; older servers do not tell."""
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
RETRY = 2.0

logger = logging.getLogger(__name__)


class _NodeSpec(msgspec.Struct, frozen=True, rename="camel"):
    pod_cidr: str = msgspec.field(name="podCIDR", default="")
    pod_cidrs: tuple[str, ...] = msgspec.field(name="podCIDRs", default=())


class _Node(msgspec.Struct, frozen=True):
    spec: _NodeSpec = _NodeSpec()


@dataclass(frozen=True)
class Facts:
    """What was found out; the fields are those of :class:`liqod.home.Home`."""

    cluster_id: str
    endpoint: ApiEndpoint
    version: str
    addressing: Addressing
    node_address: str
    in_cluster: bool


async def discover(client: Client, found: Credentials, config: Config) -> Facts:
    """Ask the API server until it has told everything.

    Raises:
        ConfigError: the configuration contradicts what is found.
    """
    told = ""
    while True:
        try:
            return await _discover(client, found, config)
        except (TransientError, NotFound, Forbidden) as error:
            if str(error) != told:
                told = str(error)
                logger.warning("not ready yet: %s; trying again every %.0f s", told, RETRY)
            await trio.sleep(RETRY)


async def _discover(client: Client, found: Credentials, config: Config) -> Facts:
    version = msgspec.json.decode((await client.raw("GET", "/version")).body)
    return Facts(
        cluster_id=await cluster_id(client, config.cluster.namespace),
        endpoint=advertised(found, config),
        version=str(version.get("gitVersion", "v1.30.0")),
        addressing=await _addressing(client, config),
        node_address=config.kubelet.host or outgoing_address(client.server),
        in_cluster=in_cluster(config),
    )


def in_cluster(config: Config) -> bool:
    """Whether this process is a pod of the cluster that it works for."""
    return SERVICE_ACCOUNT.exists() and not config.cluster.kubeconfig


async def cluster_id(client: Client, namespace: str) -> str:
    """This cluster's id, from the ConfigMap of the installation.

    Raises:
        NotFound: liqod is not installed here.
        ConfigError: there is more than one such ConfigMap, or its id is none.
    """
    selector = f"{labels.APP_NAME}={labels.CLUSTER_ID_NAME_LABEL}"
    maps = await client.list(CONFIG_MAPS, namespace, labels=selector)
    if not maps:
        raise NotFound(
            f"no cluster id in the namespace {namespace}: run `liqod install --cluster-id NAME`"
        )
    if len(maps) > 1:
        raise ConfigError(f"{len(maps)} ConfigMaps in {namespace} claim to hold the cluster's id")
    value = maps[0].get("data", {}).get(labels.CLUSTER_ID_FIELD, "")
    problem = ids.cluster_id_problem(value)
    if problem is not None:
        raise ConfigError(f"the cluster's id {value!r} cannot be used: {problem}")
    return str(value)


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
    return ApiEndpoint(config.api_server.advertise or found.server, authority)


async def _addressing(client: Client, config: Config) -> Addressing:
    pods = list(config.cluster.pod_cidrs)
    for node in await client.list(NODES, decode=_Node):
        pods += node.spec.pod_cidrs or filter(None, (node.spec.pod_cidr,))
    services = list(config.cluster.service_cidrs)
    try:
        for item in await client.list(SERVICE_CIDRS):
            services += item.get("spec", {}).get("cidrs", ())
    except LiqodError:
        logger.debug("the API server has no ServiceCIDRs")
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


def outgoing_address(server: str) -> str:
    """The local address from which the server at this URL is reached."""
    parts = urlsplit(server)
    host, port = parts.hostname or "127.0.0.1", parts.port or 443
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"
