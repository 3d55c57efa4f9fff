"""Requests resources of a provider, as ``liqod peer`` does: a slice, its verdict, its node.

Idempotent: an existing slice is changed to the present request. Deadlines are the caller's.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES
from liqod.consumer.slices.sliceobjects import group_of, request_of
from liqod.errors import AlreadyExists, ConfigError
from liqod.identity.keys import public_pem
from liqod.kube.client import Client
from liqod.model import ids
from liqod.model.crossing import guestrules
from liqod.model.crossing.guestrules import Rules
from liqod.model.objects import conditions, quantities
from liqod.model.objects.partial import Node
from liqod.model.objects.patches import exact_patch
from liqod.procedures.resourcerequest import ResourceRequest
from liqod.procedures.slicenodes import nodes_of
from liqod.resources import IDENTITIES, RESOURCE_SLICES, Identity, ResourceSlice
from liqod.resources.authentication import (
    ACCEPTED,
    AUTHENTICATION,
    DEFAULT_CLASS,
    DENIED,
    GROWTH_DENIED,
    RESOURCES,
)
from liqod.runtime.polling import poll_until
from liqod.runtime.progress import Progress, Step


async def ensure_slice(
    local: Client, here: str, provider: str, namespace: str, asked: ResourceRequest, private: bytes
) -> tuple[Any, ...]:
    """Make or change the ResourceSlice.

    Args:
        local: an administrator's client of this cluster.
        here: this cluster's id.
        provider: the provider's.
        namespace: its tenant namespace in this cluster.
        asked: the resources to borrow.
        private: this cluster's key, PEM.

    Returns: the conditions that it had before.

    Raises:
        ConfigError: the name is not valid for a slice.
    """
    name = asked.name or provider
    problem = ids.slice_name_problem(name)
    if problem is not None:
        raise ConfigError(problem)
    known = ids.control_plane_identity(provider)
    identity = await local.find(IDENTITIES, known, namespace, decode=Identity)
    group = group_of(identity, here, public_pem(private))
    request = request_of(name, here, provider, private, group)
    return await _keep_slice(local, provider, namespace, name, asked, request)


async def wait_borrowed(
    local: Client,
    provider: str,
    namespace: str,
    asked: ResourceRequest,
    before: tuple[Any, ...],
    progress: Progress,
) -> None:
    """Wait until the slice is granted and its virtual node Ready.

    Args:
        local, provider, namespace, asked: as of :func:`ensure_slice`.
        before: its result: an old denial is not about the present request.
        progress: called with each awaited step.

    Raises:
        ConfigError: the provider denies the slice, or its growth.
    """
    name = asked.name or provider

    async def granted() -> str:
        found = await local.get(RESOURCE_SLICES, name, namespace, decode=ResourceSlice)
        for condition in found.status.conditions:
            if condition.denies and condition not in before:
                what = "the slice" if condition.status == DENIED else "growth to the slice"
                raise ConfigError(f"{provider} denies {what} {name}: {condition.message}")
        accepted = found.verdict(AUTHENTICATION) == found.verdict(RESOURCES) == ACCEPTED
        if accepted and (asked.class_name != DEFAULT_CLASS or _has(found, asked.resources)):
            return offer(found)
        return ""

    async def ready() -> bool:
        for node in await nodes_of(local, provider, name):
            found = await local.find(NODES, node, decode=Node)
            if found is not None and conditions.holds(found.status.conditions, "Ready"):
                return True
        return False

    step = f"wait for {provider} to grant resources"
    progress(step)
    progress(Step(step, await poll_until(granted)))
    if asked.node:
        progress(f"wait for the virtual node {name} to be Ready")
        await poll_until(ready)


def offer(found: ResourceSlice) -> str:
    """One line with a slice's grant, the classes that come with it, and the terms for its pods."""
    status = found.status
    grants = ", ".join(f"{name} {number}" for name, number in sorted(status.resources.items()))
    classes = {
        "storage": [each.storage_class_name for each in status.storage_classes],
        "ingress": [each.ingress_class_name for each in status.ingress_classes],
        "load-balancer": [each.load_balancer_class_name for each in status.load_balancer_classes],
    }
    offers = [f"{what} classes {', '.join(names)}" for what, names in classes.items() if names]
    # Liqo's daemon writes no such message.
    rules = guestrules.parse(found.metadata.annotations.get(labels.GUEST_RULES)) or Rules()
    held = rules.pod_security != Rules().pod_security
    terms = f"pods must fit the Pod Security level {rules.pod_security}" if held else ""
    parts = [grants, "; ".join(offers) or "no storage, ingress or load-balancer classes", terms]
    return "; ".join(part for part in parts if part)


async def _keep_slice(
    local: Client,
    provider: str,
    namespace: str,
    name: str,
    asked: ResourceRequest,
    request: dict[str, Any],
) -> tuple[Any, ...]:
    """Create the slice, or change its request; returns the conditions that it had before."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "labels": {
            labels.REPLICATION: labels.TRUE,
            labels.REMOTE_ID: provider,
            labels.REMOTE_CLUSTER_ID: provider,
        },
    }
    if asked.node:
        metadata["annotations"] = {labels.CREATE_VIRTUAL_NODE: labels.TRUE}
        if asked.virtual_nodes:
            metadata["annotations"][labels.VIRTUAL_NODES] = asked.virtual_nodes
    spec = {
        "class": asked.class_name,
        "providerClusterID": provider,
        "resources": dict(asked.resources),
    }
    made = {"metadata": metadata, "spec": {**spec, **request}}
    try:
        await local.create(RESOURCE_SLICES, made, namespace)
    except AlreadyExists:
        live = await local.get(RESOURCE_SLICES, name, namespace)
        if not asked.resources:
            spec.pop("resources")
        else:
            spec["resources"] = exact_patch(live["spec"].get("resources", {}), asked.resources)
        patch = {"metadata": metadata, "spec": spec}
        await local.patch(RESOURCE_SLICES, name, patch, namespace)
        had = msgspec.convert(live, ResourceSlice).status.conditions
        if not asked.resources or spec["resources"]:
            return had
        # The same request again: its denial still holds.
        return tuple(each for each in had if each.reason != GROWTH_DENIED)
    return ()


def _has(found: ResourceSlice, resources: Mapping[str, str]) -> bool:
    """True if exactly these resources were granted: an older verdict is about other ones."""
    granted = found.status.resources
    return all(quantities.equal(granted.get(name), n) for name, n in resources.items())
