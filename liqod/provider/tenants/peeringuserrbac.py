"""Ends peering users in time, and narrows them to reading once their consumer was accepted.

A peering user's kubeconfig is passed on by hand, so it is worth little to others: its work is
done when the consumer has its own certificate. From then on it may read, for a command that is done
again, and remove its own objects, for ``unpeer``; it may write no other key. The bindings go
when they have ended, regardless of the certificate: those that ``liqoctl`` makes live for a year.
"""

from datetime import UTC, datetime, timedelta

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ROLE_BINDINGS
from liqod.cluster.tenancy import users_of
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.provider.tenants.trust import Binding
from liqod.provider.timings import ORDINARY

RBAC = "rbac.authorization.k8s.io"
READER_ROLES = (labels.PEERING_USER_ACCEPTED_ROLE, labels.PEERING_USER_LIQOCTL_ROLE)


def expiry(binding: Binding, life: float = ORDINARY.peering_user_life) -> datetime:
    """The time at which a peering user's binding goes.

    Args:
        binding: that may name the end.
        life: seconds after it came where it names none.

    Raises:
        ValueError: its time is invalid.
    """
    said = binding.metadata.annotations.get(labels.PEERING_USER_ENDS)
    if said is not None:
        return datetime.fromisoformat(said)
    made = binding.metadata.creation_timestamp
    return datetime.fromisoformat(made or "1970-01-01T00:00:00Z") + timedelta(seconds=life)


def is_expired(binding: Binding, now: datetime, life: float = ORDINARY.peering_user_life) -> bool:
    """True if a binding's time is over, or cannot be read."""
    try:
        return expiry(binding, life) <= now
    except (ValueError, TypeError):
        return True


def rfc3339(moment: datetime) -> str:
    """A time as Kubernetes writes it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def restrict(client: Client, consumer: str, tenant_namespace: str, now: datetime) -> None:
    """End the peering users of an accepted consumer whose time is over, and let others read only.

    Raises:
        LiqodError: the API server refuses, or does not answer.
    """
    for each in await client.list(
        ROLE_BINDINGS, Selection(labels=users_of(consumer)), decode=Binding
    ):
        meta = each.metadata
        over = is_expired(each, now)
        writes = meta.namespace == tenant_namespace and not is_restricted(each)
        if writes and not over:
            # Under the same label, by which `liqoctl delete peering-user` finds it.
            kept = {labels.PEERING_USER, labels.PEERING_USER_KEY} & meta.labels.keys()
            marks, lists = {name: meta.labels[name] for name in kept}, is_liqoctls(each)
            await bind_reader(
                client, marks, tenant_namespace, users(each), expiry(each), lists=lists
            )
        if writes or over:
            await client.delete(ROLE_BINDINGS, meta.name, meta.namespace, uid=meta.uid)


async def expire(
    client: Client, consumer: str, now: datetime, life: float = ORDINARY.peering_user_life
) -> float | None:
    """End the peering users of a consumer that has no Tenant, each when its time is over.

    Args:
        client: may read and delete bindings.
        consumer: its cluster id.
        now: the present time.
        life: seconds for which a binding is good that names no end.

    Returns:
        The seconds until the next one's time; None if there is none left.
    """
    left = []
    for each in await client.list(
        ROLE_BINDINGS, Selection(labels=users_of(consumer)), decode=Binding
    ):
        meta = each.metadata
        if is_expired(each, now, life):
            await client.delete(ROLE_BINDINGS, meta.name, meta.namespace, uid=meta.uid)
        else:
            left.append((expiry(each, life) - now).total_seconds())
    return min(left, default=None)


def is_restricted(binding: Binding) -> bool:
    """True if a binding gives no more than an accepted consumer's peering user may have."""
    return binding.role_ref.kind == "ClusterRole" and binding.role_ref.name in READER_ROLES


def is_liqoctls(binding: Binding) -> bool:
    """True if a binding is for ``liqoctl``, which finds the nonce by listing Secrets."""
    role = binding.role_ref
    return (role.kind, role.name) == ("ClusterRole", labels.PEERING_USER_ROLE)


def users(binding: Binding) -> list[str]:
    """The users that it binds."""
    return [each.name for each in binding.subjects or () if each.kind == "User"]


async def bind_reader(
    client: Client,
    marks: dict[str, str],
    tenant_namespace: str,
    who: list[str],
    until: datetime,
    *,
    lists: bool,
) -> None:
    """Give peering users their reduced rights once their consumer was accepted.

    Args:
        client: may write bindings.
        marks: their labels.
        tenant_namespace: their consumer's.
        who: the users.
        until: the end of that.
        lists: they use ``liqoctl``.
    """
    for role in READER_ROLES if lists else READER_ROLES[:1]:
        await _bind(client, marks, tenant_namespace, role, who, until)


async def _bind(
    client: Client,
    marks: dict[str, str],
    namespace: str,
    role: str,
    who: list[str],
    until: datetime,
) -> None:
    name = f"{role}-{marks[labels.PEERING_USER]}"
    marks = {labels.MANAGED: labels.TRUE, **marks}
    annotations = {labels.PEERING_USER_ENDS: rfc3339(until)}
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": each} for each in who]
    if await client.find(ROLE_BINDINGS, name, namespace, decode=Binding) is not None:
        patch = {"metadata": {"labels": marks, "annotations": annotations}, "subjects": subjects}
        await client.patch(ROLE_BINDINGS, name, patch, namespace)
        return
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    metadata = {"name": name, "labels": marks, "annotations": annotations}
    made = {"metadata": metadata, "roleRef": reference, "subjects": subjects}
    await client.create(ROLE_BINDINGS, made, namespace)
