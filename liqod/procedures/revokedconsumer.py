"""Revokes the rights of a consumer, at once, even while its certificates are still valid.

No API server of Kubernetes revokes a certificate, so all rights that it has are deleted: every
binding of the consumer's users and groups, in all namespaces, also those made by hand. The tenant
namespace is marked, so that the daemon gives none of them again; a new peering user
(:mod:`liqod.procedures.peeringusers`) lifts that. A certificate for a name with a key stays useless
then, too; one for a name of Liqo's is noted, and blocks that name while it is valid.
"""

from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CLUSTER_ROLE_BINDINGS, NAMESPACES, ROLE_BINDINGS, SECRETS, Kind
from liqod.apimachinery.meta import Partial
from liqod.cluster.tenancy import replicas_of, users_of
from liqod.errors import NotFound, ProtocolError
from liqod.identity import certificates
from liqod.kube import times
from liqod.kube.client import Client
from liqod.kube.deletion import delete_all
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.procedures import peeringusers
from liqod.procedures.revocations import Living, Mark, marked, noted_keys
from liqod.provider.tenants.certificateissuer import CERTIFICATE_FIELD
from liqod.provider.tenants.trust import Binding, Subject
from liqod.resources import REPLICATED, TENANTS

BINDINGS: tuple[Kind, ...] = (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)


def is_theirs(subject: Subject, consumer: str) -> bool:
    """True if a binding's subject is a user or the group of that consumer, with any key."""
    if subject.kind not in ("Group", "User"):
        return False
    if subject.kind == "User" and ids.is_slice_user(subject.name, consumer):
        return True
    return subject.name == consumer or subject.name.startswith(ids.keyed(consumer, ""))


async def mark(client: Client, namespace: str, key: str, lives: tuple[Living, ...]) -> Mark:
    """Mark a tenant namespace; earlier notes stay.

    Raises:
        NotFound: there is no such namespace.
    """
    live = await client.get(NAMESPACES, namespace, decode=Partial)
    before = marked(live.metadata.annotations, key)
    if before is None:
        made = Mark(times.now(), lives)
    elif lives:
        made = Mark(before.at, tuple({each.what: each for each in before.lives + lives}.values()))
    else:
        return before
    text = msgspec.json.encode(made).decode()
    await client.patch(NAMESPACES, namespace, {"metadata": {"annotations": {key: text}}})
    return made


async def note_keys(client: Client, namespace: str, keys: Mapping[str, Iterable[str]]) -> None:
    """Note on a tenant namespace the keys that are revoked, by the peer's role.

    Raises:
        NotFound: there is no such namespace.
    """
    marks = (await client.get(NAMESPACES, namespace, decode=Partial)).metadata.annotations
    notes: dict[str, str] = {}
    for role, shown in keys.items():
        notes |= noted_keys(marks, role, shown)
    if notes:
        await client.patch(NAMESPACES, namespace, {"metadata": {"annotations": notes}})


async def is_known(client: Client, consumer: str, namespace: str) -> bool:
    """True if this cluster has given a consumer any right or object."""
    if await client.find(TENANTS, consumer, namespace, decode=Partial) is not None:
        return True
    live = await client.get(NAMESPACES, namespace, decode=Partial)
    if labels.REVOKED_TENANT in live.metadata.annotations:
        return True
    return bool(
        await client.list(ROLE_BINDINGS, Selection(labels=users_of(consumer)), decode=Partial)
    )


async def certificates_of(client: Client, consumer: str, namespace: str) -> tuple[Living, ...]:
    """The certificates that were issued for a consumer and are still valid."""
    ends: dict[str, str] = {}
    users = Selection(labels=users_of(consumer))
    for bound in await client.list(ROLE_BINDINGS, users, decode=Binding):
        until = bound.metadata.annotations.get(labels.PEERING_USER_ENDS, "")
        ends |= {subject.name: until for subject in bound.subjects or ()}
    found = [
        Living(f"the certificate of {user}, without rights", until, dead=True)
        for user, until in ends.items()
    ]
    for each in await client.list(SECRETS, Selection(namespace)):
        if not each["metadata"]["name"].startswith(ids.certificate_secret()):
            continue
        try:
            facts = certificates.read(b64decode(each.get("data", {}).get(CERTIFICATE_FIELD, "")))
        except (ProtocolError, ValueError):
            continue
        what = f"the certificate of {facts.common_name}, without rights"
        dead = ids.is_keyed(facts.common_name) or any(map(ids.is_keyed, facts.organizations))
        found.append(Living(what, times.of(facts.not_after), dead))
    return tuple(found)


