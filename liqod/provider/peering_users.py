"""Peering users: kubeconfigs with which a consumer may peer with this cluster, and no more.

Made and revoked by someone with rights here (``liqod generate|delete peering-user``). Each has a
name of its own, so that deleting the bindings revokes the certificate for good: the next one for
the same consumer is another user.
"""

import secrets
from collections.abc import Iterable
from typing import Any

from liqod.errors import ConfigError
from liqod.identity import keys, requests
from liqod.identity.signingrequests import SigningRequests, sign
from liqod.install import rights
from liqod.install.daemonrights import rule
from liqod.kube.client import Client
from liqod.kube.kinds import ROLE_BINDINGS, ROLES, SIGNING_REQUESTS, Kind
from liqod.kube.meta import Partial
from liqod.kube.render import kubeconfig
from liqod.model import ids, labels
from liqod.tenancy import drop_unused_tenant_namespace, ensure_tenant_namespace

RBAC = "rbac.authorization.k8s.io"
ROLE = "liqo-peering-user"
"""Name of the role, before the consumer's id."""


def user_name(consumer: str, suffix: str) -> str:
    """Name of a peering user: the prefix says what it is, the suffix makes it unique.

    The common name of a certificate has 64 characters, so a long id is cut; the binding's label has
    it whole.
    """
    room = ids.COMMON_NAME_LIMIT - len("liqo-peering-user--") - len(suffix)
    return f"liqo-peering-user-{consumer[:room]}-{suffix}"


def rules(*, list_secrets: bool) -> list[dict[str, Any]]:
    """What a peering user may do in its tenant namespace.

    Liqo's rules, but of Secrets the nonce only: where both clusters borrow from each other, the
    namespace holds this cluster's kubeconfigs for the peer. Events tell it why a Tenant is refused.

    Args:
        list_secrets: all Secrets, as in Liqo.
    """
    made = [
        one
        for one in rights.peering_user_rules()
        if list_secrets or "secrets" not in one["resources"]
    ]
    if not list_secrets:
        made.append(rule(("",), ("secrets",), ("create",)))
        made.append(rule(("",), ("secrets",), ("delete", "get"), (labels.NONCE_SECRET,)))
    return [*made, rule(("",), ("events",), ("get", "list"))]


async def generate(
    client: Client,
    consumer: str,
    *,
    here: str,
    server: str,
    ca: bytes,
    namespace: str = labels.LIQO_NAMESPACE,
    list_secrets: bool = False,
) -> bytes:
    """A kubeconfig for one consumer; the users made for it before are revoked.

    Args:
        client: with an administrator's rights.
        consumer: the consumer's id.
        here: this cluster's id.
        server: this API server's URL, as the consumer reaches it.
        ca: PEM of its authority.
        namespace: liqod's own namespace here.
        list_secrets: let it read all Secrets of its tenant namespace, which ``liqoctl`` needs and
            ``liqod`` does not.

    Raises:
        ConfigError: the id is none, or this cluster's own.
        LiqodError: the API server refuses.
    """
    ids.check_cluster_id(consumer)
    if consumer == here:
        raise ConfigError(f"{consumer} is this cluster's own id; name the consumer's")
    tenant = await ensure_tenant_namespace(client, consumer)
    await _revoke(client, consumer)
    user = user_name(consumer, secrets.token_hex(4))
    private = keys.generate()
    csr = requests.make_csr(private, user, labels.PEERING_USERS_GROUP)
    certificate = await sign(
        client, csr, {labels.PEERING_USER: consumer}, in_hand=SigningRequests()
    )
    role = {
        "metadata": _metadata(consumer, tenant),
        "rules": rules(list_secrets=list_secrets),
    }
    await client.create(ROLES, role, tenant)
    for where, name in ((tenant, ROLE), (namespace, rights.PEERING_USER_LIQO_ROLE)):
        await client.create(ROLE_BINDINGS, _binding(consumer, user, where, name), where)
    return kubeconfig(
        server=server,
        ca=ca,
        certificate=certificate,
        private=private,
        namespace=tenant,
        user=user,
        cluster=here,
    )


async def delete(client: Client, consumer: str) -> int:
    """Revoke the peering users of a consumer; how many objects went.

    The tenant namespace that was made for them goes too if nothing came of it.

    Raises:
        LiqodError: the API server refuses.
    """
    gone = await _revoke(client, consumer)
    return gone + await drop_unused_tenant_namespace(client, consumer)


async def _revoke(client: Client, consumer: str) -> int:
    selector = f"{labels.PEERING_USER}={consumer}"
    gone = 0
    for kind in (ROLE_BINDINGS, ROLES, SIGNING_REQUESTS):
        found = await client.list(kind, labels=selector, metadata_only=True, decode=Partial)
        gone += await _delete_all(client, kind, found)
    return gone


async def _delete_all(client: Client, kind: Kind, found: Iterable[Partial]) -> int:
    gone = 0
    for each in found:
        meta = each.metadata
        gone += await client.delete(kind, meta.name, meta.namespace or None, uid=meta.uid)
    return gone


def _metadata(consumer: str, namespace: str) -> dict[str, Any]:
    return {
        "name": f"{ROLE}-{consumer}",
        "namespace": namespace,
        "labels": {labels.MANAGED: labels.TRUE, labels.PEERING_USER: consumer},
    }


def _binding(consumer: str, user: str, namespace: str, role: str) -> dict[str, Any]:
    name = f"{ROLE}-{consumer}" if role == ROLE else role
    return {
        "metadata": _metadata(consumer, namespace),
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }
