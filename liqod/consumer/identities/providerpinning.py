"""The place of a provider, by which it is identified: its authority and its address.

The id that a cluster states proves nothing. The first peering accepts a provider's own id;
from then on the id belongs to the authority whose certificates the API server shows, and to its
address. Only the operator gives it to another (``liqod peer --replace``).

A provider may move by itself, in its answer to a Renew, which comes over a connection to the place
that is known: to another address under the same authority, or to another authority at the same
address, never both at once, and only to where it answers to the certificate that it gave.
"""

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SECRETS
from liqod.apimachinery.meta import Partial
from liqod.consumer.identities.clusterkeys import ClusterKeys
from liqod.errors import ConfigError, LiqodError, ProtocolError
from liqod.identity import certificates
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.credentials.render import kubeconfig
from liqod.kube.http.proxies import Dial
from liqod.kube.http.wire import connect
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.model.crossing.addresses import parse, refuse
from liqod.model.objects.partial import Secret
from liqod.resources import IDENTITIES, RENEWS, AuthParams, Identity

ANSWERS_WITHIN = 10.0
"""Seconds in which a provider must answer at the place that it announces as its new one."""


class ServerPin(msgspec.Struct, frozen=True):
    """The address of an API server, and the authority that vouches for it.

    Attributes:
        server: host and port.
        authority: SHA-256 of the keys of its authorities; empty where the system's are trusted.
    """

    server: str
    authority: frozenset[str]

    def named(self) -> str:
        """The place, readable: address, and the beginning of the authority's fingerprint."""
        prints = ", ".join(f"SHA-256 {each[:16]}…" for each in sorted(self.authority))
        return f"{self.server} (authority {prints or 'of the system'})"


def pin_of(server: str, ca: bytes | None) -> ServerPin:
    """The place that a URL and PEM certificates name.

    Raises:
        ProtocolError: the certificates cannot be read.
    """
    parts = urlsplit(server)
    port = parts.port or (80 if parts.scheme == "http" else 443)
    where = f"{parts.hostname or ''}:{port}{parts.path.rstrip('/')}"
    return ServerPin(where, certificates.key_prints(ca) if ca else frozenset())


def same_authority(found: ServerPin, known: ServerPin) -> bool:
    """True if no other authority vouches for the found place than for the known one."""
    if not known.authority:
        return not found.authority
    return bool(found.authority) and found.authority <= known.authority


def differs(found: ServerPin, known: ServerPin) -> bool:
    """True if this place differs from the known one."""
    return found.server != known.server or not same_authority(found, known)


def may_move(offered: AuthParams, present: AuthParams) -> bool:
    """True if a provider may itself announce such a move: see the head of this module."""
    new = pin_of(offered.api_server, offered.ca)
    old = pin_of(present.api_server, present.ca)
    if new.server != old.server or offered.proxy_url != present.proxy_url:
        return same_authority(new, old)
    return True


def address_problem(offered: AuthParams, present: AuthParams, own: Iterable[str]) -> str:
    """The reason why a provider's new place is not its own, as a clause; empty if there is none.

    This cluster's daemon would call it in the provider's stead. Names are not resolved: a
    name may lead to another address the next time.

    Args:
        offered: its stated place.
        present: its former place; a form that was allowed then still is.
        own: this cluster's own networks, textual prefixes.
    """
    networks = tuple(own)

    def problem(url: str) -> str:
        host = _host(url)
        if host == "localhost" or host.endswith(".localhost"):
            host = "127.0.0.1"
        return (refuse(host, networks) or "") if parse(host) is not None else ""

    # Both clusters may be on one machine, or one in the other.
    had = {problem(present.api_server), problem(present.proxy_url), ""}
    hosts = {_host(present.api_server), _host(present.proxy_url)}
    for url in (offered.api_server, offered.proxy_url):
        found = problem(url)
        if found not in had and _host(url) not in hosts:
            return f"{_host(url)}: {found}"
    return ""


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""


async def existing_pin(local: Client, provider: str, namespace: str) -> ServerPin | None:
    """The known place of the provider of that id; None if it is not known yet.

    Args:
        local: of this cluster.
        provider: the id.
        namespace: its tenant namespace here.
    """
    name = ids.control_plane_identity(provider)
    identity = await local.find(IDENTITIES, name, namespace, decode=Identity)
    try:
        if identity is not None:
            given = identity.spec.auth_params
            return pin_of(given.api_server, given.ca)
        for secret in await _kubeconfigs(local, provider, namespace):
            found = from_kubeconfig(secret)
            return pin_of(found.server, found.ca)
    except (ConfigError, ProtocolError):
        return None  # it cannot be used, so it identifies nothing
    return None


async def _kubeconfigs(local: Client, provider: str, namespace: str) -> list[bytes]:
    """The kubeconfigs of control planes that users, or an Identity of before, left here."""
    selector = (
        f"{labels.IDENTITY_TYPE}={labels.CONTROL_PLANE},{labels.REMOTE_CLUSTER_ID}={provider}"
    )
    listed = await local.list(SECRETS, Selection(namespace, labels=selector), decode=Partial)
    held = [
        await local.find(SECRETS, each.metadata.name, namespace, decode=Secret) for each in listed
    ]
    texts = (each.value(labels.KUBECONFIG_FIELD) for each in held if each is not None)
    return [text for text in texts if text]


def kubeconfig_of(identity: Identity, given: AuthParams, own: ClusterKeys) -> bytes:
    """The kubeconfig of an Identity, made of the access that the provider gave."""
    facts = certificates.read(given.signed_crt)
    return kubeconfig(
        server=given.api_server,
        ca=given.ca,
        certificate=given.signed_crt,
        private=own.of(given.signed_crt).private,
        namespace=identity.spec.namespace,
        user=facts.common_name,
        cluster=identity.spec.cluster_id,
        proxy_url=given.proxy_url,
    )


async def answers(
    identity: Identity, offered: AuthParams, own: ClusterKeys, *, dial: Dial = connect
) -> bool:
    """True if the provider answers at a place, to the certificate that goes with it.

    Args:
        identity: the Identity of the control plane there.
        offered: the access that is tried.
        own: this cluster's key.
        dial: makes the connection.
    """
    found: Any = None
    with trio.move_on_after(ANSWERS_WITHIN):
        try:
            credentials = from_kubeconfig(kubeconfig_of(identity, offered, own))
            async with Client(credentials, deadline=ANSWERS_WITHIN, dial=dial) as client:
                found = await client.list(
                    RENEWS, Selection(identity.spec.namespace), decode=Partial
                )
        except LiqodError:
            return False
    return found is not None
