"""Attacks of a consumer with every right it has on a provider: a real API server refuses them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    PODS,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    SECRETS,
    SERVICES,
    Kind,
)
from liqod.errors import AlreadyExists, Forbidden
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.model.crossing import allowedkeys
from liqod.plugins.reflectors.disruptionbudgets import OPT_IN
from liqod.provider.namespaces.mapping import QUOTA_NAME
from liqod.provider.slices.objectquotas import AFFINITY_QUOTA, ObjectQuotas
from liqod.provider.slices.sharedquotas import QuotaBalancer
from liqod.provider.tenants import bindings
from liqod.provider.timings import ProviderTimings
from liqod.resources import (
    NAMESPACE_MAPS,
    NAMESPACE_OFFLOADINGS,
    SHADOW_PODS,
    TENANTS,
)
from liqod.runtime.backoff import Backoff
from tests.cluster.beyond import (
    BEYOND,
    BUDGETS,
    CHANGED,
    CHOSEN_PORT,
    CLAIMS,
    EVENT,
    INGRESSES,
    LISTS,
    ORDINARY,
    OWN_HOST,
    OWNER,
    change_noted,
    claim,
    debugger,
    ingress,
    routed,
    running,
    service,
    volume,
)
from tests.cluster.forging import CONTROL_PLANE, SLICE_USER, as_user
from tests.cluster.providing import Milan, provider
from tests.cluster.test_lending import ask, at_work, policies_hold
from tests.simulated.borrower import eventually
from tests.simulated.lender import CONSUMER, SHOP, TENANT, Lender, lender, shadow_pod

pytestmark = pytest.mark.cluster

Json = dict[str, Any]
NAMED: Json = {"type": "ExternalName", "externalName": "web.example", "ports": [{"port": 80}]}
ADDRESSED: Json = {"spec": {"type": "ClusterIP", "externalName": None, "clusterIP": "10.96.77.78"}}
CONTROLLER = (
    "system:serviceaccount:kube-system:ephemeral-volume-controller",
    "system:serviceaccounts:kube-system",
)
BINDER = ("system:serviceaccount:kube-system:persistent-volume-binder", CONTROLLER[1])
ACCOUNTS = Kind("", "v1", "ServiceAccount", "serviceaccounts")


@pytest.fixture(scope="module")
def milan() -> Iterator[Milan]:
    yield from provider("", _lend)


async def _lend(made: Lender) -> None:
    await made.admin.patch(NAMESPACES, SHOP, {"metadata": {"annotations": LISTS}})
    await bindings.bind(made.context.client, bindings.opted(OPT_IN, CONSUMER, TENANT, SHOP))
    await made.grant(cpu="64", pods="500")
    await policies_hold(made)
    for number in range(len(BEYOND)):
        await _held(made, number)


def _beyond(number: int) -> tuple[Kind, Json, str]:
    """An object that a consumer may not write, with a name of its own, and why."""
    kind, obj, why = BEYOND[number]
    full = shadow_pod("x") if kind is SHADOW_PODS else {}
    meta = {"name": f"beyond-{number}", **obj.get("metadata", {})}
    own = obj.get("metadata", {}).get("labels", {})
    meta["labels"] = {**full.get("metadata", {}).get("labels", {}), **own}
    return kind, {**full, **obj, "metadata": meta}, why


async def _held(made: Lender, number: int) -> None:
    """Until the API server evaluates the policy, too, that refuses this.

    It takes them up one after the other, and a busy machine may be asked between two of them.
    """
    kind, obj, _ = _beyond(number)

    async def look() -> bool:
        try:
            await as_user(made, SLICE_USER, "POST", kind, obj)
        except Forbidden:
            return True
        except AlreadyExists:  # a claim of the look before, which a finalizer keeps for a moment
            return False
        await made.admin.delete(kind, obj["metadata"]["name"], SHOP)
        return False

    await eventually(look, seconds=20)


@pytest.fixture
async def lending(milan: Milan):
    async with Client(milan.admin) as admin, lender(admin, milan.daemon) as made:
        yield made


async def test_what_reaches_beyond_its_namespace(lending: Lender):
    """Refused at creation and as a change; what is ordinary is not."""
    for number in range(len(BEYOND)):
        kind, obj, why = _beyond(number)
        with pytest.raises(Forbidden, match=why):
            await as_user(lending, SLICE_USER, "POST", kind, obj)
    for number, (kind, obj) in enumerate(ORDINARY):
        meta = {"name": f"own-{number}", **obj.get("metadata", {})}
        await as_user(lending, SLICE_USER, "POST", kind, {**obj, "metadata": meta})
    named = {"metadata": {"name": "named"}, "spec": NAMED}
    await as_user(lending, SLICE_USER, "POST", SERVICES, named)
    for kind, name, patch, why in (
        (SERVICES, "own-0", {"spec": {"externalIPs": ["10.0.0.1"]}}, "externalIPs"),
        (CLAIMS, "own-2", {"spec": {"volumeName": "the-banks"}}, "volume that exists"),
        (INGRESSES, "own-3", ingress(server_snippet="x"), "snippet"),
        (CONFIG_MAPS, "own-4", {"metadata": {"finalizers": ["rome.example/stay"]}}, "finalizers"),
        (CONFIG_MAPS, "own-4", {"metadata": {"ownerReferences": [OWNER]}}, "owner references"),
        (CONFIG_MAPS, "own-4", {"metadata": {"labels": {"a.io/b": "x"}}}, "labels that are not"),
        (INGRESSES, "own-3", routed("www.bank.example"), "ingress_hosts"),
        (BUDGETS, "own-7", {"spec": {"minAvailable": "100%"}}, "as a number"),
        (SERVICES, "own-0", {"spec": {"ports": CHOSEN_PORT}}, "nodePort is not for guests"),
        (SERVICES, "own-8", {"spec": {"loadBalancerIP": "10.0.0.9"}}, "loadBalancerIP is not"),
        # From a name to an address: the only change of an address that there is.
        (SERVICES, "named", ADDRESSED, "clusterIP is not for guests"),
    ):
        with pytest.raises(Forbidden, match=why):
            await as_user(lending, SLICE_USER, "PATCH", kind, patch, name=name)
    await as_user(
        lending, SLICE_USER, "PATCH", CLAIMS, {"metadata": {"labels": {"a": "b"}}}, name="own-2"
    )
    # An address that is given out is no choice.
    unnamed = {"spec": {"type": "ClusterIP", "externalName": None}}
    await as_user(lending, SLICE_USER, "PATCH", SERVICES, unnamed, name="named")
    whole = await lending.admin.get(SERVICES, "named", SHOP)
    assert whole["spec"]["clusterIP"]
    await as_user(lending, SLICE_USER, "PUT", SERVICES, whole, name="named")
    # A port that was given out is no choice, one more neither.
    given = (await lending.admin.get(SERVICES, "own-0", SHOP))["spec"]["ports"]
    more = {"spec": {"ports": [{**given[0], "name": "a"}, {"name": "b", "port": 81}]}}
    await as_user(lending, SLICE_USER, "PATCH", SERVICES, more, name="own-0")
    # What others have put there is nobody's fault.
    theirs = {"metadata": {"annotations": {"example.com/controller": "x"}}}
    await lending.admin.patch(CONFIG_MAPS, "own-4", theirs, SHOP)
    await as_user(lending, SLICE_USER, "PATCH", CONFIG_MAPS, {"data": {"c": "d"}}, name="own-4")
    for kind, name in ((SERVICES, "own-0"), (CLAIMS, "own-2"), (CONFIG_MAPS, "own-4")):
        await as_user(lending, SLICE_USER, "DELETE", kind, {}, name=name)
    await lending.admin.create(EVENTS, {"metadata": {"name": "theirs"}, **EVENT}, SHOP)
    for verb in ("PATCH", "DELETE"):
        with pytest.raises(Forbidden, match=r"cannot .* resource .events"):
            await as_user(lending, SLICE_USER, verb, EVENTS, {"reason": "Owned"}, name="theirs")


async def test_a_claim_that_a_controller_makes_is_its_own(lending: Lender):
    """As of an ephemeral volume: from what the consumer says in its pod."""
    for number, (kind, _, _) in enumerate(BEYOND):
        if kind is CLAIMS:
            _, obj, why = _beyond(number)
            with pytest.raises(Forbidden, match=why):
                await as_user(lending, CONTROLLER, "POST", CLAIMS, obj)
    owned = {"name": "of-a-pod", "ownerReferences": [{**OWNER, "controller": True}]}
    await as_user(lending, CONTROLLER, "POST", CLAIMS, {"metadata": owned, **claim()})
    bound = await as_user(
        lending, CONTROLLER, "POST", CLAIMS, {"metadata": {"name": "b"}} | claim()
    )
    bound["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    del bound["metadata"]["resourceVersion"]
    await as_user(lending, BINDER, "PUT", CLAIMS, bound, name="b")


async def test_lists_that_nobody_wrote_down_are_the_defaults(lending: Lender):
    """A namespace of an older daemon, for as long as that takes; and what it says is learned."""
    gone: Json = {"metadata": {"annotations": dict.fromkeys(LISTS)}}
    await lending.admin.patch(NAMESPACES, SHOP, gone)
    try:
        ordinary = {"checksum/config": "x", "meta.helm.sh/release-name": "shop", "note": "x"}
        marks = {"app": "web", "app.kubernetes.io/name": "web", "helm.sh/chart": "web-1"}
        meta = {"labels": marks, "annotations": ordinary}
        await _comes(lending, CONFIG_MAPS, {"metadata": {"name": "ordinary", **meta}})
        strange = {**ordinary, "a.io/b": "x", "c.io/d": "x"}
        body = {"name": "strange", "labels": {**marks, "e.io/f": "x"}, "annotations": strange}
        with pytest.raises(Forbidden) as refused:
            await as_user(lending, SLICE_USER, "POST", CONFIG_MAPS, {"metadata": body})
        _, learned = allowedkeys.refused(str(refused.value))
        assert learned == {"a.io/b", "c.io/d"}
        named = {"metadata": {"name": "none"}, **routed(OWN_HOST)}
        with pytest.raises(Forbidden, match="ingress_hosts"):
            await as_user(lending, SLICE_USER, "POST", INGRESSES, named)
    finally:
        await lending.admin.patch(NAMESPACES, SHOP, {"metadata": {"annotations": LISTS}})


async def _comes(lending: Lender, kind: Kind, obj: Json) -> None:
    """Create it, as soon as the API server's policies know the namespace as it is."""

    async def look() -> bool:
        try:
            await as_user(lending, SLICE_USER, "POST", kind, obj)
        except Forbidden:
            return False
        return True

    await eventually(look, seconds=20)


