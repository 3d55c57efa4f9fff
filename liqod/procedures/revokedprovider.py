"""Revokes a provider that is no longer trusted: deletes this cluster's access to it for good.

No request goes to the provider: our objects at it stay until ``liqod unpeer``, after a new peering,
or its administrator removes them.
"""

from base64 import b64decode

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, SECRETS, Kind
from liqod.apimachinery.meta import Partial
from liqod.errors import ConfigError, ProtocolError
from liqod.identity import certificates
from liqod.kube import times
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.deletion import delete_all
from liqod.kube.selection import Selection
from liqod.resources import IDENTITIES, RENEWS, RESOURCE_SLICES

SOURCES = f"{labels.REPLICATION}={labels.TRUE}"
"""Selects this cluster's requests to a provider."""


async def is_known(client: Client, namespace: str) -> bool:
    """True if this cluster has, or had until the revocation, access to the provider."""
    if await client.list(IDENTITIES, Selection(namespace), decode=Partial):
        return True
    live = await client.get(NAMESPACES, namespace, decode=Partial)
    return labels.REVOKED_PROVIDER in live.metadata.annotations or bool(
        await client.list(
            SECRETS, Selection(namespace, labels=labels.IDENTITY_TYPE), decode=Partial
        )
    )


async def remaining_rights(client: Client, provider: str, namespace: str) -> list[tuple[str, str]]:
    """Rights from the provider that this cluster cannot end, in words with their end (RFC 3339)."""
    found = []
    for each in await client.list(SECRETS, Selection(namespace, labels=labels.IDENTITY_TYPE)):
        text = b64decode(each.get("data", {}).get(labels.KUBECONFIG_FIELD, ""))
        try:
            credentials = from_kubeconfig(text)
            facts = certificates.read(credentials.client_cert or b"")
        except (ConfigError, ProtocolError):
            continue
        what = f"the certificate of {facts.common_name} at {provider}, whose key is deleted here"
        found.append((what, times.of(facts.not_after)))
    if found:
        found.append((f"what this cluster has at {provider}, until it is removed there", ""))
    return found


async def take(client: Client, namespace: str) -> list[str]:
    """Delete the access; returns the deleted objects, one line for each."""
    # Requests first, or Identities would be made again, and from these their Secrets.
    gone = await _delete(client, RESOURCE_SLICES, namespace, SOURCES)
    gone += await _delete(client, IDENTITIES, namespace, "")
    gone += await _delete(client, SECRETS, namespace, labels.IDENTITY_TYPE)
    gone += await _delete(client, RENEWS, namespace, SOURCES)
    return gone


async def _delete(client: Client, kind: Kind, namespace: str, selector: str) -> list[str]:
    found = await client.list(kind, Selection(namespace, labels=selector), decode=Partial)
    gone = await delete_all(client, kind, found)
    return [f"{kind.name} {namespace}/{each.metadata.name}" for each in gone]