async def take(client: Client, consumer: str, namespace: str) -> list[str]:
    """Delete all rights of the consumer, then its objects; returns all of them, one line each."""
    gone = []
    users = await peeringusers.revoke(client, consumer)
    if users:
        gone.append(f"peering users of {consumer} ({users} objects)")
    for kind in BINDINGS:
        gone += await _unbind(client, kind, consumer)
    try:
        status: dict[str, Any] = {"status": {"authParams": None, "tenantNamespace": None}}
        live = await client.get(TENANTS, consumer, namespace)
        if live.get("status"):
            await client.patch(TENANTS, consumer, status, namespace, subresource="status")
            gone.append(f"Tenant {consumer}: its way in")
    except NotFound:
        pass
    secrets = await client.list(SECRETS, Selection(namespace), decode=Partial)
    gone += await _delete(client, SECRETS, [each for each in secrets if _is_given(each)])
    return gone + await _end(client, consumer, namespace)


def _is_given(secret: Partial) -> bool:
    """True if a Secret is the consumer's nonce, or one of its certificates."""
    name = secret.metadata.name
    return name == labels.NONCE_SECRET or name.startswith(ids.certificate_secret())


async def _end(client: Client, consumer: str, namespace: str) -> list[str]:
    """Delete the consumer's objects, also without a daemon: maps first, or namespaces come back."""
    gone = []
    for kind in REPLICATED:
        mine = Selection(namespace, labels=replicas_of(consumer))
        gone += await _delete(client, kind, await client.list(kind, mine, decode=Partial))
    mapped = await namespaces_of(client, consumer, namespace)
    gone += await _delete(client, NAMESPACES, mapped)
    return gone


async def namespaces_of(client: Client, consumer: str, namespace: str) -> list[Partial]:
    """The namespaces that were made for the consumer, by maps of its tenant namespace."""
    mine = f"{labels.REMOTE_CLUSTER_ID}={consumer}"
    owner = ids.managed_by_map(namespace, "")
    return [
        each
        for each in await client.list(NAMESPACES, Selection(labels=mine), decode=Partial)
        if each.metadata.annotations.get(labels.MANAGED_BY_NAMESPACE_MAP, "").startswith(owner)
    ]


async def _delete(client: Client, kind: Kind, found: list[Partial]) -> list[str]:
    """Delete objects; a line for each deleted one."""
    return [_line(kind, each) for each in await delete_all(client, kind, found)]


async def remaining_bindings(client: Client, consumer: str, namespace: str) -> list[str]:
    """Every binding of the consumer's users or group, and its namespaces; one line for each."""
    mapped = await namespaces_of(client, consumer, namespace)
    return [f"{NAMESPACES.name} {each.metadata.name}" for each in mapped] + [
        _line(kind, each)
        for kind in BINDINGS
        for each in await client.list(kind, decode=Binding)
        if any(is_theirs(subject, consumer) for subject in each.subjects or ())
    ]


def _line(kind: Kind, found: Binding | Partial) -> str:
    where = f"{found.metadata.namespace}/" if found.metadata.namespace else ""
    return f"{kind.name} {where}{found.metadata.name}"


async def _unbind(client: Client, kind: Kind, consumer: str) -> list[str]:
    """Remove the consumer's subjects from every binding, and delete bindings without subjects."""
    gone = []
    for each in await client.list(kind, decode=Binding):
        subjects = each.subjects or ()
        theirs = [subject for subject in subjects if is_theirs(subject, consumer)]
        if not theirs:
            continue
        meta = each.metadata
        if len(theirs) == len(subjects):
            await client.delete(kind, meta.name, meta.namespace or None, uid=meta.uid)
        else:
            live = await client.get(kind, meta.name, meta.namespace or None)
            names = {(subject.kind, subject.name) for subject in theirs}
            left = [s for s in live["subjects"] if (s.get("kind"), s.get("name")) not in names]
            patch = {"metadata": {"resourceVersion": meta.resource_version}, "subjects": left}
            await client.patch(kind, meta.name, patch, meta.namespace or None)
        gone.append(_line(kind, each))
    return gone
