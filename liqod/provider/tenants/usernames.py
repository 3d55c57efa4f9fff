"""The names under which a consumer has its rights here. Pure.

Liqo's are the consumer's id, which another cluster, or the same with another key, may have later:
then every certificate that was signed for it before is good again. So a consumer that runs liqod
also requests a user and groups that end in a part of its key (:func:`liqod.model.ids.keyed`), in an
annotation of its Tenant, or in its standing Renew where that Tenant is of a version that did not.

A consumer that changes from the names without a key to the others has its rights under both, which
the tenant namespace notes, until all that it has is signed under the new ones. So it is with one
that changes from one key to the next (:mod:`liqod.provider.tenants.keysuccession`).
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.meta import Partial
from liqod.cluster.tenancy import former_of
from liqod.errors import ProtocolError
from liqod.identity import certificaterequests, certificates, keys
from liqod.kube import times
from liqod.model import ids
from liqod.provider.tenants.keysuccession import decoded, former_in, has_followed
from liqod.resources import Renew, ResourceSlice, Tenant
from liqod.resources.authentication import CONTROL_PLANE


def keyed_of(tenant: Tenant) -> str:
    """The name with its key that a consumer may have; empty where it shows no key."""
    try:
        return ids.keyed(tenant.spec.cluster_id, keys.print_of(tenant.spec.public_key))
    except ProtocolError:
        return ""


def request_of(tenant: Tenant, renews: Iterable[Renew]) -> bytes:
    """The request that is to be signed for a consumer's control plane, PEM.

    One for the name with the Tenant's own key goes before that of Liqo's form.

    Args:
        tenant: which has passed :func:`liqod.provider.tenants.trust.request_problem`.
        renews: of the same consumer.
    """
    told = tenant.metadata.annotations.get(labels.KEYED_REQUEST, "")
    offered = [decoded(told)]
    offered += [each.spec.csr for each in renews if each.spec.identity_type == CONTROL_PLANE]
    return next((csr for csr in offered if csr and is_keyed(csr, tenant)), tenant.spec.csr)


def is_keyed(csr: bytes, tenant: Tenant) -> bool:
    """True if a request is for the control plane under the name with the Tenant's key."""
    try:
        certificaterequests.check(
            csr,
            common_name=keyed_of(tenant),
            organization=labels.CONTROL_PLANE_GROUP,
            public_key=tenant.spec.public_key,
        )
    except ProtocolError:
        return False
    return True


def has_keyed(tenant: Tenant) -> bool:
    """True if the certificate that a consumer was given last is for the name with its key, or with
    the one that this has followed."""
    given = tenant.status.auth_params
    if given is None:
        return False
    try:
        facts = certificates.read(given.signed_crt)
        if facts.common_name == keyed_of(tenant):
            return True
        shown = keys.print_of(facts.public_key)
    except ProtocolError:
        return False
    former = ids.keyed(tenant.spec.cluster_id, shown)
    return facts.common_name == former and has_followed(tenant, shown)


def keyed_names(tenant: Tenant, marks: Mapping[str, str]) -> tuple[str, ...]:
    """The name with a consumer's key, and the one with the key before while it has rights.

    Args:
        tenant: an accepted one.
        marks: annotations of its tenant namespace.
    """
    former = former_of(marks)
    before = (ids.keyed(tenant.spec.cluster_id, former),) if former else ()
    return tuple(dict.fromkeys((keyed_of(tenant), *before)))


def is_moved(found: ResourceSlice, keyed: Collection[str]) -> bool:
    """True if a slice requests no other group than those with a key, nor has another."""
    given, csr = found.status.auth_params, found.spec.csr
    try:
        asked = (certificaterequests.inspect(csr).organization,) if csr else ()
        has = () if given is None else certificates.read(given.signed_crt).organizations
    except ProtocolError:
        return False
    return {*asked, *has} <= {*keyed}


def subjects(tenant: Tenant, marks: Mapping[str, str], *, keyed: bool) -> tuple[str, ...]:
    """The user and the group, by one name, to which a consumer's rights are bound.

    Args:
        tenant: an accepted one.
        marks: annotations of its tenant namespace.
        keyed: whether it has, or is about to get, a certificate for the name with its key.
    """
    peer = tenant.spec.cluster_id
    if not keyed:
        return (peer,)
    found = keyed_names(tenant, marks)
    return (*found, peer) if labels.UNKEYED_NAMES in marks else found


def living_problem(tenant: Tenant, marks: Mapping[str, str]) -> str | None:
    """The reason why the names without a key may not be a consumer's now; None where they may.

    Args:
        tenant: the one that requests them.
        marks: annotations of its tenant namespace.
    """
    until, peer = marks.get(labels.LIVING, ""), tenant.spec.cluster_id
    try:
        if not until or times.seconds(until) <= times.seconds(times.now()):
            return None
    except ValueError:
        pass  # an invalid time is not over
    return (
        f"certificates of {peer} that were revoked live until {until}, and would be good again"
        f" under the names that {peer} asks for: run a liqod there that asks for names of its own,"
        f" or `liqod generate peering-user --consumer-cluster-id {peer} --replace-living`"
    )


def former_names(namespace: bytes | None) -> tuple[bool, str]:
    """The names beside its own that a consumer has rights under, by its tenant namespace as JSON:
    True for those without a key, and SHA-256 of the key before (empty for none)."""
    if namespace is None:
        return False, ""
    found = msgspec.json.decode(namespace, type=Partial)
    return labels.UNKEYED_NAMES in found.metadata.annotations, former_in(namespace)
