"""Credentials that people hand over end soon, and what was given is taken back at once."""

import json
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    CLUSTER_ROLE_BINDINGS,
    EVENTS,
    NAMESPACES,
    NODES,
    ROLE_BINDINGS,
    SECRETS,
)
from liqod.cluster.tenancy import replicas_of, users_of
from liqod.errors import ConfigError, Forbidden
from liqod.identity import certificaterequests, certificates, keys
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.selection import Selection
from liqod.procedures import kubeconfigpeering, peeringusers, revoking
from liqod.procedures.revokedconsumer import is_theirs
from liqod.procedures.revoking import Revoked
from liqod.provider.tenants.trust import Binding
from liqod.resources import IDENTITIES, RENEWS, REPLICATED, RESOURCE_SLICES, TENANTS
from tests.simulated.borrower import eventually, offload
from tests.simulated.members import AT_MILAN, AT_ROME, Member, keyed, members
from tests.simulated.processes import sites

RBAC = {"apiGroup": "rbac.authorization.k8s.io"}
BY_HAND = {
    "metadata": {"name": "by-hand"},
    "roleRef": {**RBAC, "kind": "ClusterRole", "name": "view"},
    "subjects": [{**RBAC, "kind": "User", "name": name} for name in ("rome", "anna")],
}


async def revoke(member: Member, peer: str, *roles: str) -> Revoked:
    with trio.fail_after(30):
        return await revoking.carry_out(member.admin, peer, roles, member.progress)


async def rights(member: Member, consumer: str) -> list[str]:
    """The bindings that speak of a consumer's users."""
    found = [
        each
        for kind in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)
        for each in await member.admin.list(kind, decode=Binding)
    ]
    return [
        each.metadata.name
        for each in found
        if any(is_theirs(subject, consumer) for subject in each.subjects or ())
        or each.metadata.labels.get(labels.PEERING_USER) == consumer
    ]


async def way_of(rome: Member) -> Any:
    """Credentials of rome's control plane at milan."""
    secret = await rome.admin.get(SECRETS, "kubeconfig-controlplane-milan", AT_ROME)
    return from_kubeconfig(b64decode(secret["data"]["kubeconfig"]))


@pytest.mark.long
async def test_a_revoked_consumer_has_nothing_at_once_and_gets_nothing_back():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await offload(rome.admin, "shop")
        await eventually(lambda: milan.admin.find(ROLE_BINDINGS, AT_MILAN, "shop-rome"))
        await milan.admin.create(ROLE_BINDINGS, BY_HAND, "default")
        async with Client(await way_of(rome)) as theirs:
            await theirs.list(RENEWS, Selection(AT_MILAN))
            done = await revoke(milan, "rome", "consumer")
            assert await rights(milan, "rome") == []
            for kind in (RENEWS, RESOURCE_SLICES):
                with pytest.raises(Forbidden):
                    await theirs.list(kind, Selection(AT_MILAN))
        for gone in (f"RoleBinding {AT_MILAN}/liqo-binding-liqo-remote-controlplane",):
            assert gone in done.removed
        assert {each.what for each in done.lives} >= {
            f"the certificate of {await keyed(rome)}, without rights"
        }
        assert all(each.until for each in done.lives)
        left = await milan.admin.get(ROLE_BINDINGS, "by-hand", "default")
        assert [each["name"] for each in left["subjects"]] == ["anna"]
        await milan.gone(NAMESPACES, "shop-rome")

        # Not by another daemon, nor by being activated, is anything of it made again.
        await milan.stop()
        await milan.start()
        active = {"spec": {"tenantCondition": "Active"}, "metadata": {"labels": {"a": "b"}}}
        await milan.admin.patch(TENANTS, "rome", active, AT_MILAN)
        await trio.sleep(1)
        assert await rights(milan, "rome") == []
        assert "authParams" not in (await milan.admin.get(TENANTS, "rome", AT_MILAN)).get(
            "status", {}
        )
        again = await revoke(milan, "rome", "consumer")
        assert again.removed == ()
        assert again.lives == done.lives

        # The operator lets it in again.
        await rome.peer(milan)
        assert await rights(milan, "rome")