async def test_namespaces_that_hold_keys_are_not_offloaded_by_anybody(lending: Lender):
    body = {"metadata": {"name": "offloading"}, "spec": {}}
    for name in ("liqo", "kube-system", TENANT):
        with pytest.raises(Forbidden, match=f"the namespace {name} cannot be offloaded"):
            await lending.admin.create(NAMESPACE_OFFLOADINGS, body, name)
    await lending.admin.create(NAMESPACE_OFFLOADINGS, body, "default")
    await lending.admin.delete(NAMESPACE_OFFLOADINGS, "offloading", "default")


NO_RIGHT = [
    ("GET", SECRETS, "default", "", ""),
    ("GET", SECRETS, "liqo", "authentication-keys", ""),
    ("GET", SECRETS, TENANT, "", ""),
    ("POST", SHADOW_PODS, "default", "", ""),
    ("POST", PODS, SHOP, "", ""),
    ("DELETE", PODS, SHOP, "x", ""),
    ("PATCH", PODS, SHOP, "x", "ephemeralcontainers"),
    ("PATCH", PODS, SHOP, "x", "resize"),
    ("PATCH", PODS, SHOP, "x", "status"),
    ("POST", PODS, SHOP, "x", "eviction"),
    ("POST", PODS, SHOP, "x", "binding"),
    ("POST", ACCOUNTS, SHOP, "", ""),
    ("POST", ACCOUNTS, SHOP, "default", "token"),
    ("POST", ROLE_BINDINGS, SHOP, "", ""),
    ("PATCH", SHADOW_PODS, SHOP, "x", "status"),
    ("PATCH", SERVICES, SHOP, "x", "status"),
    ("PATCH", TENANTS, TENANT, CONSUMER, "status"),
    ("PATCH", TENANTS, TENANT, CONSUMER, ""),
    ("DELETE", NAMESPACES, "", SHOP, ""),
    ("POST", NAMESPACES, "", "", ""),
]


