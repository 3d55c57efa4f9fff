"""RoleBindings of consumers: made, kept as they must be, and found again.

A binding's role cannot be changed, so one that points elsewhere is deleted and made again; one
that does not carry the peer's label is another's and is left alone.
"""

from functools import partial
from typing import Any

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS, Kind
from liqod.apimachinery.meta import Partial
from liqod.errors import Conflict
from liqod.kube.client import Client
from liqod.model import ids
from liqod.plugins.contracts import OptIn
from liqod.provider.tenants.trust import Binding, taken
from liqod.resources import QUOTAS
from liqod.runtime.gather import gather

RBAC = "rbac.authorization.k8s.io"


class RoleGrant(msgspec.Struct, frozen=True):
    """A ClusterRole given to subjects, in one namespace or the whole cluster.

    Attributes:
        name: name of the binding.
        namespace: where; None for the whole cluster.
        role: name of the ClusterRole.
        subject: ``User`` or ``Group``.
        peer: the peer's id; the subject's name too, unless ``who`` is given.
        who: the subjects' names (:func:`liqod.provider.tenants.usernames.subjects`).
        owner: owner reference as JSON, or None.
    """

    name: str
    namespace: str | None
    role: str
    subject: str
    peer: str
    who: tuple[str, ...] = ()
    owner: dict[str, Any] | None = None

    def manifest(self) -> dict[str, Any]:
        """The binding as JSON."""
        metadata: dict[str, Any] = {
            "name": self.name,
            "labels": {
                labels.APP_MANAGED_BY: labels.APP_LIQO,
                labels.MANAGED: labels.TRUE,
                labels.REMOTE_CLUSTER_ID: self.peer,
            },
        }
        if self.namespace is not None:
            metadata["namespace"] = self.namespace
        if self.owner is not None:
            metadata["ownerReferences"] = [self.owner]
        return {
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": self.role},
            "subjects": [
                {"apiGroup": RBAC, "kind": self.subject, "name": name}
                for name in self.who or (self.peer,)
            ],
        }


def control_plane(
    peer: str, tenant_namespace: str, owner: dict[str, Any], who: tuple[str, ...] = ()
) -> RoleGrant:
    """The rights of the consumer's control plane in its tenant namespace."""
    return RoleGrant(
        labels.CONTROL_PLANE_BINDING,
        tenant_namespace,
        labels.CONTROL_PLANE_ROLE,
        "User",
        peer,
        who,
        owner,
    )


def cluster_wide(peer: str, who: tuple[str, ...] = ()) -> RoleGrant:
    """The rights of the consumer's slices in the whole cluster."""
    name = ids.cluster_wide_binding(peer)
    return RoleGrant(name, None, labels.CLUSTER_WIDE_ROLE, "Group", peer, who)


def mapped(
    peer: str, tenant_namespace: str, namespace: str, who: tuple[str, ...] = ()
) -> RoleGrant:
    """The rights of the consumer's slices in a namespace made for them."""
    return RoleGrant(tenant_namespace, namespace, labels.REMOTE_ROLE, "Group", peer, who)


def opted(
    opt_in: OptIn, peer: str, tenant_namespace: str, namespace: str, who: tuple[str, ...] = ()
) -> RoleGrant:
    """The further rights of the consumer's slices there, where this cluster has consented."""
    name = opt_in.binding(tenant_namespace)
    return RoleGrant(name, namespace, opt_in.role, "Group", peer, who)


async def bind(client: Client, grant: RoleGrant) -> None:
    """Make sure that the binding exists with exactly this content.

    Raises:
        Conflict: a binding of that name is not ours.
    """
    kind = CLUSTER_ROLE_BINDINGS if grant.namespace is None else ROLE_BINDINGS
    wanted = grant.manifest()
    live = await client.find(kind, grant.name, grant.namespace)
    if live is None:
        await client.create(kind, wanted, grant.namespace)
        return
    meta = live["metadata"]
    if meta.get("labels", {}).get(labels.REMOTE_CLUSTER_ID) != grant.peer:
        where = grant.namespace or "the whole cluster"
        raise Conflict(f"the {kind.name} {grant.name} in {where} is not liqod's; it is left alone")
    if live.get("roleRef") != wanted["roleRef"]:
        await client.delete(kind, grant.name, grant.namespace, uid=meta["uid"])
        await client.create(kind, wanted, grant.namespace)
    elif live.get("subjects") != wanted["subjects"]:
        patch = {"subjects": wanted["subjects"]}
        await client.patch(kind, grant.name, patch, grant.namespace)


async def unbind(client: Client, name: str, namespace: str | None, peer: str) -> bool:
    """Delete a binding of that peer; False if there is none, or it is not ours."""
    kind = CLUSTER_ROLE_BINDINGS if namespace is None else ROLE_BINDINGS
    live = await client.find(kind, name, namespace, decode=Binding)
    if live is None or live.metadata.labels.get(labels.REMOTE_CLUSTER_ID) != peer:
        return False
    return await client.delete(kind, name, namespace, uid=live.metadata.uid)


async def name_problem(client: Client, peer: str, tenant_namespace: str, *names: str) -> str | None:
    """The reason why a name may be no user or group here, by all bindings; None if each may."""

    async def read(kind: Kind) -> list[Binding]:
        return await client.list(kind, decode=Binding)

    kinds = (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)
    everywhere = await gather(*(partial(read, kind) for kind in kinds))
    problems = (taken(found, peer, tenant_namespace, names) for found in everywhere)
    return next(filter(None, problems), None)


async def slice_problem(client: Client, peer: str, tenant_namespace: str) -> str | None:
    """The reason why an id may be no user here: another's slice has that name; None if it may."""
    for each in await client.list(QUOTAS, decode=Partial):
        if each.metadata.name == peer and each.metadata.namespace != tenant_namespace:
            return f"{peer} already is the user of a slice here, in {each.metadata.namespace}"
    return None
