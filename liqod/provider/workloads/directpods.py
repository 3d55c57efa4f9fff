"""Makes ordinary pods of those that consumers wrote themselves, and ends the rights for that.

By the setting ``provider.direct_pods``, which there is no more, a consumer had pods here without a
ShadowPod each: direct pods. Each gets the ShadowPod that its consumer would have written, and is
left to it as it runs; the finalizer that held it goes. The configuration of the webhook that
reviewed new ones shows that there may be any. Nothing answers it, so that it refuses them, and it
goes last; role and policies are taken away by the installation.

To be deleted, with all that names it and with ``_is_direct`` of
:mod:`liqod.plugins.reflectors.pods`, once no cluster is upgraded any more from a version that has
the setting.
"""

import logging
from functools import partial
from typing import Any, Final

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import MUTATING_WEBHOOKS, NAMESPACES, PODS, ROLE_BINDINGS
from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.cluster.context import ClusterContext
from liqod.errors import AlreadyExists, Conflict, Forbidden, Invalid, LiqodError, NotFound
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model import finalizers
from liqod.model.crossing import graces
from liqod.model.objects.patches import BOOKKEEPING
from liqod.provider.tenants.trust import Binding
from liqod.provider.timings import ORDINARY, ProviderTimings
from liqod.provider.workloads.shadow import MADE, followed
from liqod.resources import SHADOW_PODS
from liqod.runtime.gather import gather

WEBHOOK: Final = "liqod-guests"
"""Name of the MutatingWebhookConfiguration that was made where direct pods were taken."""
ROLE: Final = "liqod-direct-pods"
"""ClusterRole by which a consumer wrote them."""
MARK: Final = "liqod.io/direct-pods"
"""Annotation of the namespaces where it was bound."""
AT_ONCE: Final = 16
_DIRECT: Final = Selection(labels=f"{labels.MANAGED_BY}={labels.MANAGED_BY_CONSUMER}")
_OF_PEERS: Final = Selection(labels=labels.REMOTE_CLUSTER_ID)
_SERVERS: Final = ("nodeName", "schedulerName", "priority", "preemptionPolicy", "serviceAccount")
"""Fields of a live pod that are this cluster's own, and not requested by its consumer."""

Json = dict[str, Any]

log = logging.getLogger(__name__)


async def run(
    context: ClusterContext,
    timings: ProviderTimings = ORDINARY,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Take over until nothing is left of it; started once each pod was tried."""
    done = await _tried(context.client)
    task_status.started()
    while not done:
        await trio.sleep(timings.direct_pods)
        done = await _tried(context.client)


async def _tried(client: Client) -> bool:
    try:
        return await take_over(client)
    except LiqodError as error:
        log.warning("pods without a ShadowPod cannot be looked for: %s", error)
        return False


async def take_over(client: Client) -> bool:
    """Take over the existing direct pods; True if none is left.

    Raises:
        LiqodError: as the client raises; a pod's failure is in the log.
    """
    if await client.find(MUTATING_WEBHOOKS, WEBHOOK, decode=Partial) is None:
        return True
    for bound in await client.list(ROLE_BINDINGS, _OF_PEERS, decode=Binding):
        meta = bound.metadata
        if bound.role_ref.name == ROLE:
            await client.delete(ROLE_BINDINGS, meta.name, meta.namespace, uid=meta.uid)
    mapped = {each.metadata.name for each in await _unmarked(client)}
    pods = (each.metadata for each in await client.list(PODS, _DIRECT, decode=Partial))
    turn = trio.CapacityLimiter(AT_ONCE)
    found = [partial(_pod, client, turn, pod) for pod in pods if pod.namespace in mapped]
    done = all(await gather(*found))
    if done:
        await client.delete(MUTATING_WEBHOOKS, WEBHOOK)
    return done


async def _unmarked(client: Client) -> list[Partial]:
    """The namespaces of consumers, without the mark that they may write pods there."""
    found = await client.list(NAMESPACES, _OF_PEERS, decode=Partial)
    for each in found:
        if MARK in each.metadata.annotations:
            patch = {"metadata": {"annotations": {MARK: None}}}
            await client.patch(NAMESPACES, each.metadata.name, patch)
    return found


async def _pod(client: Client, turn: trio.CapacityLimiter, pod: ObjectMeta) -> bool:
    """Take over one; True if that is done."""
    try:
        async with turn:
            live = await client.find(PODS, pod.name, pod.namespace)
            if live is not None and live["metadata"]["uid"] == pod.uid:
                await _given(client, live)
    except NotFound:
        return True  # it has gone meanwhile
    except LiqodError as error:
        if not isinstance(error, Conflict):
            log.warning("pod %s/%s gets no ShadowPod: %s", pod.namespace, pod.name, error)
        return False
    return True


async def _given(client: Client, live: Json) -> None:
    """Give a pod its ShadowPod, and leave it to that as one that was made from it.

    One that its consumer has ended gets none, and so ends; so does one that is going, where none
    can be made: in a namespace that goes, too.
    """
    meta = msgspec.convert(live["metadata"], ObjectMeta)
    own = (labels.CHANGES, *BOOKKEEPING)
    notes = {key: value for key, value in meta.annotations.items() if key not in own}
    if graces.noted(notes) is None:
        marks = {k: v for k, v in meta.labels.items() if k != labels.MANAGED_BY}
        spec = {key: value for key, value in live["spec"].items() if key not in _SERVERS}
        shadow = {"metadata": {"name": meta.name, "labels": marks, "annotations": notes}}
        try:
            await client.create(SHADOW_PODS, {**shadow, "spec": {"pod": spec}}, meta.namespace)
        except AlreadyExists:
            pass  # its consumer was faster
        except (Forbidden, Invalid):
            if meta.deletion_timestamp is None:
                raise
    marks, notes = followed(msgspec.structs.replace(meta, annotations=notes))
    patch = {
        "labels": marks,
        # It follows its ShadowPod once: that of a consumer that was faster may have more.
        "annotations": {**notes, **dict.fromkeys(BOOKKEEPING), labels.CHANGES: MADE},
        "finalizers": [each for each in meta.finalizers if each != finalizers.DIRECT_POD],
        "resourceVersion": meta.resource_version,
    }
    await client.patch(PODS, meta.name, {"metadata": patch}, meta.namespace)
