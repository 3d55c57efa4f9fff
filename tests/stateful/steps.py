"""Steps that scripts are made of: actions of people and nodes, and accidents.

A step that makes no sense where it comes (there is no such pod) does nothing, so that every list
of steps is a script and a part of a script is one too.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    Kind,
)
from liqod.errors import LiqodError
from liqod.procedures import unpeering
from liqod.resources import (
    NAMESPACE_OFFLOADINGS,
    RESOURCE_SLICES,
    SHADOW_PODS,
    VIRTUAL_NODES,
)
from tests.stateful.audit import FOREIGN
from tests.stateful.world import SHOP, THERE, World

Json = dict[str, Any]

KINDS: dict[str, Kind] = {
    "pod": PODS,
    "shadowpod": SHADOW_PODS,
    "service": SERVICES,
    "configmap": CONFIG_MAPS,
    "secret": SECRETS,
    "endpointslice": ENDPOINT_SLICES,
}
PEERING_DEADLINE = 120.0


class Step:
    """Something that happens."""

    async def do(self, world: World) -> None:
        """Have it happen."""
        with suppress(LiqodError):
            await self.act(world)

    async def act(self, world: World) -> None:
        """Performs the action of :meth:`do`; an error of the project means that nothing happens."""
        raise NotImplementedError


@dataclass(frozen=True)
class Wait(Step):
    """Time passes."""

    seconds: float

    async def act(self, world: World) -> None:
        await trio.sleep(self.seconds)


# Here:


@dataclass(frozen=True)
class Pod(Step):
    """A pod is made on a virtual node."""

    name: str
    node: str

    async def act(self, world: World) -> None:
        await world.context.hand.create(PODS, pod_manifest(self.name, self.node), SHOP)


@dataclass(frozen=True)
class Recreate(Step):
    """A pod is removed at once, and another one of the same name made."""

    name: str
    node: str

    async def act(self, world: World) -> None:
        await world.context.hand.delete(PODS, self.name, SHOP, grace=0)
        await world.context.hand.create(PODS, pod_manifest(self.name, self.node), SHOP)


@dataclass(frozen=True)
class Deployment(Step):
    """A Deployment has so many replicas, on whichever nodes; ``stray`` leaves them to the webhook.

    Its pods wait for a virtual node and tolerate none, until the webhook or the daemon helps.
    """

    name: str
    replicas: int

    async def act(self, world: World) -> None:
        hand = world.context.hand
        if await hand.find(DEPLOYMENTS, self.name, SHOP) is None:
            await hand.create(DEPLOYMENTS, deployment_manifest(self.name, self.replicas), SHOP)
        await hand.patch(DEPLOYMENTS, self.name, {"spec": {"replicas": self.replicas}}, SHOP)


@dataclass(frozen=True)
class Put(Step):
    """A Service, ConfigMap or Secret is made, or changed."""

    kind: str
    name: str
    value: str

    async def act(self, world: World) -> None:
        hand, kind = world.context.hand, KINDS[self.kind]
        content = _content(self.kind, self.value)
        if await hand.find(kind, self.name, SHOP) is None:
            meta = {"name": self.name, "namespace": SHOP}
            await hand.create(kind, {"metadata": meta, **content}, SHOP)
        else:
            await hand.patch(kind, self.name, content, SHOP)


@dataclass(frozen=True)
class Delete(Step):
    """An object of the consumer's is deleted."""

    kind: str
    name: str

    async def act(self, world: World) -> None:
        kind = DEPLOYMENTS if self.kind == "deployment" else KINDS[self.kind]
        await world.context.hand.delete(kind, self.name, SHOP)


@dataclass(frozen=True)
class Label(Step):
    """An object of the consumer's gets a label, or another value of it; None takes it away."""

    kind: str
    name: str
    value: str | None

    async def act(self, world: World) -> None:
        patch = {"metadata": {"labels": {"colour": self.value}}}
        await world.context.hand.patch(KINDS[self.kind], self.name, patch, SHOP)


@dataclass(frozen=True)
class Offload(Step):
    """The namespace is offloaded."""

    async def act(self, world: World) -> None:
        manifest = {"metadata": {"name": "offloading", "namespace": SHOP}, "spec": {}}
        await world.context.hand.create(NAMESPACE_OFFLOADINGS, manifest, SHOP)


@dataclass(frozen=True)
class Unoffload(Step):
    """It is offloaded no more."""

    async def act(self, world: World) -> None:
        await world.context.hand.delete(NAMESPACE_OFFLOADINGS, "offloading", SHOP)


@dataclass(frozen=True)
class Peer(Step):
    """``liqod peer``, which goes on while other things happen."""

    provider: str

    async def do(self, world: World) -> None:
        async def go() -> None:
            with suppress(LiqodError), trio.move_on_after(PEERING_DEADLINE):
                await world.peer(self.provider)

        world.nursery.start_soon(go)
        await trio.sleep(0.3)


@dataclass(frozen=True)
class Unpeer(Step):
    """``liqod unpeer``, on either side; it goes on while other things happen."""

    at: str
    peer: str

    async def do(self, world: World) -> None:
        async def go() -> None:
            with suppress(LiqodError), trio.move_on_after(PEERING_DEADLINE):
                await unpeering.unpeer(world[self.at].admin, self.peer, progress=lambda _: None)

        world.nursery.start_soon(go)
        await trio.sleep(0.3)


@dataclass(frozen=True)
class DropSlice(Step):
    """The consumer's slice is deleted."""

    provider: str

    async def act(self, world: World) -> None:
        namespace = f"liqo-tenant-{self.provider}"
        await world.context.hand.delete(RESOURCE_SLICES, self.provider, namespace)