@pytest.mark.long
@pytest.mark.handshake
async def test_what_a_revoked_consumer_runs_ends_though_no_daemon_runs():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await offload(rome.admin, "shop")
        await eventually(lambda: milan.admin.find(ROLE_BINDINGS, AT_MILAN, "shop-rome"))
        mine = {"metadata": {"name": "mine", "labels": {labels.REMOTE_CLUSTER_ID: "rome"}}}
        await milan.admin.create(NAMESPACES, mine)
        await milan.stop()

        done = await revoke(milan, "rome", "consumer")

        assert "Namespace shop-rome" in done.removed
        await milan.gone(NAMESPACES, "shop-rome")
        for kind in REPLICATED:
            assert (
                await milan.admin.list(kind, Selection(AT_MILAN, labels=replicas_of("rome"))) == []
            )
        assert await milan.admin.find(NAMESPACES, "mine") is not None
        await milan.start()
        await trio.sleep(1)
        assert await milan.admin.find(NAMESPACES, "shop-rome") is None
        assert await rights(milan, "rome") == []


@pytest.mark.long
@pytest.mark.handshake
async def test_a_revoked_provider_is_used_no_more_until_the_operator_says_so():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        done = await revoke(rome, "milan", "provider")
        assert f"Identity {AT_ROME}/controlplane-milan" in done.removed
        assert await rome.admin.list(IDENTITIES, Selection(AT_ROME)) == []
        assert await rome.admin.list(SECRETS, Selection(AT_ROME, labels=labels.IDENTITY_TYPE)) == []
        await rome.gone(NODES, "milan")
        user = await milan.peering_user(rome)
        async with Client(from_kubeconfig(user)) as remote:
            with pytest.raises(ConfigError, match="milan was revoked here"):
                await kubeconfigpeering.peer(rome.admin, remote, None, progress=rome.progress)
            with trio.fail_after(30):
                await kubeconfigpeering.peer(
                    rome.admin, remote, None, progress=rome.progress, replace=True
                )
        assert (await revoke(rome, "milan", "provider")).removed


async def forge(tenant: dict[str, Any], nonce: bytes) -> bytes:
    """Another key in somebody's Tenant, with all that proves it; the key."""
    private = keys.generate()
    tenant["spec"] |= {
        "publicKey": b64encode(keys.public_pem(private)).decode(),
        "csr": b64encode(certificaterequests.make_csr(private, "rome", "liqo.io")).decode(),
        "signature": b64encode(keys.sign(private, nonce)).decode(),
    }
    return private


@pytest.mark.long
@pytest.mark.handshake
async def test_a_peering_user_cannot_take_the_place_of_whom_it_let_in():
    """Its holder writes another key into the accepted Tenant, takes the certificates, and puts
    the Tenant back."""
    async with members("rome", "milan") as [rome, milan]:
        stolen = await milan.peering_user(rome)
        async with (
            Client(from_kubeconfig(stolen)) as theirs,
            Client(from_kubeconfig(stolen)) as own,
        ):
            with trio.fail_after(30):
                await kubeconfigpeering.peer(rome.admin, own, None, progress=rome.progress)
            live = await theirs.get(TENANTS, "rome", AT_MILAN)
            secret = await theirs.get(SECRETS, "liqo-nonce", AT_MILAN)
            nonce = b64decode(secret["data"]["nonce"])
            await forge(live, nonce)

            async def narrow() -> bool:
                try:
                    await theirs.update(TENANTS, live, AT_MILAN)
                except Forbidden:
                    return True
                return False

            assert await narrow()
            # What it may take back it may not give again.
            copy = {"metadata": {"name": "rome2"}, "spec": live["spec"]}
            with pytest.raises(Forbidden):
                await theirs.create(TENANTS, copy, AT_MILAN)
            with pytest.raises(Forbidden):
                await theirs.create(SECRETS, {"metadata": {"name": "x"}}, AT_MILAN)
            # Nor may a user that is made for a consumer which was accepted.
            async with Client(from_kubeconfig(await milan.peering_user(rome))) as another:
                assert (await another.get(TENANTS, "rome", AT_MILAN))["metadata"]["name"] == "rome"
                with pytest.raises(Forbidden):
                    await another.update(TENANTS, live, AT_MILAN)
                # A command that is done again still works with it.
                with trio.fail_after(30):
                    await kubeconfigpeering.peer(rome.admin, another, None, progress=rome.progress)
                await another.delete(TENANTS, "rome", AT_MILAN)
                await milan.gone(TENANTS, "rome", AT_MILAN)


