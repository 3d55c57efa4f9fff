"""Access of a pod at a peer to this cluster's API server: its tokens and the server's address.

In this cluster a kubelet requests the tokens that a pod projects; a peer's cannot. So this module
requests them, bound to the pod, and they are at the peer in a Secret that the pod's volume is made
from: the files have the paths, the modes and the texts that they have in this cluster, the name of
the namespace included. ``KUBERNETES_SERVICE_HOST`` and an entry of ``/etc/hosts`` lead to this
cluster. Names of the Secret, its keys and its marks are Liqo's. A token is a credential that the
peer's administrators can read: the cluster's setting (``api_server`` of a peer) decides which pods
may have any, and then the pod's annotation ``liqo.io/api-server-support``. Pure.
"""

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from liqod.apimachinery import labels
from liqod.model import ids

Json = dict[str, Any]
Mode = Literal["none", "asked", "home"]

SHORTEST: Final = 600
"""Seconds that a token lasts at least (the API server's own bound)."""
LONGEST: Final = 3600
"""Seconds that one lasts at most: it is renewed anyway, and is at a peer. Of 3607, the default that
pods request, an API server makes a year (Kubernetes' ``WarnOnlyBoundTokenExpirationSeconds``)."""
RESERVE: Final = 0.2
"""Part of its life that is left when one is renewed (Liqo's), and :data:`SPREAD` more or less."""
SPREAD: Final = 0.1
"""Renewals of pods that were made together come apart by so much of a token's life."""
HTTPS: Final = 443
"""The port at which pods find an API server."""
HOST: Final = "kubernetes.default"
"""A name that the certificate of every API server has."""
HOST_NAMES: Final = (HOST, f"{HOST}.svc")
"""Names of this cluster's API server in ``/etc/hosts``: Liqo's, which its providers look for."""
NAMESPACE: Final = "metadata.namespace"


class HomeApi(msgspec.Struct, frozen=True, kw_only=True):
    """The access of pods at one peer to this cluster's API server, with its address.

    Attributes:
        mode: ``none``; ``asked``: pods that are annotated; ``home``: all that project a token.
        host: the value of ``KUBERNETES_SERVICE_HOST``; empty while there is no path.
        port: the port of ``host``.
        alias: address of ``host`` for ``/etc/hosts``, as this cluster sends it: the peer
            translates it. Empty where ``host`` is found otherwise.
        awaited: whether there will be a path: networks are being joined.
    """

    mode: Mode = "none"
    host: str = ""
    port: int = HTTPS
    alias: str = ""
    awaited: bool = False


class Projection(msgspec.Struct, frozen=True):
    """A token in a volume of a pod.

    Attributes:
        key: its key in the Secret.
        audience: the server that accepts it; empty means the API server.
        seconds: its lifetime.
    """

    key: str
    audience: str
    seconds: int


def life(seconds: object) -> int:
    """The lifetime of a token to request, in seconds, from the one in a pod's spec."""
    asked = seconds if isinstance(seconds, int) else LONGEST
    return max(SHORTEST, min(LONGEST, asked))


def access(pod: Mapping[str, Any], mode: Mode = "none") -> str:
    """The API server that the pod is to use: ``remote``, ``home`` or ``disabled`` for none."""
    chosen = (pod["metadata"].get("annotations") or {}).get(labels.API_SERVER_SUPPORT)
    if chosen in (labels.API_SERVER_REMOTE, labels.API_SERVER_DISABLED):
        return str(chosen)
    wanted = mode == "home" or (mode == "asked" and chosen == labels.API_SERVER_HOME)
    return labels.API_SERVER_HOME if wanted and projections(pod) else labels.API_SERVER_DISABLED


def withheld(pod: Mapping[str, Any], api: HomeApi) -> str:
    """The reason why a pod has no access that it needs to the local API server; empty for none."""
    asked = (pod["metadata"].get("annotations") or {}).get(labels.API_SERVER_SUPPORT)
    if api.mode == "none":
        if asked != labels.API_SERVER_HOME:
            return ""
        return "no token of this cluster is given there (api_server under [[peers]])"
    if api.host or access(pod, api.mode) != labels.API_SERVER_HOME:
        return ""
    return "there is no way: the networks are not joined, and [api_server] for_pods names no other"


def projections(pod: Mapping[str, Any]) -> tuple[Projection, ...]:
    """The tokens that a pod projects."""
    return tuple(
        Projection(
            key=token_key(volume, str(token.get("path", ""))),
            audience=str(token.get("audience") or ""),
            seconds=life(token.get("expirationSeconds")),
        )
        for volume, token in _tokens(pod)
    )


def _tokens(pod: Mapping[str, Any]) -> Iterator[tuple[str, Json]]:
    for volume in pod["spec"].get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            token = source.get("serviceAccountToken")
            if token is not None:
                yield volume["name"], token


def token_key(volume: str, path: str) -> str:
    """The key of a token: ``<volume>-<first 3 bytes of SHA-256(path), hex>`` (Liqo's)."""
    return f"{volume}-{hashlib.sha256(path.encode()).digest()[:3].hex()}"


# --- The Secret at the peer -----------------------------------------------------------------------