async def test_where_it_has_no_right_at_all(lending):
    for who in (SLICE_USER, CONTROL_PLANE):
        for method, kind, namespace, name, subresource in NO_RIGHT:
            where = {"namespace": namespace, "name": name, "subresource": subresource}
            with pytest.raises(Forbidden):
                await as_user(lending, who, method, kind, {"metadata": {"name": "x"}}, **where)


ANYBODYS_PODS = {
    "requiredDuringSchedulingIgnoredDuringExecution": [
        {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {},
            "namespaceSelector": {},
        }
    ]
}


def port(**fields: Any) -> Json:
    ports = [{"containerPort": 80, **fields}]
    return {"containers": [{"name": "web", "image": "web", "ports": ports}]}


def profile(**fields: Any) -> Json:
    return {"securityContext": fields}


NOT_MADE = {
    "host-network": ({"hostNetwork": True}, "Refused", "PodSecurity"),
    "host-pid": ({"hostPID": True}, "Refused", "PodSecurity"),
    "host-ipc": ({"hostIPC": True}, "Refused", "PodSecurity"),
    "host-port": (port(hostPort=80), "Refused", "PodSecurity"),
    "host-path": (volume(hostPath={"path": "/"}), "NotAllowed", "volumes"),
    "privileged": (running(privileged=True), "Refused", "PodSecurity"),
    "capability": (running(capabilities={"add": ["SYS_ADMIN"]}), "Refused", "PodSecurity"),
    "proc": (running(procMount="Unmasked"), "Refused", "procMount"),
    "sysctl": (
        profile(sysctls=[{"name": "net.core.somaxconn", "value": "1"}]),
        "Refused",
        "PodSecurity",
    ),
    "seccomp": (profile(seccompProfile={"type": "Unconfined"}), "Refused", "PodSecurity"),
    "apparmor": (profile(appArmorProfile={"type": "Unconfined"}), "Refused", "PodSecurity"),
    "selinux": (profile(seLinuxOptions={"user": "sysadm_u"}), "Refused", "PodSecurity"),
    "affinity": ({"affinity": {"podAntiAffinity": ANYBODYS_PODS}}, "Refused", "liqod-affinity"),
    "account": ({"serviceAccountName": "deployer"}, "NotAllowed", "service_accounts"),
    "runtime": ({"runtimeClassName": "nvidia"}, "NotAllowed", "runtime_classes"),
    "label": ({}, "NotAllowed", "labels"),
    "driver": (volume(csi={"driver": "secrets-store.csi.k8s.io"}), "NotAllowed", "volumes"),
    "disk": (volume(iscsi={"targetPortal": "x", "iqn": "y", "lun": 0}), "NotAllowed", "volumes"),
}


