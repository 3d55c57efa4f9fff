"""Addresses of API servers, and that at which pods at a peer reach their consumer's. Pure.

The consumer sends the address of its own external range; the provider, which makes the pod, writes
it as the pod in the provider reaches it. A provider that runs Liqo does the same.
"""

from typing import Any
from urllib.parse import urlsplit

from liqod.model.network.ranges import PeerRanges, translate
from liqod.model.objects.homeapi import HOST, HOST_NAMES, HTTPS, HomeApi, Mode

Json = dict[str, Any]


def place(text: str) -> tuple[str, int] | None:
    """Host and port of ``host`` or ``host:port``; None where it is neither."""
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port or HTTPS
    except ValueError:
        return None
    return (host, port) if host and parts.netloc == text and "@" not in text else None


def place_of(server: str) -> tuple[str, int]:
    """Host and port of an API server's URL. Raises ValueError: the port is none."""
    parts = urlsplit(server)
    return parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)


def remapped_api_server(
    mode: Mode, for_pods: str, ranges: PeerRanges | None, *, begun: bool = False
) -> HomeApi:
    """The access of the pods at a peer to this cluster's API server, with its address.

    Args:
        mode: the pods that have access.
        for_pods: its address by configuration; empty means by the tunnel.
        ranges: of the two clusters; None where no networks are joined.
        begun: whether they are being joined.
    """
    if mode == "none":
        return HomeApi()
    told = place(for_pods) if for_pods else None
    if told is not None:
        return HomeApi(mode=mode, host=told[0], port=told[1])
    opened = ranges.entrances if ranges is not None else ()
    shown = (each.shown for each in opened if (each.protocol, each.port) == ("tcp", HTTPS))
    alias = next(shown, "")
    if not alias:
        return HomeApi(mode=mode, awaited=begun)
    return HomeApi(mode=mode, host=HOST, alias=alias)


def is_api_server(spec: Json) -> bool:
    """True if a consumer's pod has a host alias for the consumer's API server."""
    aliases = spec.get("hostAliases")
    return isinstance(aliases, list) and any(map(_names_home, aliases))


def translated(spec: Json, ranges: PeerRanges) -> Json:
    """The spec of a consumer's pod, with the address of its API server translated for this cluster.

    An address in no external range of the consumer's is left as it is: a pod of its own may have
    any text in its ``/etc/hosts``.
    """
    if not is_api_server(spec):
        return spec
    return {**spec, "hostAliases": [_alias(each, ranges) for each in spec["hostAliases"]]}


def _names_home(entry: Any) -> bool:
    names = entry.get("hostnames") if isinstance(entry, dict) else None
    return isinstance(names, list) and any(name in HOST_NAMES for name in names)


def _alias(entry: Any, ranges: PeerRanges) -> Any:
    address = entry.get("ip") if _names_home(entry) else None
    here = translate(address, ranges.peer, ranges.seen) if isinstance(address, str) else None
    return entry if here is None else {**entry, "ip": here}