def secret(pod: Mapping[str, Any], tokens: Sequence[tuple[str, str, str]]) -> Json:
    """The Secret that the volumes of a pod at a peer are made from.

    Args:
        pod: the local pod.
        tokens: key, text and RFC 3339 end of each.
    """
    meta = pod["metadata"]
    data = {key: _encoded(text) for key, text, _ in tokens}
    data |= {namespace_key(name): _encoded(meta["namespace"]) for name, _ in _tokens(pod)}
    notes = {
        labels.SERVICE_ACCOUNT_POD_NAME: meta["name"],
        labels.SERVICE_ACCOUNT_POD_UID: meta["uid"],
        labels.SERVICE_ACCOUNT_EXPIRATION: min(end for _, _, end in tokens),
    }
    name = account(pod)
    marks = {labels.SERVICE_ACCOUNT_NAME: name} if len(name) <= ids.LABEL_LIMIT else {}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": ids.token_secret(meta["name"]),
            "labels": marks,
            "annotations": notes,
        },
        "type": "Opaque",
        "data": data,
    }


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


def account(pod: Mapping[str, Any]) -> str:
    """The ServiceAccount of a local pod."""
    return str(pod["spec"].get("serviceAccountName") or "default")


def namespace_key(volume: str) -> str:
    """The key of the name of the namespace in the Secret."""
    return f"{volume}-namespace"


def left(pod: Mapping[str, Any], notes: Mapping[str, str], now: str) -> float | None:
    """Seconds that the tokens in a Secret last, by its annotations; None where it is not the pod's.

    A peer's report of their end counts for no longer than they can last.
    """
    if notes.get(labels.SERVICE_ACCOUNT_POD_UID) != pod["metadata"]["uid"]:
        return None
    try:
        end = datetime.fromisoformat(notes.get(labels.SERVICE_ACCOUNT_EXPIRATION, ""))
        seconds = (end - datetime.fromisoformat(now)).total_seconds()
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return min(seconds, float(_shortest(pod)))


def reserve(pod: Mapping[str, Any]) -> float:
    """Seconds that a token is to last when it is renewed; another for each pod."""
    share = int.from_bytes(hashlib.sha256(pod["metadata"]["uid"].encode()).digest()[:2]) / 0x10000
    return _shortest(pod) * (RESERVE + SPREAD * share)


def _shortest(pod: Mapping[str, Any]) -> int:
    return min((each.seconds for each in projections(pod)), default=SHORTEST)


# --- The pod at the peer --------------------------------------------------------------------------


def is_mounted(remote_pod: Mapping[str, Any], name: str) -> bool:
    """True if a volume of a pod at the peer is made from that Secret."""
    return any(
        (source.get("secret") or {}).get("name") == name
        for volume in (remote_pod.get("spec") or {}).get("volumes") or ()
        for source in (volume.get("projected") or {}).get("sources") or ()
    )


def projected(pod: Mapping[str, Any], volume: str, source: Json) -> Json:
    """A source of a volume that has tokens: these, and the namespace's name, from the Secret."""
    token = source.get("serviceAccountToken")
    name = ids.token_secret(pod["metadata"]["name"])
    if token is not None:
        path = str(token.get("path", ""))
        item: Json = {"key": token_key(volume, path), "path": path}
        if (pod["spec"].get("securityContext") or {}).get("fsGroup") is not None:
            item["mode"] = 0o600  # as a kubelet does; the group can read it all the same
        return {"secret": {"name": name, "items": [item]}}
    fields: list[Json] = (source.get("downwardAPI") or {}).get("items") or []
    if [(each.get("fieldRef") or {}).get("fieldPath") for each in fields] != [NAMESPACE]:
        return source
    item = {"key": namespace_key(volume), "path": fields[0]["path"]}
    if fields[0].get("mode") is not None:
        item["mode"] = fields[0]["mode"]
    return {"secret": {"name": name, "items": [item]}}


def led_home(spec: Json, api: HomeApi) -> Json:
    """The fields of a spec that change so that its containers find this cluster's API server."""
    where = f"tcp://{f'[{api.host}]' if ':' in api.host else api.host}:{api.port}"
    found = {
        "KUBERNETES_SERVICE_HOST": api.host,
        "KUBERNETES_SERVICE_PORT": str(api.port),
        "KUBERNETES_SERVICE_PORT_HTTPS": str(api.port),
        "KUBERNETES_PORT": where,
        "KUBERNETES_PORT_443_TCP": where,
        "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
        "KUBERNETES_PORT_443_TCP_ADDR": api.host,
        "KUBERNETES_PORT_443_TCP_PORT": str(api.port),
    }
    changed: Json = {
        group: [_told(each, found) for each in spec[group]]
        for group in ("containers", "initContainers")
        if spec.get(group)
    }
    if api.alias:
        entry = {"ip": api.alias, "hostnames": list(HOST_NAMES)}
        changed["hostAliases"] = [*(spec.get("hostAliases") or ()), entry]
    return changed


def _told(container: Json, found: Mapping[str, str]) -> Json:
    """First, so that variables of the container's own can be made of these."""
    own = container.get("env") or []
    named = {each.get("name") for each in own}
    told = [{"name": key, "value": found[key]} for key in found if key not in named]
    return {**container, "env": [*told, *own]}
