"""Makes and revokes peering users: kubeconfigs that let a consumer peer with this cluster only.

An administrator of this cluster does it (``liqod generate|delete peering-user``). Each has its own
name, so that deleting the bindings revokes the certificate for good: the next one for the same
consumer is another user. It is valid for an hour, and its rights shrink when the consumer is
accepted: :mod:`liqod.provider.tenants.peeringuserrbac`.
"""

import secrets
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, ROLE_BINDINGS, ROLES, SIGNING_REQUESTS, Kind
from liqod.apimachinery.meta import Partial
from liqod.cluster.tenancy import drop_unused_tenant_namespace, ensure_tenant_namespace, users_of
from liqod.errors import AlreadyExists, ConfigError, Conflict, ProtocolError
from liqod.identity import certificaterequests, keys
from liqod.identity.signingrequests import SigningRequests, sign
from liqod.kube.client import Client
from liqod.kube.credentials.render import kubeconfig
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.model.objects.rbac import rule
from liqod.procedures.revocations import living, marked, revoked_keys
from liqod.provider.tenants import peeringuserrbac
from liqod.provider.tenants.tenants import proven
from liqod.provider.timings import ORDINARY
from liqod.resources import TENANTS, Tenant
from liqod.runtime.gather import gather

RBAC = "rbac.authorization.k8s.io"
ROLE = "liqo-peering-user"
"""Name of the role, before the consumer's id."""
SHOWN = 32
"""Digits of a key by which the users that were made for it are found."""


def user_name(consumer: str, suffix: str) -> str:
    """Name of a peering user: the prefix shows its kind, the suffix makes it unique.

    The common name of a certificate has 64 characters, so a long id is cut; the binding's label has
    it whole.
    """
    room = ids.COMMON_NAME_LIMIT - len("liqo-peering-user--") - len(suffix)
    return f"liqo-peering-user-{consumer[:room]}-{suffix}"


def rules(consumer: str) -> list[dict[str, Any]]:
    """The rules of one peering user in its tenant namespace, beside those of all: it may read the
    Secret with the public key of its tunnel."""
    return [rule(("",), ("secrets",), ("get",), (ids.gateway_resource(consumer),))]


async def generate(
    client: Client,
    consumer: str,
    *,
    here: str,
    server: str,
    ca: bytes,
    namespace: str = labels.LIQO_NAMESPACE,
    list_secrets: bool = False,
    lifetime: float = ORDINARY.peering_user_life,
    key: str = "",
    anew: bool = False,
    lifts: str | None = None,
    replace_living: bool = False,
) -> bytes:
    """A kubeconfig for one consumer; its earlier users are revoked.

    This accepts a consumer that was revoked again, also with another key. One that is accepted gets
    a user that only reads.

    Args:
        client: with an administrator's rights.
        consumer: the consumer's id.
        here: this cluster's own id.
        server: this API server's URL, as the consumer reaches it.
        ca: PEM of its authority.
        namespace: liqod's own namespace in this cluster.
        list_secrets: let it read all Secrets of its tenant namespace, which ``liqoctl`` needs and
            ``liqod`` does not.
        lifetime: seconds for which it is valid, 600 or more.
        key: SHA-256 of the consumer's key, hexadecimal; empty where it is not known yet.
        anew: delete a Tenant that shows another key: an operator confirms that this one is its key.
        lifts: the mark of the only revocation that this takes back, empty for none; one that came
            after an operator had agreed to accept the consumer stays. None: any revocation.

        replace_living: allow names again whose revoked certificates are still valid.

    Raises:
        ConfigError: the id is malformed, or this cluster's own; or the consumer was revoked
            meanwhile.
    """
    ids.check_cluster_id(consumer)
    if consumer == here:
        raise ConfigError(f"{consumer} is this cluster's own id; name the consumer's")
    tenant = await ensure_tenant_namespace(client, consumer)
    await _let_in_again(client, consumer, tenant, key=key if anew else "", lifts=lifts)
    if replace_living:
        nothing = {"metadata": {"annotations": {labels.LIVING: None}}}
        await client.patch(NAMESPACES, tenant, nothing)
    user = user_name(consumer, secrets.token_hex(4))
    private = keys.generate()
    csr = certificaterequests.make_csr(private, user, labels.PEERING_USERS_GROUP)

    async def certified() -> bytes:
        # The signing request has the label by which those of earlier users go.
        # Their Role stays: it gives no rights without a binding.
        await _revoke(client, consumer, (ROLE_BINDINGS, SIGNING_REQUESTS))
        return await sign(
            client,
            csr,
            _marks(consumer, key),
            in_hand=SigningRequests(),
            lifetime=int(lifetime),
        )

    # The role should exist early: a binding is made when the API server has seen all
    # that was written before, which it looks for every 100 ms. No user is bound to it yet.
    certificate, _ = await gather(
        certified, partial(_renew_role, client, consumer, tenant, key, needed=not list_secrets)
    )
    who = (consumer, user, key)
    await _bind(client, who, tenant, namespace, lifetime, list_secrets=list_secrets)
    return kubeconfig(
        server=server,
        ca=ca,
        certificate=certificate,
        private=private,
        namespace=tenant,
        user=user,
        cluster=here,
    )


