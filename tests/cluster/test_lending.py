"""Lending on a real API server, with the daemon's own rights: what RBAC, CEL and admission say."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from liqod import install
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    CLUSTER_ROLE_BINDINGS,
    NAMESPACES,
    PODS,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
)
from liqod.errors import ConfigError, Forbidden, LiqodError
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.model import ids
from liqod.provider.timings import ORDINARY, ProviderTimings
from liqod.provider.workloads.shadowendpointslices import ShadowEndpointSlices
from liqod.provider.workloads.shadowpods import ShadowPods
from liqod.resources import (
    NAMESPACE_MAPS,
    RESOURCE_SLICES,
    SHADOW_ENDPOINT_SLICES,
    SHADOW_PODS,
)
from liqod.runtime.backoff import Backoff
from tests.cluster.fencing import the_daemon_stays_inside_its_fence
from tests.cluster.forging import (
    CONTROL_PLANE,
    REPLICA,
    SLICE_USER,
    a_peering_user_only_peers,
    as_user,
    what_is_asked_of_a_tenant_is_not_its_own,
)
from tests.simulated.borrower import eventually
from tests.simulated.lender import (
    CONSUMER,
    SHOP,
    TENANT,
    USER,
    Lender,
    lender,
    shadow_pod,
    shadow_slice,
)

pytestmark = [pytest.mark.cluster, pytest.mark.install]

Json = dict[str, Any]


def quiet(_: str) -> None:
    """No progress."""


@pytest.fixture
async def lending(new_control_plane):
    """A cluster in which liqod is installed, and a daemon with its rights and a mapped namespace.

    All in one: what these tests look at is looked at in one cluster, one start instead of many.
    """
    plane = new_control_plane("milan")
    text = plane.kubeconfig.read_text()
    found = from_kubeconfig(text)
    async with Client(found) as admin:
        await install.install(admin, install.Options(cluster_id="milan"), quiet)
        daemon = await install.daemon_kubeconfig(admin, found, "liqo", "milan", quiet)
        async with lender(admin, daemon.decode()) as made:
            await made.map_namespace(**{"pod-security.kubernetes.io/enforce": "baseline"})
            await bind(made)
            yield made


async def bind(made: Lender) -> None:
    """The bindings of a tenant, made with the daemon's rights."""
    subject = {"apiGroup": "rbac.authorization.k8s.io"}
    for namespace, role, who in (
        (SHOP, labels.REMOTE_ROLE, {"kind": "Group", "name": CONSUMER}),
        (TENANT, labels.CONTROL_PLANE_ROLE, {"kind": "User", "name": CONSUMER}),
    ):
        await made.context.client.create(
            ROLE_BINDINGS,
            {
                "metadata": {"name": "tenant"},
                "roleRef": {**subject, "kind": "ClusterRole", "name": role},
                "subjects": [{**subject, **who}],
            },
            namespace,
        )


@asynccontextmanager
async def at_work(made: Lender, timings: ProviderTimings = ORDINARY):
    async with trio.open_nursery() as nursery:
        await nursery.start(ShadowPods(made.peer, made.guest_policies, timings).run)
        await nursery.start(ShadowEndpointSlices(made.peer, timings).run)
        yield
        nursery.cancel_scope.cancel()


async def ask(made: Lender, name: str, who: tuple[str, str] = SLICE_USER, **more: Any) -> Json:
    return await as_user(made, who, "POST", SHADOW_PODS, shadow_pod(name, **more))


async def policies_hold(made: Lender) -> None:
    """Until the API server evaluates the policies, which takes it a moment after installation."""

    async def look() -> bool:
        try:
            await ask(made, "probe", user=ids.slice_user("nobody", CONSUMER))
        except Forbidden as error:
            return "creator-user" in str(error)
        await made.admin.delete(SHADOW_PODS, "probe", SHOP)
        return False

    await eventually(look, seconds=20)


