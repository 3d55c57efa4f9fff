"""Objects that `liqoctl` makes and needs in a cluster with liqod, as they are on the wire."""

from base64 import b64encode
from typing import Any

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, ROLE_BINDINGS, SECRETS, SIGNING_REQUESTS
from liqod.cluster.tenancy import ensure_tenant_namespace, users_of
from liqod.consumer.timings import ConsumerTimings
from liqod.errors import Forbidden
from liqod.identity import certificaterequests, keys
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import Credentials, from_kubeconfig
from liqod.kube.selection import Selection
from liqod.procedures import kubeconfigpeering, peeringusers, revokedconsumer
from liqod.provider.tenants.nonces import new_nonce
from liqod.provider.timings import ProviderTimings
from liqod.resources import IDENTITIES, TENANTS
from tests.simulated.members import AT_MILAN, AT_ROME, Member, members

USER = "liqo-peer-user-rome"
MARKS = {"liqo.io/peering-user-name": USER}
RBAC = "rbac.authorization.k8s.io"
OF_LIQOCTL = ("liqo-peer-user-rome-tenant-ns-writer", "liqo-peer-user-rome-liqo-ns-reader")


async def liqoctls_user(milan: Member, rome: Member) -> Credentials:
    """A peering user of rome at milan, bound as `liqoctl generate peering-user` binds it."""
    user = from_kubeconfig(await milan.peering_user(rome, list_secrets=True))
    ours = f"liqo-peering-user-{rome.id}"
    bound = await milan.admin.get(ROLE_BINDINGS, ours, AT_MILAN)
    await milan.admin.delete(ROLE_BINDINGS, ours, AT_MILAN)
    await milan.admin.delete(ROLE_BINDINGS, "liqo-peering-user-rome", "liqo")
    await bind_as_liqoctl(milan, bound["subjects"])
    return user


async def bind_as_liqoctl(milan: Member, subjects: list[dict[str, Any]]) -> None:
    writer, reader = OF_LIQOCTL
    for name, namespace, kind, role in (
        (writer, AT_MILAN, "ClusterRole", "liqo-peering-user-tenant-ns"),
        (reader, "liqo", "Role", "liqo-peering-user-liqo-ns"),
    ):
        binding = {
            "metadata": {"name": name, "labels": MARKS},
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
            "subjects": subjects,
        }
        await milan.admin.create(ROLE_BINDINGS, binding, namespace)


@pytest.mark.long
async def test_a_peering_user_of_liqoctl_reads_once_its_consumer_was_accepted():
    async with (
        members("rome", "milan") as [rome, milan],
        Client(await liqoctls_user(milan, rome)) as theirs,
    ):
        with trio.fail_after(30):
            await kubeconfigpeering.peer(rome.admin, theirs, None, progress=rome.progress)
        await milan.gone(ROLE_BINDINGS, OF_LIQOCTL[0], AT_MILAN)
        # By these it says that it is there already, when it is called again.
        for mark in ("liqo.io/nonce=true", "liqo.io/remote-cluster-id=rome"):
            assert await theirs.list(SECRETS, Selection(AT_MILAN, labels=mark))
        live = await theirs.get(TENANTS, "rome", AT_MILAN)
        # It writes the Tenant as it did at first, without what the API server has filled in.
        for filled_in in ("authzPolicy", "tenantCondition"):
            live["spec"].pop(filled_in, None)
        await theirs.update(TENANTS, live, AT_MILAN)
        found = await theirs.get(TENANTS, "rome", AT_MILAN)
        assert found["status"] == live["status"]
        with pytest.raises(Forbidden):
            await theirs.create(SECRETS, {"metadata": {"name": "x"}}, AT_MILAN)
        # One that is made by `liqod generate peering-user --liqoctl` from now on may the same.
        another = from_kubeconfig(await milan.peering_user(rome, list_secrets=True))
        async with Client(another) as newer:
            assert await newer.list(SECRETS, Selection(AT_MILAN, labels="liqo.io/nonce=true"))
            await newer.update(TENANTS, found, AT_MILAN)
            await newer.delete(TENANTS, "rome", AT_MILAN)
        with pytest.raises(Forbidden):
            await theirs.list(SECRETS, Selection(AT_MILAN))


@pytest.mark.long
async def test_liqoctl_takes_back_what_an_accepted_consumers_user_has_left():
    """It deletes the bindings with its own label, in all namespaces."""
    async with members("rome", "milan") as [rome, milan]:
        user = await liqoctls_user(milan, rome)
        async with Client(user) as theirs, Client(user) as another:
            with trio.fail_after(30):
                await kubeconfigpeering.peer(rome.admin, theirs, None, progress=rome.progress)
            await milan.gone(ROLE_BINDINGS, OF_LIQOCTL[0], AT_MILAN)
            mine = f"{labels.PEERING_USER}={USER}"
            for each in await milan.admin.list(ROLE_BINDINGS, Selection(labels=mine)):
                meta = each["metadata"]
                await milan.admin.delete(ROLE_BINDINGS, meta["name"], meta["namespace"])
            with pytest.raises(Forbidden):
                await another.get(TENANTS, "rome", AT_MILAN)