async def _bind(
    client: Client,
    who: tuple[str, str, str],
    tenant: str,
    namespace: str,
    lifetime: float,
    *,
    list_secrets: bool,
) -> None:
    """Give a peering user the roles that its consumer needs, in its tenant namespace and liqod's.

    Args:
        who: the consumer, the user's name and the consumer's key.
    """
    consumer, user, key = who
    until = datetime.now(UTC) + timedelta(seconds=lifetime)
    marks = {labels.PEERING_USER_ENDS: peeringuserrbac.rfc3339(until)}
    bindings: list[dict[str, Any]] = []
    if await _is_accepted(client, consumer, tenant):
        await client.delete_selected(ROLES, Selection(labels=users_of(consumer)))
        labelled = _marks(consumer, key)
        await peeringuserrbac.bind_reader(
            client, labelled, tenant, [user], until, lists=list_secrets
        )
    else:
        role = labels.PEERING_USER_ROLE
        if not list_secrets:
            role = labels.PEERING_USER_WRITER_ROLE
            reader = _binding(who, tenant, ("Role", f"{ROLE}-{consumer}"), marks)
            reader["metadata"]["name"] += "-key"
            bindings.append(reader)
        bindings.append(_binding(who, tenant, ("ClusterRole", role), marks))
    seen = labels.PEERING_USER_LIQO_ROLE
    bindings.append(_binding(who, namespace, ("Role", seen), marks))
    await gather(
        *(
            partial(client.create, ROLE_BINDINGS, each, each["metadata"]["namespace"])
            for each in bindings
        )
    )


async def _renew_role(
    client: Client, consumer: str, tenant: str, key: str, *, needed: bool
) -> None:
    """Replace the Role of a consumer's users by the present one, or delete it."""
    outdated = Selection(labels=users_of(consumer))
    if not needed:
        await client.delete_selected(ROLES, outdated)
        return
    own = {"metadata": _metadata(consumer, tenant, key), "rules": rules(consumer)}
    try:
        await client.create(ROLES, own, tenant)
    except AlreadyExists:
        await client.delete_selected(ROLES, outdated)
        await client.create(ROLES, own, tenant)


async def _is_accepted(client: Client, consumer: str, namespace: str) -> bool:
    """True if the consumer has been given a certificate for the key that its Tenant shows."""
    tenant = await client.find(TENANTS, consumer, namespace, decode=Tenant)
    return tenant is not None and not tenant.leaving and proven(tenant)