async def test_what_a_consumer_may_not_write(lending):
    await policies_hold(lending)
    # Booked on oneself, on nobody, on another:
    await ask(lending, "own")
    await ask(lending, "unlabelled", user="")
    sister = ids.slice_user("other", CONSUMER)
    with pytest.raises(Forbidden, match=f"says {sister}, but the request is of {USER}"):
        await ask(lending, "stolen", user=sister)
    # By what a Liqo that passes on a guest of its own has copied, nobody here is meant.
    passed = ids.slice_user("milan", "turin")
    await ask(lending, "passed-on", user=passed)
    # The label stays as it is, also for those to whom it belongs:
    other = ("other-slice", CONSUMER)

    async def relabel(name: str, who: tuple[str, str], **changed: str | None) -> Json:
        keys = {"creator": labels.CREATOR_USER, "origin": labels.ORIGIN, "app": "app"}
        patch = {"metadata": {"labels": {keys[key]: text for key, text in changed.items()}}}
        return await as_user(lending, who, "PATCH", SHADOW_PODS, patch, name=name)

    await relabel("own", SLICE_USER, app="shop")
    await relabel("unlabelled", SLICE_USER, app="shop")
    await relabel("passed-on", SLICE_USER, app="shop")
    for name, who, changed in (
        ("passed-on", SLICE_USER, {"creator": ids.slice_user("milan", "naples")}),
        ("own", SLICE_USER, {"creator": None}),
        ("own", other, {"creator": "other-slice"}),
        ("own", other, {"app": "x"}),
        ("unlabelled", other, {"creator": "other-slice"}),
        ("own", SLICE_USER, {"origin": "turin"}),
        ("own", SLICE_USER, {"origin": None}),
    ):
        with pytest.raises(Forbidden):
            await relabel(name, who, **changed)
    with pytest.raises(Forbidden, match="the namespace belongs to rome"):
        await ask(lending, "foreign", labels={labels.ORIGIN: "turin"})
    # Administrators and the daemon are not held:
    patch = {"metadata": {"labels": {labels.CREATOR_USER: "mended"}}}
    await lending.admin.patch(SHADOW_PODS, "own", patch, SHOP)
    status = {"status": {"phase": "Running"}}
    await lending.context.client.patch(SHADOW_PODS, "own", status, SHOP, subresource="status")

    with pytest.raises(Forbidden, match="finalizers"):
        await as_user(
            lending,
            SLICE_USER,
            "PATCH",
            SHADOW_PODS,
            {"metadata": {"finalizers": ["rome.example/stay"]}},
            name="unlabelled",
        )

    await cordons_are_the_providers(lending)
    await what_is_asked_of_a_tenant_is_not_its_own(lending)
    await a_peering_user_only_peers(lending)
    await the_daemon_stays_inside_its_fence(lending)


async def cordons_are_the_providers(made: Lender) -> None:
    spec = {"class": "default", "consumerClusterID": CONSUMER, "providerClusterID": "milan"}
    meta = {"name": "milan", "labels": REPLICA}
    tenant = {"namespace": TENANT}

    async def post(**metadata: Any) -> Json:
        obj = {"metadata": {**meta, **metadata}, "spec": spec}
        return await as_user(made, CONTROL_PLANE, "POST", RESOURCE_SLICES, obj, **tenant)

    with pytest.raises(Forbidden, match="are the provider's to write"):
        await post(annotations={labels.CORDON: "false"})
    with pytest.raises(Forbidden, match="must be the consumer's own id"):
        await post(labels={**REPLICA, labels.REMOTE_CLUSTER_ID: "turin"})
    await post(annotations={"liqo.io/create-virtual-node": "true"})
    cordoned = {"metadata": {"annotations": {labels.CORDON_TENANT: "true"}}}
    await made.context.client.patch(RESOURCE_SLICES, "milan", cordoned, TENANT)

    async def annotate(key: str, text: str | None) -> Json:
        patch = {"metadata": {"annotations": {key: text}}}
        where = {"namespace": TENANT, "name": "milan"}
        return await as_user(made, CONTROL_PLANE, "PATCH", RESOURCE_SLICES, patch, **where)

    await annotate("note", "a")
    for key, text in (
        (labels.CORDON_TENANT, None),
        (labels.CORDON_TENANT, "false"),
        (labels.CORDON, "true"),
    ):
        with pytest.raises(Forbidden, match="are the provider's to write"):
            await annotate(key, text)

    granted = {"status": {"resources": {"cpu": "1000"}}}
    await made.context.client.create(
        NAMESPACE_MAPS, {"metadata": {"name": "milan"}, "spec": {}}, TENANT
    )
    for kind, status in ((RESOURCE_SLICES, granted), (NAMESPACE_MAPS, {"status": {}})):
        where = {"namespace": TENANT, "name": "milan", "subresource": "status"}
        with pytest.raises(Forbidden, match="flows from the provider"):
            await as_user(made, CONTROL_PLANE, "PATCH", kind, status, **where)
        await made.context.client.patch(kind, "milan", status, TENANT, subresource="status")


