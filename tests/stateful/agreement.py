"""Conditions that hold once it is quiet: both sides agree, and nothing is left without a cause."""

from collections.abc import Iterator
from typing import Any

from liqod.apimachinery import labels
from liqod.model.objects import webhook
from simulator.storage.storage import Item
from tests.stateful.audit import CONSUMER, ENDED, FOREIGN, Broken, seen
from tests.stateful.cures import facts_of, is_due
from tests.stateful.world import NAMES, PROVIDERS, SHOP, THERE, World

Json = dict[str, Any]

PLAIN = ("services", "configmaps", "secrets")
REFLECTED = (
    *PLAIN,
    "shadowpods.offloading.liqo.io",
    "shadowendpointslices.offloading.liqo.io",
)
SLACK = 4
"""Tasks that may be under way at any moment: a probe, a renewal."""
LOCAL_OF = {
    "pods": "pods",
    "services": "services",
    "configmaps": "configmaps",
    "secrets": "secrets",
    "endpointslices": "endpointslices.discovery.k8s.io",
}
"""Where the local object of each reflector is."""


def check(world: World) -> None:
    """Raise what is wrong."""
    found = [problem for provider in PROVIDERS for problem in _problems(world, provider)]
    found += [*_webhook(world), *_strays(world), *_requests(world)]
    if found:
        raise Broken("; ".join(found) + "\n  " + world.audit.last(20))


def _problems(world: World, provider: str) -> Iterator[str]:
    if not _knows(world, provider):
        return  # without an identity there nothing can be removed there
    yield from _causes(world, provider)
    if _lent(world, provider):
        yield from _pods(world, provider)
        yield from _plain(world, provider)
        yield from _certificates(world, provider)


def _items(world: World, cluster: str, resource: str, namespace: str) -> list[Item]:
    return list(world[cluster].cluster.registry.storage.of(resource).items(namespace))


def _find(world: World, cluster: str, resource: str, namespace: str, name: str) -> Item | None:
    return world[cluster].cluster.registry.storage.of(resource).get(namespace, name)


def _knows(world: World, provider: str) -> bool:
    tenant, secret = f"liqo-tenant-{provider}", f"kubeconfig-controlplane-{provider}"
    return _find(world, CONSUMER, "secrets", tenant, secret) is not None


def _lent(world: World, provider: str) -> bool:
    """True if pods of ``shop`` run at a provider: peered, mapped, and accepted there."""
    tenant = f"liqo-tenant-{provider}"
    node = _find(world, CONSUMER, "virtualnodes.offloading.liqo.io", tenant, provider)
    wanted = _find(world, CONSUMER, "namespacemaps.offloading.liqo.io", tenant, provider)
    if node is None or seen(node).metadata.deletion_timestamp or wanted is None:
        return False
    entry = (wanted.decode().get("status") or {}).get("currentMapping", {}).get(SHOP)
    return bool(entry) and entry.get("phase") == "Accepted"


def _foreign(world: World, provider: str, resource: str, name: str) -> bool:
    """True if the object of this name at the provider is somebody else's."""
    found = _find(world, provider, resource, THERE, name)
    return found is not None and FOREIGN in seen(found).metadata.labels


def _causes(world: World, provider: str) -> Iterator[str]:
    """No object of ours without its local one."""
    for resource in REFLECTED:
        for item in _items(world, provider, resource, THERE):
            meta = seen(item).metadata
            if meta.labels.get(labels.ORIGIN) != CONSUMER:
                continue
            reflector, _, name = meta.annotations.get(labels.SOURCE, "").partition("/")
            if not reflector:
                continue  # edited by hand
            local = _find(world, CONSUMER, LOCAL_OF[reflector], SHOP, name)
            if local is None:
                yield f"{provider}: {resource} {item.name} has no {reflector} {name} at home"
            elif reflector == "pods" and meta.annotations.get(labels.LOCAL_UID) != local.uid:
                yield f"{provider}: {resource} {item.name} stands for a pod that is gone"
    for item in _items(world, provider, "pods", THERE):
        meta = seen(item).metadata
        if meta.labels.get(labels.MANAGED_BY) != labels.MANAGED_BY_SHADOW_POD:
            continue
        shadow = _find(world, provider, "shadowpods.offloading.liqo.io", THERE, item.name)
        if shadow is None or shadow.uid not in str(item.raw):
            yield f"{provider}: pod {item.name} has no ShadowPod"