async def test_pods_that_ask_for_more_than_guests_have(lending):
    """Every refusal reaches the consumer with its reason; what it may not choose is left out."""
    late = ProviderTimings(pauses=Backoff(first=30.0, last=60.0))
    quotas = ObjectQuotas(lending.context.client, CONSUMER, {})
    await quotas.forbid_affinity(SHOP)

    async def counted() -> bool:
        found = await lending.admin.get(RESOURCE_QUOTAS, AFFINITY_QUOTA, SHOP)
        return "pods" in found.get("status", {}).get("used", {})

    await eventually(counted, seconds=20)
    async with at_work(lending, late):
        for name, (spec, _, _) in NOT_MADE.items():
            marks = {"strimzi.io/cluster": "bank"} if name == "label" else {}
            await ask(lending, name, pod=spec, labels=marks)
        for name, (_, reason, why) in NOT_MADE.items():
            with trio.move_on_after(10):
                await lending.told(name, "reason", reason)
            status = (await lending.shadow(name)).get("status", {})
            assert status.get("reason") == reason, (name, status)
            assert why in status["message"], (name, status)
            assert await lending.pod(name) is None
        chosen = {
            "nodeName": "control-plane",
            "schedulerName": "their-own",
            "priorityClassName": "system-node-critical",
            "tolerations": [{"operator": "Exists"}],
        }
        await ask(lending, "chooser", pod=chosen)
        spec = (await lending.made("chooser"))["spec"]
        assert (spec.get("nodeName"), spec["priority"]) == (None, 0)
        assert spec["schedulerName"] == "default-scheduler"
        assert {each["key"] for each in spec["tolerations"]} == {
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
        }