async def _let_in_again(
    client: Client, consumer: str, namespace: str, *, key: str, lifts: str | None
) -> None:
    """Lifts the revocation of a consumer for which a user is made, and removes its former rights.

    Args:
        key: its only valid one from now on; empty where none was given.
    """
    live = await client.get(NAMESPACES, namespace, decode=Partial)
    revoked = live.metadata.annotations.get(labels.REVOKED_TENANT)
    if None not in (revoked, lifts) and revoked != lifts:
        raise ConfigError(f"{consumer} has been revoked meanwhile")
    if revoked is None and not (key and await _is_another(client, consumer, namespace, key)):
        return
    await client.delete(TENANTS, consumer, namespace)
    gone = (
        labels.REVOKED_TENANT,
        labels.ACCEPTED_KEY,
        labels.NONCE_DIGEST,
        labels.UNKEYED_NAMES,
        labels.FORMER_KEY,
    )
    marks: dict[str, str | None] = dict.fromkeys(gone)
    if key:
        marks[labels.ACCEPTED_KEY] = key
    # Revoked keys stay so, under any id, except for the key that is accepted now.
    stay = revoked_keys(live.metadata.annotations) - {key}
    if stay:
        marks[labels.REVOKED_KEYS] = " ".join(sorted(stay))
    elif labels.REVOKED_KEYS in live.metadata.annotations:
        marks[labels.REVOKED_KEYS] = None
    noted = marked(live.metadata.annotations, labels.REVOKED_TENANT)
    lives = [living(noted) if noted else "", live.metadata.annotations.get(labels.LIVING, "")]
    if any(lives):
        marks[labels.LIVING] = max(lives)
    # With the version that was read: a revocation in between is none of those, and a conflict.
    version = live.metadata.resource_version
    patch = {"metadata": {"resourceVersion": version, "annotations": marks}}
    try:
        await client.patch(NAMESPACES, namespace, patch)
    except Conflict:
        await _let_in_again(client, consumer, namespace, key=key, lifts=lifts)


async def _is_another(client: Client, consumer: str, namespace: str, key: str) -> bool:
    """True if the Tenant shows another key than that one."""
    tenant = await client.find(TENANTS, consumer, namespace, decode=Tenant)
    try:
        return tenant is not None and keys.print_of(tenant.spec.public_key) != key
    except ProtocolError:
        return True


async def delete(client: Client, consumer: str) -> int:
    """Revoke the peering users of a consumer; the number of deleted objects.

    The tenant namespace that was made for them goes too if nothing came of it.
    """
    gone = await revoke(client, consumer)
    return gone + await drop_unused_tenant_namespace(client, consumer)


async def revoke(client: Client, consumer: str, key: str = "") -> int:
    """Delete the rights of a consumer's peering users for good; the number of deleted objects.

    Args:
        client: with an administrator's rights.
        consumer: the consumer's id.
        key: only of those that were made for this key; empty for all.
    """
    return await _revoke(client, consumer, (ROLE_BINDINGS, SIGNING_REQUESTS, ROLES), key)


async def _revoke(client: Client, consumer: str, kinds: tuple[Kind, ...], key: str = "") -> int:
    of_key = f",{labels.PEERING_USER_KEY}={key[:SHOWN]}" if key else ""
    users = Selection(labels=users_of(consumer) + of_key)
    return sum([await client.delete_selected(kind, users) for kind in kinds])


def _marks(consumer: str, key: str) -> dict[str, str]:
    """The labels of the objects that are made for a peering user."""
    of_key = {labels.PEERING_USER_KEY: key[:SHOWN]} if key else {}
    return {labels.MANAGED: labels.TRUE, labels.PEERING_USER: consumer, **of_key}


def _metadata(consumer: str, namespace: str, key: str) -> dict[str, Any]:
    name = f"{ROLE}-{consumer}"
    return {"name": name, "namespace": namespace, "labels": _marks(consumer, key)}


def _binding(
    who: tuple[str, str, str],
    namespace: str,
    role: tuple[str, str],
    marks: dict[str, str],
) -> dict[str, Any]:
    consumer, user, key = who
    return {
        "metadata": {**_metadata(consumer, namespace, key), "annotations": marks},
        "roleRef": {"apiGroup": RBAC, "kind": role[0], "name": role[1]},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }
