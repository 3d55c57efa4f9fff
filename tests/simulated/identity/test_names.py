"""Rights belong to a key: what was revoked stays dead; who comes from Liqo's names loses none."""

from base64 import b64decode
from pathlib import Path

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    CLUSTER_ROLE_BINDINGS,
    NAMESPACES,
    PODS,
    ROLE_BINDINGS,
    SECRETS,
    Kind,
)
from liqod.consumer.identities import identities
from liqod.consumer.slices import borrowedslices
from liqod.errors import ConfigError, Forbidden
from liqod.identity import certificates
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import Credentials, from_kubeconfig
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.procedures import kubeconfigpeering, revoking, tenantrequest
from liqod.provider.tenants import usernames
from liqod.provider.timings import ProviderTimings
from liqod.resources import RENEWS, RESOURCE_SLICES, SHADOW_PODS, TENANTS
from tests.simulated.borrower import Json, eventually, offload
from tests.simulated.meeting import run
from tests.simulated.members import AT_MILAN, AT_ROME, Member, keyed, members
from tests.simulated.remedies import taken

SLICE = "kubeconfig-resourceslice-milan"
CONTROL = "kubeconfig-controlplane-milan"


async def credentials(rome: Member, secret: str) -> Credentials:
    """Returns the credentials that rome has of milan now."""
    found = await rome.admin.get(SECRETS, secret, AT_ROME)
    return from_kubeconfig(b64decode(found["data"]["kubeconfig"]))


async def groups(rome: Member, secret: str) -> tuple[str, tuple[str, ...]]:
    """User and groups of a certificate of rome's."""
    facts = certificates.read((await credentials(rome, secret)).client_cert or b"")
    return facts.common_name, facts.organizations


async def lists(given: Credentials, kind: Kind, namespace: str) -> bool:
    """True if these credentials may list there."""
    async with Client(given) as theirs:
        try:
            await theirs.list(kind, Selection(namespace))
        except Forbidden:
            return False
    return True


async def may(given: Credentials, kind: Kind, namespace: str) -> None:
    """Wait until somebody may list there."""
    await eventually(lambda: lists(given, kind, namespace))


async def bound(milan: Member) -> set[str]:
    """The users and groups to which rome's rights are bound."""
    places: tuple[tuple[Kind, str, str | None], ...] = (
        (ROLE_BINDINGS, labels.CONTROL_PLANE_BINDING, AT_MILAN),
        (ROLE_BINDINGS, AT_MILAN, "shop-rome"),
        (CLUSTER_ROLE_BINDINGS, ids.cluster_wide_binding("rome"), None),
    )
    found = [await milan.admin.find(*place) for place in places]
    each = [
        frozenset(s["name"] for s in live["subjects"]) if live else frozenset() for live in found
    ]
    return {name for name in each[0] if all(name in other for other in each)} if each else set()


async def anew(rome: Member) -> None:
    """Have rome make itself another key."""
    await rome.stop()
    await rome.admin.delete(SECRETS, labels.KEYS_SECRET, "liqo")
    await rome.start()


@pytest.mark.long
@pytest.mark.handshake
async def test_certificates_of_a_revoked_key_stay_dead_when_its_id_is_let_in_again():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await offload(rome.admin, "shop")
        stolen = {name: await credentials(rome, name) for name in (CONTROL, SLICE)}
        await may(stolen[CONTROL], RESOURCE_SLICES, AT_MILAN)
        await may(stolen[SLICE], SECRETS, "shop-rome")
        with trio.fail_after(30):
            done = await revoking.carry_out(milan.admin, "rome", ("consumer",), milan.progress)
        assert all(each.dead for each in done.lives)
        await anew(rome)
        user = await milan.peering_user(rome)
        async with Client(from_kubeconfig(user)) as remote:
            with trio.fail_after(60):
                await kubeconfigpeering.peer(
                    rome.admin, remote, None, progress=rome.progress, replace=True
                )

        async def is_in() -> bool:
            return await lists(await credentials(rome, CONTROL), RESOURCE_SLICES, AT_MILAN)

        await eventually(is_in)
        assert not await lists(stolen[CONTROL], RESOURCE_SLICES, AT_MILAN)
        await eventually(lambda: milan.admin.find(NAMESPACES, "shop-rome"))
        await eventually(lambda: milan.admin.find(ROLE_BINDINGS, AT_MILAN, "shop-rome"))
        assert not await lists(stolen[SLICE], SECRETS, "shop-rome")


def old_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a consumer asks as the version before did, and as Liqo does."""
    monkeypatch.setattr(tenantrequest, "keyed_request", lambda own, here: b"")
    monkeypatch.setattr(identities, "keyed_request", lambda own, here: b"")
    monkeypatch.setattr(identities, "is_keyed_request", lambda csr, own, here: True)


def old_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a provider signs as the version before did."""
    monkeypatch.setattr(usernames, "request_of", lambda tenant, renews: tenant.spec.csr)


