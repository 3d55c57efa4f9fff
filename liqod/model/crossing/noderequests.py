"""Requests for a virtual node itself: the pages of a kubelet's API, and the rights to them.

Every virtual node of a daemon has the same address and port, and a request to a kubelet does not
name a node. So the name is taken from the path that the Node's annotation gives to metrics-server,
or from the header in which an API server gives the path of the original request.
Pure.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from liqod.errors import Invalid, NotFound
from liqod.model.ids import is_dns_subdomain

ROOT: Final = "/virtualnodes"
"""Begins the paths that name a node: ``/virtualnodes/NAME/metrics/resource``."""
HEALTHZ: Final = "/healthz"
PODS: Final = "/pods"
STATS: Final = "/stats/summary"
RESOURCE: Final = "/metrics/resource"
SERVED: Final = (HEALTHZ, PODS, STATS, RESOURCE)
"""The others a virtual node does not have."""
_SUBRESOURCES: Final = {
    "/healthz": ("healthz", "proxy"),
    "/pods": ("pods", "proxy"),
    "/runningpods": ("pods", "proxy"),
    "/configz": ("configz", "proxy"),
    "/stats": ("stats",),
    "/metrics": ("metrics",),
    "/logs": ("log",),
}
"""By the beginning of a path, the sub-resources of nodes any of which lets one in: as at a kubelet
of 1.32 and newer (KEP-2862). Pages that had a sub-resource of their own before are not granted by
``proxy``."""
_PROXIED: Final = re.compile(r"/api/v1/nodes/(?:https?:)?([^/:]+)(?::[^/:]*)?/proxy(?:/.*)?")


class NodeRequest(msgspec.Struct, frozen=True):
    """A request for a page of a node.

    Attributes:
        page: the path, as a kubelet has it.
        node: its name; empty where the request does not give it.
        subresources: of nodes; a right to any of them is enough.
    """

    page: str
    node: str
    subresources: tuple[str, ...]


def metrics_path(node: str) -> str:
    """The path at which metrics-server finds a node's metrics."""
    return f"{ROOT}/{node}{RESOURCE}"


def node_request(path: str, headers: Mapping[str, str]) -> NodeRequest | None:
    """The request for a node's page, from an HTTP request; None for any other request.

    Any client can write the header. It gives no right: it names the node on which the rights of the
    client are checked.

    Args:
        path: decoded.
        headers: names in lower case.

    Raises:
        Invalid: a name is not valid.
        NotFound: the path names a node, and no page of it.
    """
    node, page = "", path
    if path.startswith(f"{ROOT}/"):
        node, slash, rest = path.removeprefix(f"{ROOT}/").partition("/")
        page = slash + rest
    elif found := _PROXIED.fullmatch(headers.get("x-forwarded-uri", "").partition("?")[0]):
        node = found[1]
    if node and not is_dns_subdomain(node):
        raise Invalid("that is no name of a node")
    page = page.rstrip("/")
    first = "/" + page[1:].partition("/")[0]
    if first not in _SUBRESOURCES:
        if page != path.rstrip("/"):
            raise NotFound(f"nothing is known of a node at {page or '/'}")
        return None
    return NodeRequest(page, node, _SUBRESOURCES[first])
