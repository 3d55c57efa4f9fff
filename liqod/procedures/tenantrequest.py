"""The Tenant of this cluster at a provider: its contents, and the reason of a refusal."""

from base64 import b64encode
from contextlib import suppress
from typing import Any

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import EVENTS, SECRETS
from liqod.consumer.identities.clusterkeys import ClusterKeys, keyed_request
from liqod.errors import Forbidden, ProtocolError
from liqod.identity import certificaterequests
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.model.objects.partial import Event, Secret
from liqod.resources import TENANTS, Tenant


class Sides(msgspec.Struct, frozen=True):
    """The two clusters of a handshake and their tenant namespaces.

    Attributes:
        local, remote: clients; the remote one has a peering user's rights.
        here, there: cluster ids.
        local_namespace: the provider's tenant namespace in this cluster.
        remote_namespace: this cluster's tenant namespace at the provider.
        proxy: URL of the HTTP proxy by which this cluster is to reach the other; empty for none.
    """

    local: Client
    remote: Client
    here: str
    there: str
    local_namespace: str
    remote_namespace: str
    proxy: str = ""


async def write_tenant(sides: Sides, own: ClusterKeys, signature: bytes) -> None:
    """Makes or updates the Tenant: Liqo's webhook refuses a second one, from any client."""
    wanted = _tenant(sides, own, signature)
    live = await sides.remote.find(TENANTS, sides.here, sides.remote_namespace)
    if live is None:
        await _forget_certificates(sides, own)
        await sides.remote.create(TENANTS, wanted, sides.remote_namespace)
    elif not _is_current(live, own, signature, sides.proxy):
        live["spec"] = {**live.get("spec", {}), **wanted["spec"]}
        asked = wanted["metadata"]["annotations"]
        live["metadata"]["annotations"] = {**live["metadata"].get("annotations", {}), **asked}
        await sides.remote.update(TENANTS, live, sides.remote_namespace)


async def _forget_certificates(sides: Sides, own: ClusterKeys) -> None:
    """Delete certificates that Liqo has kept from an earlier peering, with another key, say.

    It keeps them when the Tenant is deleted, and would answer only the same request ever after. A
    provider that runs liqod has removed them, and shows a peering user no other Secret.
    """
    prefix = ids.certificate_secret()
    mine = f"{labels.REMOTE_CLUSTER_ID}={sides.here}"
    with suppress(Forbidden):
        found = await sides.remote.list(
            SECRETS, Selection(sides.remote_namespace, labels=mine), decode=Secret
        )
        for each in found:
            name = each.metadata.name
            if name != prefix and not name.startswith(f"{prefix}-"):
                continue
            subject = (sides.here, labels.CONTROL_PLANE_GROUP)
            if name != prefix:
                user = ids.slice_user(name.removeprefix(f"{prefix}-"), sides.here)
                subject = (user, sides.here)
            if each.value("csr") != certificaterequests.make_csr(own.private, *subject):
                uid = each.metadata.uid
                await sides.remote.delete(SECRETS, name, sides.remote_namespace, uid=uid)


def _tenant(sides: Sides, own: ClusterKeys, signature: bytes) -> dict[str, Any]:
    csr = certificaterequests.make_csr(own.private, sides.here, labels.CONTROL_PLANE_GROUP)
    return {
        "metadata": {
            "name": sides.here,
            "namespace": sides.remote_namespace,
            "labels": {labels.REMOTE_CLUSTER_ID: sides.here},
            "annotations": {
                labels.KEYED_REQUEST: b64encode(keyed_request(own, sides.here)).decode()
            },
        },
        "spec": {
            "clusterID": sides.here,
            "publicKey": b64encode(own.public).decode(),
            "csr": b64encode(csr).decode(),
            "signature": b64encode(signature).decode(),
            **({"proxyURL": sides.proxy} if sides.proxy else {}),
        },
    }


def _is_current(live: dict[str, Any], own: ClusterKeys, signature: bytes, proxy: str) -> bool:
    """True if the existing Tenant has the contents of ours: signatures need not be equal bytes."""
    tenant = msgspec.convert(live, Tenant, strict=False)
    same = not proxy or tenant.spec.proxy_url == proxy
    return same and asks_for(tenant, own) and tenant.spec.signature == signature


def asks_for(tenant: Tenant, own: ClusterKeys) -> bool:
    """True if a Tenant has this cluster's id and key."""
    spec = tenant.spec
    try:
        certificaterequests.check(
            spec.csr,
            common_name=spec.cluster_id,
            organization=labels.CONTROL_PLANE_GROUP,
            public_key=own.public,
        )
    except ProtocolError:
        return False
    return spec.public_key == own.public


async def refusal(sides: Sides, tenant: Tenant) -> str:
    """The provider's newest reason for a refusal; empty if it gives none."""
    try:
        found = await sides.remote.list(EVENTS, Selection(sides.remote_namespace), decode=Event)
    except Forbidden:
        return ""
    about = [
        each
        for each in found
        if each.reason == "TenantRefused" and each.involved_object.uid == tenant.metadata.uid
    ]
    return max(about, key=lambda each: each.last_timestamp or "").message if about else ""