async def test_pods_within_the_daemons_rights(lending):
    soon = ProviderTimings(pauses=Backoff(first=0.1, last=0.5))
    await lending.grant(cpu="4")
    await policies_hold(lending)
    async with at_work(lending, soon):
        lending.context.client.stats.requests.clear()
        await ask(lending, "web-1")
        pod = await lending.made("web-1")
        await lending.set_phase("web-1", "Running")
        await lending.settled()
        assert lending.requests() == {("create", "pods"): 1}
        terms = pod["spec"]["affinity"]["nodeAffinity"]
        assert "virtual-node" in str(terms)

        await ask(lending, "host", pod={"hostNetwork": True})
        status = await lending.told("host", "reason", "Refused")
        assert "PodSecurity" in status["message"]
        await ask(lending, "bad", pod={"containers": [{"name": "Bad_Name", "image": "i"}]})
        status = await lending.told("bad", "reason", "Refused")
        assert "Bad_Name" in status["message"]
        await a_full_namespace_is_told(lending)
        await an_end_is_not_written_over_another(lending)

        shadow = shadow_slice("web-x", "10.1.0.1", "10.96.0.1")
        await as_user(lending, SLICE_USER, "POST", SHADOW_ENDPOINT_SLICES, shadow)

        await lending.admin.delete(SHADOW_PODS, "web-1", SHOP)

        async def collected() -> bool:
            return await lending.pod("web-1") is None

        await eventually(collected, seconds=20)
    await the_daemon_hands_on_no_other_role(lending)
    await uninstalling_leaves_nothing(lending)


async def a_full_namespace_is_told(made: Lender) -> None:
    """A ResourceQuota refuses with 403, and the pod comes when there is room."""
    hard = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
    await made.admin.create(RESOURCE_QUOTAS, hard, SHOP)

    async def counted() -> bool:
        found = await made.admin.get(RESOURCE_QUOTAS, "few", SHOP)
        return bool(found.get("status", {}).get("used", {}).get("pods") == "1")

    await eventually(counted, seconds=20)
    await ask(made, "more", cpu="1")
    status = await made.told("more", "reason", "Refused")
    assert "exceeded quota" in status["message"]
    await made.admin.delete(RESOURCE_QUOTAS, "few", SHOP)
    await made.made("more")


async def an_end_is_not_written_over_another(made: Lender) -> None:
    """The server refuses the phase of a ShadowPod that is another by now."""
    await ask(made, "job")
    await made.made("job")
    await made.set_phase("job", "Failed")
    await made.told("job", "phase", "Failed")
    uid = (await made.pod("job") or {})["metadata"]["uid"]
    await made.admin.delete(SHADOW_PODS, "job", SHOP)
    await ask(made, "job")
    await made.made("job", other_than=uid)


async def the_daemon_hands_on_no_other_role(made: Lender) -> None:
    binding = {
        "metadata": {"name": "escalation"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "liqod", "namespace": "liqo"}],
    }
    with pytest.raises(Forbidden):
        await made.context.client.create(CLUSTER_ROLE_BINDINGS, binding)


async def uninstalling_leaves_nothing(made: Lender) -> None:
    """With real finalizers and a real garbage collector, and what was lent there."""
    metadata = {"name": "x", "labels": {labels.REMOTE_CLUSTER_ID: CONSUMER}}
    wanted = {"metadata": metadata, "spec": {"class": "default"}}
    await made.admin.create(RESOURCE_SLICES, wanted, TENANT)
    with pytest.raises(ConfigError, match="peered with rome"):
        await install.uninstall(made.admin, "liqo", purge=True, progress=quiet)
    await made.admin.delete(RESOURCE_SLICES, "x", TENANT)
    await install.uninstall(made.admin, "liqo", purge=True, progress=quiet)
    left = {one["metadata"]["name"] for one in await made.admin.list(NAMESPACES)}
    assert left == {"default", "kube-system", "kube-public", "kube-node-lease"}
    with pytest.raises(LiqodError):
        await made.context.client.list(PODS)