async def test_changes_that_ask_for_more_than_guests_have(lending: Lender):
    """Each is noted on the pod, which stays as it is; what a guest may change is changed."""
    async with at_work(lending):
        for name in CHANGED:
            asked = running()["containers"][0] | {"resources": {"requests": {"cpu": "1"}}}
            await ask(lending, f"changed-{name}", pod={"containers": [asked]})
        before = {name: (await lending.made(f"changed-{name}"))["spec"] for name in CHANGED}
        for name, (spec, _, _) in CHANGED.items():
            change = {"spec": {"pod": {"activeDeadlineSeconds": 60, **spec}}}
            doing = (SLICE_USER, "PATCH", SHADOW_PODS, change)
            await as_user(lending, *doing, name=f"changed-{name}")
        for name, (_, reason, why) in CHANGED.items():
            note = await change_noted(lending, f"changed-{name}")
            assert f" {reason}: " in note, (name, note)
            assert why in note, (name, note)
            after = await lending.admin.get(PODS, f"changed-{name}", SHOP)
            kept = {key: each for key, each in after["spec"].items() if key in before[name]}
            assert kept == before[name], name
            deadline = after["spec"].get("activeDeadlineSeconds")
            assert deadline == (None if reason == "NotAllowed" else 60), name
        await ask(lending, "from-the-start", pod=debugger(privileged=True))
        assert "PodSecurity" in await change_noted(lending, "from-the-start")


async def test_rights_by_a_token_are_held_like_those_by_a_certificate(lending):
    """An administrator binds a ServiceAccount instead, as for a tenant without handshake."""
    agent = ("system:serviceaccount:default:agent-of-rome", "system:serviceaccounts")
    subject = {"kind": "ServiceAccount", "name": "agent-of-rome", "namespace": "default"}
    for namespace, role in (
        (SHOP, labels.REMOTE_ROLE),
        (TENANT, labels.CONTROL_PLANE_ROLE),
        (TENANT, labels.PEERING_USER_ROLE),
    ):
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        binding = {"metadata": {"name": role}, "roleRef": ref, "subjects": [subject]}
        await lending.admin.create(ROLE_BINDINGS, binding, namespace)

    async def bound() -> bool:
        try:
            await as_user(lending, agent, "POST", SERVICES, {**service(), **named("agents")})
        except Forbidden:
            return False
        return True

    await eventually(bound, seconds=20)

    # Its name ends as another's of the same consumer does: anything else means nobody here.
    other = f"other{agent[0][-ids.USER_SUFFIX :]}"
    trusted = {"spec": {"clusterID": CONSUMER, "authzPolicy": "TolerateNoHandshake"}}
    for namespace, kind, obj, why in (
        (SHOP, SERVICES, {**service(externalIPs=["10.0.0.1"]), **named("x")}, "externalIPs"),
        (SHOP, SHADOW_PODS, shadow_pod("x", user=other), f"says {other}, but the request is of"),
        (TENANT, NAMESPACE_MAPS, {**named("x"), "spec": {}}, "its own replicas only"),
        (TENANT, TENANTS, {**named(CONSUMER), **trusted}, "the provider's to write"),
        (TENANT, SECRETS, named("kubeconfig"), "the nonce's Secret only"),
    ):
        with pytest.raises(Forbidden, match=why):
            await as_user(lending, agent, "POST", kind, obj, namespace=namespace)


