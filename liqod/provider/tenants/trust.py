"""Checks of a consumer's requests before anything is signed.

A cluster id becomes the user and the group of its certificates. So beside the proof that the
consumer holds the key it shows, no one may get an id that already means something to this
cluster's RBAC. Pure: every check returns the fault, in one sentence, or None.
"""

from collections.abc import Iterable

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.errors import ProtocolError
from liqod.identity import certificaterequests, keys
from liqod.model import ids
from liqod.plugins import declared
from liqod.provider.tenants import usernames
from liqod.resources.authentication import (
    TOLERATE_NO_HANDSHAKE,
    ResourceSlice,
    Tenant,
)


class Subject(msgspec.Struct, frozen=True):
    """A subject of a binding (``rbac/v1 Subject``)."""

    kind: str = ""
    name: str = ""


class RoleRef(msgspec.Struct, frozen=True):
    """The role that a binding gives (``rbac/v1 RoleRef``)."""

    kind: str = ""
    name: str = ""


class Binding(msgspec.Struct, frozen=True, rename="camel"):
    """A RoleBinding or ClusterRoleBinding, as far as it is read."""

    metadata: ObjectMeta = ObjectMeta()
    role_ref: RoleRef = RoleRef()
    subjects: tuple[Subject, ...] | None = None


def is_ours(binding: Binding, peer: str, tenant_namespace: str) -> bool:
    """True if liqod (or Liqo before it) made this binding for that peer.

    By its label, and by name and role together: a label alone could be copied.
    """
    meta, role = binding.metadata, binding.role_ref
    if role.kind != "ClusterRole" or meta.labels.get(labels.REMOTE_CLUSTER_ID) != peer:
        return False
    if not meta.namespace:
        return (meta.name, role.name) == (
            ids.cluster_wide_binding(peer),
            labels.CLUSTER_WIDE_ROLE,
        )
    if meta.namespace == tenant_namespace and meta.name == labels.CONTROL_PLANE_BINDING:
        return role.name == labels.CONTROL_PLANE_ROLE
    return (meta.name, role.name) in (
        (tenant_namespace, labels.REMOTE_ROLE),
        *((each.binding(tenant_namespace), each.role) for each, _ in declared.opt_ins()),
    )


def taken(
    bindings: Iterable[Binding], peer: str, tenant_namespace: str, names: Iterable[str]
) -> str | None:
    """The reason why one of these names is taken, by a binding here; None where none is."""
    wanted = frozenset(names)
    for binding in bindings:
        for subject in binding.subjects or ():
            if subject.kind not in ("User", "Group") or subject.name not in wanted:
                continue
            if not is_ours(binding, peer, tenant_namespace):
                where = binding.metadata.namespace or "the whole cluster"
                return (
                    f"{subject.name} already is a {subject.kind} with rights here:"
                    f" binding {binding.metadata.name} in {where}"
                )
    return None


def identity_problem(tenant: Tenant, peer: str, here: str, tenant_namespace: str) -> str | None:
    """The reason why a Tenant is not this peer's, in its namespace and name; None where it is."""
    if tenant.spec.cluster_id != peer:
        return f"the Tenant is of {tenant.spec.cluster_id!r}, but this namespace belongs to {peer}"
    if tenant.name != peer:
        return f"the Tenant must be named {peer}, as its cluster id"
    if tenant.namespace != tenant_namespace:
        return f"the Tenant must be in {tenant_namespace}"
    if peer == here:
        return f"{peer} is this cluster's own id"
    return ids.cluster_id_problem(peer)


def request_problem(tenant: Tenant) -> str | None:
    """The reason why a Tenant requests more than its own name and key; None where it does not.

    Checked before every signature, not only the first: one able to change the Tenant later
    would get any name signed otherwise.
    """
    spec = tenant.spec
    if not spec.public_key or not spec.csr:
        return "the Tenant lacks publicKey or csr"
    try:
        certificaterequests.check(
            spec.csr,
            common_name=spec.cluster_id,
            organization=labels.CONTROL_PLANE_GROUP,
            public_key=spec.public_key,
        )
    except ProtocolError as error:
        return str(error)
    return None


def handshake_problem(tenant: Tenant, nonce: bytes) -> str | None:
    """The reason why a Tenant does not prove its key; None where our nonce is signed with it.

    Args:
        tenant: the Tenant with the signature.
        nonce: the text in our Secret ``liqo-nonce``; empty if there is none.
    """
    spec = tenant.spec
    if not nonce:
        return f"there is no nonce in the Secret {labels.NONCE_SECRET} yet"
    if not spec.public_key or not spec.signature:
        return "the Tenant lacks publicKey or signature"
    try:
        if not keys.verify(spec.public_key, nonce, spec.signature):
            return "the signature is not the nonce's by the Tenant's key"
    except ProtocolError as error:
        return str(error)
    return None


def key_problem(tenant: Tenant, known: str) -> str | None:
    """The reason why a consumer's key is not the one accepted before; None where it is.

    Args:
        tenant: the one that shows the key.
        known: SHA-256 of that key; empty for a consumer that is new.
    """
    if known in ("", keys.print_of(tenant.spec.public_key)):
        return None
    peer = tenant.spec.cluster_id
    return (
        f"{peer} was accepted with another key (SHA-256 {known[:16]}…): if this is still {peer}, "
        f"its provider's administrator says so by `liqod revoke {peer}` and a new peering user"
    )


def revoked_problem(peer: str) -> str:
    """The refusal for a consumer that was revoked."""
    return f"{peer} was revoked here: its provider's administrator lets it in with a peering user"


def slice_problem(
    wanted: ResourceSlice, tenant: Tenant | None, peer: str, here: str, former: str = ""
) -> str | None:
    """The reason why a slice of this peer may have no certificate; None where it may.

    Args:
        wanted: the replica of the consumer's ResourceSlice.
        tenant: the peer's Tenant if it was accepted, else None.
        former: SHA-256 of the key that the consumer comes from; empty for none.
    """
    spec = wanted.spec
    if tenant is None:
        return f"{peer} is no accepted tenant here"
    if spec.consumer_cluster_id != peer:
        return f"the slice is of {spec.consumer_cluster_id!r}, but comes from {peer}"
    if spec.provider_cluster_id and spec.provider_cluster_id != here:
        return f"the slice is asked of {spec.provider_cluster_id}, but this is {here}"
    problem = ids.slice_name_problem(wanted.name)
    if problem is not None:
        return problem
    known = None if tenant.spec.authz_policy == TOLERATE_NO_HANDSHAKE else tenant.spec.public_key
    try:
        found = certificaterequests.inspect(spec.csr)
        asked, allowed = found.organization, {usernames.keyed_of(tenant)} if known else set()
        if known and former and keys.print_of(found.public_key) == former:
            known, allowed = found.public_key, {ids.keyed(peer, former)}
        certificaterequests.check(
            spec.csr,
            common_name=ids.slice_user(wanted.name, peer),
            organization=asked if asked in allowed else peer,
            public_key=known,
        )
    except ProtocolError as error:
        return str(error)
    return None