def _pods(world: World, provider: str) -> Iterator[str]:
    for item in _items(world, CONSUMER, "pods", SHOP):
        pod = seen(item)
        if pod.spec.node_name != provider:
            continue
        if pod.metadata.deletion_timestamp:
            yield f"{provider}: the pod {item.name} never ends"
            continue
        if pod.status.phase in ENDED or _foreign(world, provider, "pods", item.name):
            continue
        if _foreign(world, provider, "shadowpods.offloading.liqo.io", item.name):
            continue
        remote_pods = world.audit.remote_pods(item.uid)
        if len(remote_pods) != 1:
            yield f"{provider}: the pod {item.name} has {len(remote_pods)} remote pods"
        elif (phase := seen(remote_pods[0]).status.phase) != pod.status.phase:
            yield f"{provider}: the pod {item.name} is {pod.status.phase}, its remote pod {phase}"
        elif not _labelled(item.decode(), remote_pods[0].decode()):
            yield f"{provider}: the remote pod of the pod {item.name} lacks its labels"
        elif "stolen" in _text(world, provider, item.name):
            yield f"{provider}: the ShadowPod {item.name} asks for another image"


def _text(world: World, provider: str, name: str) -> str:
    shadow = _find(world, provider, "shadowpods.offloading.liqo.io", THERE, name)
    return "" if shadow is None else shadow.raw.decode()


def _certificates(world: World, provider: str) -> Iterator[str]:
    """Every certificate is renewed in time."""
    for name, facts in facts_of(world, provider):
        if is_due(facts):
            yield f"{provider}: the certificate of {name} is due for renewal"


def _webhook(world: World) -> Iterator[str]:
    """It is announced, and found reachable."""
    kind = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
    found = _find(world, CONSUMER, kind, "", webhook.NAME)
    notes = seen(found).metadata.annotations if found is not None else {}
    if notes.get(labels.WEBHOOK_REACHABLE) != labels.TRUE:
        yield f"the webhook is not known to be reachable, but {notes or 'not announced'}"


def _strays(world: World) -> Iterator[str]:
    """No pod of an offloaded namespace waits for what the webhook would have given it."""
    kind = "namespaceoffloadings.offloading.liqo.io"
    offloading = _find(world, CONSUMER, kind, SHOP, labels.NAMESPACE_OFFLOADING_NAME)
    if offloading is None or seen(offloading).metadata.deletion_timestamp:
        return
    for item in _items(world, CONSUMER, "pods", SHOP):
        pod = item.decode()
        keys = {each.get("key") for each in pod["spec"].get("tolerations") or ()}
        if not pod["spec"].get("nodeName") and labels.VIRTUAL_NODE_TAINT not in keys:
            yield f"the pod {item.name} may not run at a peer"


def _requests(world: World) -> Iterator[str]:
    """No signing request stays, whatever became of the certificate."""
    for name in PROVIDERS:
        for item in _items(world, name, "certificatesigningrequests.certificates.k8s.io", ""):
            if labels.REMOTE_TENANT_CSR in seen(item).metadata.labels:
                yield f"{name}: the signing request {item.name} was left behind"


def _plain(world: World, provider: str) -> Iterator[str]:
    for resource in PLAIN:
        for item in _items(world, CONSUMER, resource, SHOP):
            if item.name == labels.ROOT_CA or seen(item).metadata.deletion_timestamp:
                continue
            if _foreign(world, provider, resource, item.name):
                continue
            remote_object = _find(world, provider, resource, THERE, item.name)
            if remote_object is None:
                yield f"{provider}: there are no {resource} {item.name}"
            elif not _same(item.decode(), remote_object.decode()):
                yield f"{provider}: {resource} {item.name} differ"


def _same(local: Json, remote_object: Json) -> bool:
    ports, other = (
        [each["port"] for each in (obj.get("spec") or {}).get("ports") or ()]
        for obj in (local, remote_object)
    )
    return (
        local.get("data") == remote_object.get("data")
        and ports == other
        and _labelled(local, remote_object)
    )


def _labelled(local: Json, remote_object: Json) -> bool:
    """True if the labels here are all there; labels that somebody else set there may stay."""
    there = (remote_object["metadata"].get("labels") or {}).items()
    return (local["metadata"].get("labels") or {}).items() <= there


async def nothing_is_left_to_do(world: World) -> None:
    """Daemons that start anew from the same objects write nothing, and need no more tasks.

    Work that only a restart finds was forgotten by the daemon that ran before.
    """
    before = {name: world[name].tasks for name in NAMES}
    known = len(world.audit.writes)
    for name in NAMES:
        world[name].kill()
        # A Lease that was led by once is renewed from then on: a peer sees by it who runs.
        world[name].elects |= world[name].paired
        world[name].paired = False
    await world.start()
    await world.settle()
    written = world.audit.by_daemons(known)
    if written:
        listed = "\n  ".join(map(str, written[:10]))
        raise Broken(f"daemons that were started anew found something to do:\n  {listed}")
    after = {name: world[name].tasks for name in NAMES}
    lent = all(_lent(world, provider) for provider in PROVIDERS)
    if lent and any(before[name] > after[name] + SLACK for name in NAMES):
        raise Broken(f"{before} tasks where new daemons need {after}")