async def test_a_peering_user_of_liqoctl_that_nobody_used_ends():
    """Its certificate is good for a year, and there is no Tenant that would be looked at."""
    async with members("milan", timings=ProviderTimings(peering_user_life=1.0)) as [milan]:
        await ensure_tenant_namespace(milan.admin, "rome")
        await bind_as_liqoctl(milan, [{"apiGroup": RBAC, "kind": "User", "name": f"{USER}-1"}])
        await milan.gone(ROLE_BINDINGS, OF_LIQOCTL[0], AT_MILAN)
        await milan.gone(ROLE_BINDINGS, OF_LIQOCTL[1], "liqo")


async def test_peering_users_of_liqoctl_are_revoked_with_the_others():
    async with members("milan") as [milan]:
        await milan.admin.create(SIGNING_REQUESTS, request())
        await ensure_tenant_namespace(milan.admin, "rome")
        await bind_as_liqoctl(milan, [{"apiGroup": RBAC, "kind": "User", "name": f"{USER}-1"}])
        assert await revokedconsumer.is_known(milan.admin, "rome", AT_MILAN)
        assert await peeringusers.delete(milan.admin, "rome") == 4
        for kind in (ROLE_BINDINGS, SIGNING_REQUESTS):
            assert await milan.admin.list(kind, Selection(labels=labels.PEERING_USER)) == []
        await milan.gone(NAMESPACES, AT_MILAN)


@pytest.mark.long
async def test_a_new_nonce_of_the_provider_is_signed_after_it_ended_the_peering():
    """`liqoctl` makes the Secret that asks for a signature; where there is one with another nonce,
    it ends with `nonce secret already exists with a different nonce`."""
    soon = ConsumerTimings(signature_kept=0.5)
    async with members("rome", "milan", consumer_timings=soon) as [rome, milan]:
        await ensure_tenant_namespace(rome.admin, "milan")
        first = await signature(rome, new_nonce())
        # It is of use until the provider has given an Identity for it.
        await trio.sleep(1.0)
        assert await rome.admin.find(SECRETS, "liqo-signed-nonce", AT_ROME)
        await rome.peer(milan)
        await rome.gone(SECRETS, "liqo-signed-nonce", AT_ROME)
        await milan.unpeer(rome)
        assert await signature(rome, new_nonce()) != first
        await rome.gone(SECRETS, "liqo-signed-nonce", AT_ROME)


@pytest.mark.long
async def test_a_signed_nonce_goes_with_the_identity_that_was_given_for_it():
    """`liqoctl unpeer` deletes the Identity and the Tenant, and leaves the nonce on either side."""
    async with members("rome", "milan") as [rome, milan]:
        await ensure_tenant_namespace(rome.admin, "milan")
        await signature(rome, new_nonce())
        await rome.peer(milan)
        assert await rome.admin.find(SECRETS, "liqo-signed-nonce", AT_ROME)
        await rome.admin.delete(IDENTITIES, "controlplane-milan", AT_ROME)
        await rome.gone(SECRETS, "liqo-signed-nonce", AT_ROME)


async def signature(rome: Member, nonce: bytes) -> str:
    """Returns the signature that rome's daemon makes for milan, requested as `liqoctl` does."""
    marks = {"liqo.io/signed-nonce": "true", "liqo.io/remote-cluster-id": "milan"}
    asked = {
        "metadata": {"name": "liqo-signed-nonce", "labels": marks},
        "data": {"nonce": b64encode(nonce).decode()},
    }
    await rome.admin.create(SECRETS, asked, AT_ROME)
    made = await rome.until(
        SECRETS, "liqo-signed-nonce", AT_ROME, lambda found: "signedNonce" in found["data"]
    )
    return str(made["data"]["signedNonce"])


def request() -> dict[str, Any]:
    csr = certificaterequests.make_csr(keys.generate(), f"{USER}-1", "liqo.io")
    return {
        "metadata": {"name": USER, "labels": MARKS},
        "spec": {
            "request": b64encode(csr).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        },
    }


def test_a_long_id_selects_by_values_that_a_label_may_have():
    assert users_of("rome") == "liqo.io/peering-user-name in (rome,liqo-peer-user-rome)"
    assert users_of("a" * 50) == f"liqo.io/peering-user-name in ({'a' * 50})"
