"""Requests of a consumer, with the rights of each of its certificates, to a real API server."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ROLE_BINDINGS, SECRETS, Kind
from liqod.errors import Forbidden
from liqod.resources import NAMESPACE_MAPS, RENEWS, RESOURCE_SLICES, TENANTS
from liqod.resources.networking import GATEWAY_SERVERS
from tests.simulated.borrower import eventually
from tests.simulated.lender import CONSUMER, SHOP, TENANT, USER, Lender

Json = dict[str, Any]
SLICE_USER = (USER, CONSUMER)
"""User and group of a slice's certificate."""
CONTROL_PLANE = (CONSUMER, labels.CONTROL_PLANE_GROUP)
PEERING_USER = ("liqo-peering-user-rome-x", labels.PEERING_USERS_GROUP)
REPLICA = {
    labels.REMOTE_CLUSTER_ID: CONSUMER,
    labels.ORIGIN_ID: CONSUMER,
    labels.REMOTE_ID: "milan",
    labels.REPLICATED: "true",
    labels.REPLICATION: "false",
}
SOURCE = {
    labels.REMOTE_CLUSTER_ID: CONSUMER,
    labels.REMOTE_ID: CONSUMER,
    labels.REPLICATION: "true",
}


async def as_user(
    made: Lender, who: tuple[str, str], method: str, kind: Kind, obj: Json, **where: str
) -> Json:
    """A request of that user; its rights may take a moment to be known."""
    user, group = who
    namespace, name = where.get("namespace", SHOP), where.get("name")
    headers = {"Impersonate-User": user, "Impersonate-Group": group}
    headers["Content-Type"] = (
        "application/json" if method != "PATCH" else ("application/merge-patch+json")
    )
    body = {"apiVersion": kind.api_version, "kind": kind.name, **obj} if method == "POST" else obj
    answer = await made.admin.raw(
        method,
        kind.path(namespace, name, where.get("subresource", "")),
        body=msgspec.json.encode(body),
        headers=headers,
    )
    decoded: Json = msgspec.json.decode(answer.body)
    return decoded


async def what_is_asked_of_a_tenant_is_not_its_own(made: Lender) -> None:
    """This cluster borrows from rome too; rome may not write what is asked of it."""
    asked: dict[str, Any] = {"metadata": {"name": CONSUMER, "labels": SOURCE}, "spec": {}}
    bank = {"spec": {"desiredMapping": {"kube-system": "kube-system-milan"}}}
    for kind in (NAMESPACE_MAPS, RESOURCE_SLICES, RENEWS):
        for marks in (SOURCE, {**SOURCE, **REPLICA, labels.REPLICATION: "true"}, {}):
            forged = {"metadata": {"name": "forged", "labels": marks}, "spec": {}}
            with pytest.raises(Forbidden):
                await as_user(made, CONTROL_PLANE, "POST", kind, forged, namespace=TENANT)
        own = {"metadata": {"name": "own", "labels": REPLICA}, "spec": {}}
        await as_user(made, CONTROL_PLANE, "POST", kind, own, namespace=TENANT)
        await made.context.client.create(kind, asked, TENANT)
        patches: list[dict[str, Any]] = [
            {"metadata": {"labels": REPLICA}},
            {"metadata": {"labels": {"a": "b"}}},
        ]
        for name, patch in (
            *((CONSUMER, patch) for patch in (*patches, bank)),
            ("own", {"metadata": {"labels": SOURCE}}),
            ("own", {"metadata": {"finalizers": ["rome.example/stay"]}}),
        ):
            with pytest.raises(Forbidden):
                await as_user(
                    made, CONTROL_PLANE, "PATCH", kind, patch, namespace=TENANT, name=name
                )
        with pytest.raises(Forbidden, match="its own replicas only"):
            await as_user(made, CONTROL_PLANE, "DELETE", kind, {}, namespace=TENANT, name=CONSUMER)
        await as_user(made, CONTROL_PLANE, "DELETE", kind, {}, namespace=TENANT, name="own")
        await made.context.client.delete(kind, CONSUMER, TENANT)