@pytest.mark.long
@pytest.mark.handshake
async def test_another_key_is_the_administrators_to_accept():
    """A Tenant with another key is refused until then, made anew or changed in place."""
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        live = await milan.admin.get(TENANTS, "rome", AT_MILAN)
        nonce = b64decode((await milan.admin.get(SECRETS, "liqo-nonce", AT_MILAN))["data"]["nonce"])
        thief = keys.public_pem(await forge(live, nonce))

        async def refused() -> bool:
            events = await milan.admin.list(EVENTS, Selection(AT_MILAN))
            return any("accepted with another key" in each["message"] for each in events)

        await milan.admin.update(TENANTS, live, AT_MILAN)
        await eventually(refused)
        await milan.admin.delete(TENANTS, "rome", AT_MILAN)
        await milan.gone(TENANTS, "rome", AT_MILAN)
        fresh = {"metadata": {"name": "rome"}, "spec": live["spec"]}
        await milan.admin.create(TENANTS, fresh, AT_MILAN)
        await trio.sleep(1)
        found = await milan.admin.get(TENANTS, "rome", AT_MILAN)
        assert "authParams" not in found.get("status", {})
        # The administrator's word.
        await revoke(milan, "rome", "consumer")
        async with Client(from_kubeconfig(await milan.peering_user(rome))) as theirs:
            await theirs.create(
                SECRETS,
                {"metadata": {"name": "liqo-nonce", "labels": {"liqo.io/nonce": "true"}}},
                AT_MILAN,
            )
            secret = await milan.until(SECRETS, "liqo-nonce", AT_MILAN, lambda s: s.get("data"))
            await forge(fresh, b64decode(secret["data"]["nonce"]))
            await theirs.create(TENANTS, fresh, AT_MILAN)
        given = await milan.until(
            TENANTS, "rome", AT_MILAN, lambda t: "authParams" in t.get("status", {})
        )
        pem = b64decode(given["status"]["authParams"]["signedCRT"])
        assert not keys.same_public(certificates.read(pem).public_key, thief)


async def test_each_consumer_has_a_peering_user_of_its_own():
    async with members("milan") as [milan]:
        for name in ("rome", "turin", "rome"):
            await peeringusers.generate(
                milan.admin, name, here="milan", server="https://milan", ca=b""
            )
        for name in ("rome", "turin"):
            found = await milan.admin.list(ROLE_BINDINGS, Selection("liqo", labels=users_of(name)))
            assert [each["metadata"]["name"] for each in found] == [f"liqo-peering-user-{name}"]
        assert await peeringusers.delete(milan.admin, "rome")
        assert await milan.admin.list(ROLE_BINDINGS, Selection("liqo", labels=users_of("turin")))


@pytest.mark.long
@pytest.mark.handshake
async def test_a_peering_user_is_good_for_an_hour():
    async with members("milan", "rome") as [milan, rome]:
        for more, life in (({}, 3600), ({"lifetime": 600}, 600)):
            user = from_kubeconfig(await milan.peering_user(rome, **more))
            facts = certificates.read(user.client_cert or b"")
            assert facts.not_after - facts.not_before == pytest.approx(life, abs=120)
            for each in await milan.admin.list(
                ROLE_BINDINGS, Selection(labels=labels.PEERING_USER)
            ):
                assert each["metadata"]["annotations"][labels.PEERING_USER_ENDS]


@pytest.mark.long
@pytest.mark.handshake
async def test_bindings_of_peering_users_go_when_their_time_is_over():
    """Those of ``liqoctl`` have certificates of a year."""
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        old = {
            **BY_HAND,
            "metadata": {
                "name": "of-liqoctl",
                "labels": {labels.PEERING_USER: "rome"},
                "annotations": {labels.PEERING_USER_ENDS: "2020-01-01T00:00:00Z"},
            },
        }
        await milan.admin.create(ROLE_BINDINGS, old, "liqo")
        await milan.admin.patch(TENANTS, "rome", {"metadata": {"labels": {"a": "b"}}}, AT_MILAN)
        await milan.gone(ROLE_BINDINGS, "of-liqoctl", "liqo")
        assert await rights(milan, "rome")


@pytest.mark.long
@pytest.mark.handshake
async def test_the_command_asks_and_tells(tmp_path: Path):
    async with sites(tmp_path, "milan") as (milan,):
        unknown = await milan.liqod("revoke", "rome", "--yes", check=False)
        assert unknown.status == 1
        assert "there is nothing of rome to revoke here" in unknown.err
        await milan.user_for("rome")
        refused = await milan.liqod("revoke", "rome", check=False)
        assert refused.status == 2
        assert "every right that rome has here" in refused.err
        done = json.loads((await milan.liqod("revoke", "rome", "--yes", "-o", "json")).out)
        assert done["roles"] == ["consumer"]
        assert done["removed"] == ["peering users of rome (4 objects)"]
        again = await milan.liqod("revoke", "rome", "--yes")
        open_still, done_ = again.out.splitlines()
        assert open_still.startswith("still open: the certificate of liqo-peering-user-rome-")
        assert ", without rights until 20" in open_still
        assert done_ == "rome is revoked"