async def running(rome: Member, milan: Member) -> Json:
    """Creates rome's pod at milan by its slice, and returns it."""
    await offload(rome.admin, "shop")
    await eventually(lambda: milan.admin.find(ROLE_BINDINGS, AT_MILAN, "shop-rome"))
    given = await credentials(rome, SLICE)
    await may(given, SHADOW_PODS, "shop-rome")
    marks = {labels.ORIGIN: "rome", labels.CREATOR_USER: ids.slice_user("milan", "rome")}
    pod = {
        "metadata": {"name": "web", "labels": marks},
        "spec": {"pod": {"containers": [{"name": "web", "image": "x"}]}},
    }
    async with Client(given) as theirs:
        await theirs.create(SHADOW_PODS, pod, "shop-rome")
    made: Json = await milan.until(PODS, "web", "shop-rome", lambda found: True)
    return made


@pytest.mark.long
@pytest.mark.handshake
async def test_nobody_gets_the_name_of_another_consumer_s_slice(monkeypatch: pytest.MonkeyPatch):
    taken = ids.slice_user("milan", "rome")
    async with members("rome", "milan", taken) as [rome, milan, other]:
        await rome.peer(milan)
        old_consumer(monkeypatch)
        with pytest.raises(ConfigError, match="already is the user of a slice here"):
            await other.peer(milan)


@pytest.mark.long
@pytest.mark.handshake
@pytest.mark.parametrize("first", ["consumer", "provider"])
async def test_an_upgrade_to_names_with_a_key_loses_no_pod_and_no_right(
    first: str, monkeypatch: pytest.MonkeyPatch
):
    soon = ProviderTimings(moved=0.5)
    async with members("rome", "milan", timings=soon) as [rome, milan]:
        with monkeypatch.context() as one, monkeypatch.context() as other:
            old_consumer(one)
            old_provider(other)
            await rome.peer(milan)
            before = await running(rome, milan)
            namespace = await milan.admin.get(NAMESPACES, "shop-rome")
            assert await groups(rome, CONTROL) == ("rome", ("liqo.io",))
            assert await bound(milan) == {"rome"}
            upgraded, left = (rome, milan) if first == "consumer" else (milan, rome)
            await upgraded.stop()
            (one if first == "consumer" else other).undo()
            await upgraded.start()
            await trio.sleep(1)
            assert await bound(milan) == {"rome"}
            await may(await credentials(rome, SLICE), SECRETS, "shop-rome")
            await left.stop()
        await left.start()
        mine = await keyed(rome)
        with trio.fail_after(60):

            async def moved() -> bool:
                return (await groups(rome, CONTROL))[0] == mine and (
                    await groups(rome, SLICE) == (ids.slice_user("milan", "rome"), (mine,))
                )

            await eventually(moved)

            async def alone() -> bool:
                return await bound(milan) == {mine}

            await eventually(alone)
        for secret, kind, where in (
            (CONTROL, RENEWS, AT_MILAN),
            (SLICE, SECRETS, "shop-rome"),
        ):
            assert await lists(await credentials(rome, secret), kind, where)
        after = await milan.admin.get(PODS, "web", "shop-rome")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        again = await milan.admin.get(NAMESPACES, "shop-rome")
        assert again["metadata"]["uid"] == namespace["metadata"]["uid"]
        # And back again, by the consumer alone.
        await rome.stop()
        old_consumer(monkeypatch)
        monkeypatch.setattr(borrowedslices, "group_of", lambda identity, here, public: here)
        await rome.start()
        user = (ids.slice_user("milan", "rome"), ("rome",))

        async def back() -> bool:
            return await groups(rome, SLICE) == user and await bound(milan) == {mine, "rome"}

        await eventually(back)
        await may(await credentials(rome, SLICE), SECRETS, "shop-rome")
        assert await lists(await credentials(rome, CONTROL), RENEWS, AT_MILAN)


@pytest.mark.long
@pytest.mark.handshake
async def test_who_asks_for_names_as_in_liqo_gets_them_until_revoked_ones_would_live_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    async with members("rome", "milan") as [rome, milan]:
        old_consumer(monkeypatch)
        await rome.peer(milan)
        assert await groups(rome, CONTROL) == ("rome", ("liqo.io",))
        stolen = await credentials(rome, CONTROL)
        with trio.fail_after(60):
            await revoking.carry_out(milan.admin, "rome", ("consumer",), milan.progress)
        await anew(rome)
        async with Client(from_kubeconfig(await milan.peering_user(rome))) as remote:
            with (
                pytest.raises(ConfigError, match="would be good again") as told,
                trio.fail_after(60),
            ):
                await kubeconfigpeering.peer(
                    rome.admin, remote, None, progress=rome.progress, replace=True
                )
        assert not await lists(stolen, RESOURCE_SLICES, AT_MILAN)
        # It is upgraded, or the operator takes that on himself.
        words = taken(
            str(told.value), "generate peering-user --consumer-cluster-id x --replace-living"
        )
        made = await run(milan, tmp_path, *words)
        async with Client(from_kubeconfig(made.out.encode())) as remote:
            with trio.fail_after(60):
                await kubeconfigpeering.peer(
                    rome.admin, remote, None, progress=rome.progress, replace=True
                )
        assert (await milan.admin.get(TENANTS, "rome", AT_MILAN))["status"]["authParams"]