async def _its_key_is_frozen_once_it_is_accepted(made: Lender, tenant: Any) -> None:
    accepted = {"status": {"authParams": {"apiServer": "https://milan"}}}
    await made.context.client.patch(TENANTS, CONSUMER, accepted, TENANT, subresource="status")
    for terms in ({"publicKey": "b3RoZXI="}, {"proxyURL": "http://elsewhere"}):
        with pytest.raises(Forbidden, match="this tenant was accepted"):
            await tenant("PUT", **terms)
    nothing: Json = {"status": {"authParams": None}}
    await made.context.client.patch(TENANTS, CONSUMER, nothing, TENANT, subresource="status")


async def a_peering_user_only_peers(made: Lender) -> None:
    subject = {"apiGroup": "rbac.authorization.k8s.io"}
    await made.admin.create(
        ROLE_BINDINGS,
        {
            "metadata": {"name": "peering-user"},
            "roleRef": {**subject, "kind": "ClusterRole", "name": labels.PEERING_USER_ROLE},
            "subjects": [{**subject, "kind": "User", "name": PEERING_USER[0]}],
        },
        TENANT,
    )

    async def ask_as_peering_user(method: str, kind: Kind, obj: Json, name: str = "") -> Json:
        where = {"namespace": TENANT, **({"name": name} if name else {})}
        return await as_user(made, PEERING_USER, method, kind, obj, **where)

    async def tenant(method: str = "POST", **terms: str) -> Json:
        live = await made.admin.find(TENANTS, CONSUMER, TENANT)
        obj = live or {"metadata": {"name": CONSUMER}, "spec": {"clusterID": CONSUMER}}
        obj["spec"] |= terms
        return await ask_as_peering_user(method, TENANTS, obj, CONSUMER if method != "POST" else "")

    async def allowed() -> bool:
        try:
            await tenant()
        except Forbidden:
            return False
        return True

    await eventually(allowed)
    await tenant("PUT", publicKey="bmV3")
    for terms in ({"tenantCondition": "Cordoned"}, {"authzPolicy": "TolerateNoHandshake"}):
        with pytest.raises(Forbidden, match="the provider's to write"):
            await tenant("PUT", **terms)
    await _its_key_is_frozen_once_it_is_accepted(made, tenant)
    drained = {"spec": {"tenantCondition": "Drained"}}
    await made.context.client.patch(TENANTS, CONSUMER, drained, TENANT)
    await tenant("PUT", publicKey="bmV4")
    with pytest.raises(Forbidden, match="the provider's to write"):
        await tenant("PUT", tenantCondition="Active")
    with pytest.raises(Forbidden, match="only the provider may delete it"):
        await ask_as_peering_user("DELETE", TENANTS, {}, CONSUMER)
    await made.context.client.patch(
        TENANTS, CONSUMER, {"spec": {"tenantCondition": "Active"}}, TENANT
    )
    await ask_as_peering_user("DELETE", TENANTS, {}, CONSUMER)
    with pytest.raises(Forbidden, match="the provider's to write"):
        await tenant(authzPolicy="TolerateNoHandshake")

    asked: list[Json] = [{"loadBalancerIP": "10.0.0.9"}, {"nodePort": 30080}, {}]
    for number, chosen in enumerate(asked):
        endpoint = {"port": 51840, "serviceType": "LoadBalancer", **chosen}
        gateway = {"metadata": {"name": f"gw-{number}"}, "spec": {"endpoint": endpoint}}
        if chosen:
            with pytest.raises(Forbidden, match="the provider's to choose"):
                await ask_as_peering_user("POST", GATEWAY_SERVERS, gateway)
        else:
            await ask_as_peering_user("POST", GATEWAY_SERVERS, gateway)

    for name, key in (
        ("kubeconfig-controlplane-rome", labels.IDENTITY_TYPE),
        ("kubeconfig-controlplane-rome", labels.NONCE),
        (labels.NONCE_SECRET, labels.IDENTITY_TYPE),
        (labels.NONCE_SECRET, labels.SIGNED_NONCE),
    ):
        secret = {"metadata": {"name": name, "labels": {key: "true"}}}
        with pytest.raises(Forbidden, match="the nonce's Secret only"):
            await ask_as_peering_user("POST", SECRETS, secret)
    secret = {"metadata": {"name": labels.NONCE_SECRET, "labels": {labels.NONCE: "true"}}}
    with pytest.raises(Forbidden, match="and empty"):
        await ask_as_peering_user("POST", SECRETS, {**secret, "stringData": {"nonce": "chosen"}})
    await ask_as_peering_user("POST", SECRETS, secret)