def named(name: str) -> Json:
    return {"metadata": {"name": name}}


async def test_a_flood_ends_at_the_bound(lending):
    """A megabyte each, forty at once: no more come than the ResourceQuota has room for."""
    quotas = ObjectQuotas(lending.context.client, CONSUMER, {"count/configmaps": "12"})
    await quotas.keep(SHOP)

    async def counted() -> bool:
        found = await lending.admin.get(RESOURCE_QUOTAS, QUOTA_NAME, SHOP)
        return "count/configmaps" in found.get("status", {}).get("used", {})

    await eventually(counted, seconds=20)
    refusals: list[str] = []

    async def one(number: int) -> None:
        obj = {**named(f"flood-{number}"), "data": {"fat": "x" * 1_000_000}}
        try:
            await as_user(lending, SLICE_USER, "POST", CONFIG_MAPS, obj)
        except Forbidden as error:
            refusals.append(str(error))

    async with trio.open_nursery() as nursery:
        for number in range(40):
            nursery.start_soon(one, number)
    found = await lending.admin.list(CONFIG_MAPS, Selection(SHOP, metadata_only=True))
    assert len(found) <= 12
    assert len(refusals) >= 40 - len(found)
    assert all("exceeded quota: liqod-objects" in each for each in refusals)


async def test_namespaces_at_once_have_no_more_than_the_consumer_may(lending):
    """By the real quota controller: nearly all for one that is busy, and never more."""
    quotas = ObjectQuotas(lending.context.client, CONSUMER, {"count/secrets": "12"}, shared=True)
    assert quotas.shared is not None
    names = [f"many-{number}-{CONSUMER}" for number in range(3)]
    for name in names:
        await lending.map_namespace(name)

    async def number() -> int:
        found = [await lending.admin.list(SECRETS, Selection(name)) for name in names]
        return sum(map(len, found))

    async def flood(namespace: str) -> None:
        made = 0
        while True:
            try:
                await lending.admin.create(SECRETS, named(f"flood-{made}"), namespace)
                made += 1
            except Forbidden:
                await trio.sleep(0.1)

    async def divided() -> bool:
        found = [await lending.admin.get(RESOURCE_QUOTAS, QUOTA_NAME, name) for name in names]
        hard = [each.get("status", {}).get("hard", {}).get("count/secrets", 0) for each in found]
        return sum(map(int, hard)) == 12 and "0" not in hard

    async def nearly_all_used() -> bool:
        """The last one is kept for each namespace in turn."""
        return await number() >= 11

    async with trio.open_nursery() as nursery:
        await nursery.start(QuotaBalancer(lending.peer, quotas.shared).run)
        for name in names:
            await quotas.keep(name)
        await eventually(divided, seconds=30)
        nursery.start_soon(flood, names[1])
        await eventually(nearly_all_used, seconds=60)
        for name in (names[0], names[2]):
            nursery.start_soon(flood, name)
        await trio.sleep(2)
        assert await number() <= 12
        nursery.cancel_scope.cancel()