@dataclass(frozen=True)
class DropVirtualNode(Step):
    """The virtual node is deleted; its slice makes another one."""

    provider: str

    async def act(self, world: World) -> None:
        namespace = f"liqo-tenant-{self.provider}"
        await world.context.hand.delete(VIRTUAL_NODES, self.provider, namespace)


@dataclass(frozen=True)
class DropTenantNamespace(Step):
    """The namespace of a peering is deleted, here or there."""

    at: str
    peer: str

    async def act(self, world: World) -> None:
        await world[self.at].hand.delete(NAMESPACES, f"liqo-tenant-{self.peer}")


# At a provider:


@dataclass(frozen=True)
class DropRemoteNamespace(Step):
    """The mapped namespace is deleted by hand."""

    provider: str

    async def act(self, world: World) -> None:
        await world[self.provider].hand.delete(NAMESPACES, THERE)


@dataclass(frozen=True)
class DropRemote(Step):
    """Deletes by hand the reflection of a consumer's object."""

    provider: str
    kind: str
    name: str

    async def act(self, world: World) -> None:
        await world[self.provider].hand.delete(KINDS[self.kind], self.name, THERE)


@dataclass(frozen=True)
class EditRemote(Step):
    """Edits by hand the reflection of a consumer's object: a label, data, the image."""

    provider: str
    kind: str
    name: str
    value: str

    async def act(self, world: World) -> None:
        patch: Json = {"metadata": {"labels": {"colour": self.value}}}
        if self.kind in ("configmap", "secret", "service"):
            patch |= _content(self.kind, self.value)
        if self.kind == "shadowpod":
            patch["spec"] = {"pod": {"containers": [{"name": "web", "image": "stolen"}]}}
        await world[self.provider].hand.patch(KINDS[self.kind], self.name, patch, THERE)


@dataclass(frozen=True)
class StripRemote(Step):
    """The marks of ownership are taken off by hand: from then on it is somebody else's."""

    provider: str
    kind: str
    name: str

    async def act(self, world: World) -> None:
        marks = {labels.ORIGIN: None, labels.DESTINATION: None, FOREIGN: "true"}
        patch = {"metadata": {"labels": marks}}
        await world[self.provider].hand.patch(KINDS[self.kind], self.name, patch, THERE)


@dataclass(frozen=True)
class Foreign(Step):
    """Somebody at the provider makes an object of their own in the mapped namespace."""

    provider: str
    kind: str
    name: str

    async def act(self, world: World) -> None:
        meta: Json = {"name": self.name, "namespace": THERE, "labels": {FOREIGN: "true"}}
        if self.kind == "pod":
            obj: Json = {"spec": {"containers": [{"name": "own", "image": "own"}]}}
        else:
            obj = _content(self.kind, "own")
        await world[self.provider].hand.create(KINDS[self.kind], {"metadata": meta, **obj}, THERE)


@dataclass(frozen=True)
class Finish(Step):
    """A pod ends by itself at the provider."""

    provider: str
    name: str
    phase: str

    async def act(self, world: World) -> None:
        patch = {"status": {"phase": self.phase}}
        await world[self.provider].hand.patch(PODS, self.name, patch, THERE, subresource="status")


@dataclass(frozen=True)
class Cordon(Step):
    """The provider's only node takes no new pods, or does again."""

    provider: str
    on: bool

    async def act(self, world: World) -> None:
        patch = {"spec": {"unschedulable": self.on}}
        await world[self.provider].hand.patch(NODES, f"{self.provider}-node-1", patch)


@dataclass(frozen=True)
class Shut(Step):
    """A taint keeps new pods off the provider's only node, which consumers do not learn; or does no
    more."""

    provider: str
    on: bool

    async def act(self, world: World) -> None:
        taints = [{"key": "shut", "effect": "NoSchedule"}] if self.on else None
        patch = {"spec": {"taints": taints}}
        await world[self.provider].hand.patch(NODES, f"{self.provider}-node-1", patch)


def pod_manifest(name: str, node: str) -> Json:
    """A pod bound to a virtual node."""
    return {
        "metadata": {"name": name, "namespace": SHOP, "labels": {"app": name}},
        "spec": {**pod_spec(), "nodeName": node},
    }


def pod_spec() -> Json:
    """The spec of every pod."""
    request = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    return {
        "containers": [{"name": "web", "image": "web", "resources": request}],
        "tolerations": [{"key": labels.VIRTUAL_NODE_TAINT, "operator": "Exists"}],
        "terminationGracePeriodSeconds": 1,
    }


def deployment_manifest(name: str, replicas: int) -> Json:
    """A Deployment whose pods go to virtual nodes."""
    marks = {"app": name}
    term = {"key": labels.TYPE, "operator": "In", "values": [labels.VIRTUAL_NODE_TYPE]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    spec = {**pod_spec(), "affinity": {"nodeAffinity": required}}
    if name == "stray":
        del spec["tolerations"]
    template = {"metadata": {"labels": marks}, "spec": spec}
    return {
        "metadata": {"name": name, "namespace": SHOP},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": marks},
            "template": template,
        },
    }


def _content(kind: str, value: str) -> Json:
    match kind:
        case "service":
            port = 8000 + len(value)
            return {"spec": {"selector": {"app": value}, "ports": [{"port": port}]}}
        case "configmap":
            return {"data": {"value": value}}
        case _:
            return {"data": {"value": "dmFsdWU=" if value == "a" else "b3RoZXI="}}
