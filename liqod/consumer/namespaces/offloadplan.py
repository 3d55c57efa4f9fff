"""The plan of one NamespaceOffloading: the mapping at each provider, and its status.

Pure. Several virtual nodes of one provider are judged together: the provider is selected if any
of them is (two slices never fight over the mapping). A mapping that exists is never renamed; one
that cannot be made is reported per cluster. Reasons and messages that Liqo has are Liqo's, since
people and liqoctl read them.

A remote name is handed on only once the provider has shown that its former namespace is gone: else
the next owner of the name would get the content of that namespace.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.configsections import WebhookSettings
from liqod.model import ids
from liqod.model.crossing.exclusions import NAMESPACE_STAYS
from liqod.model.crossing.overrides import Override
from liqod.model.objects import returnmarks, selectors
from liqod.model.objects.conditions import all_dated, holds
from liqod.model.objects.eligibility import NO_PROVIDERS, Placement, Providers, Strategy
from liqod.resources import offloading as kinds
from liqod.resources.offloading import NamespaceCondition, NamespaceOffloading, RemoteNamespace

Json = dict[str, Any]
REQUIRED, READY = "OffloadingRequired", "Ready"
DRAINING = "Draining"
"""Reason of :data:`READY` while pods leave a provider; Liqo removes their namespace at once."""
_DIGITS: Final = 9
_NAME = labels.NAMESPACE_OFFLOADING_NAME
NAME_TAKEN = "RemoteNameTaken"
"""Reason of a namespace whose name at the provider is another namespace's of this cluster."""
FORMER = "FormerNamespaceRemains"
"""Reason of a namespace whose name at the provider is still that of one which is given up."""
NAME_RESERVED = "NameReserved"
"""Reason of a namespace that chose a name which is for another namespace of this cluster."""
_UNMAPPED = ("WrongName", "NameTooLong", "NameInvalid", NAME_RESERVED, NAME_TAKEN, FORMER)


Ready = tuple[str, str, str]
"""Status, reason and message of the condition ``Ready``."""


class VirtualNodeView(msgspec.Struct, frozen=True):
    """A virtual node as a selector sees it."""

    name: str
    labels: Mapping[str, str]


class ClusterView(msgspec.Struct, frozen=True):
    """A provider and the state of its NamespaceMap.

    Attributes:
        id: its cluster id.
        nodes: its virtual nodes.
        desired: ``spec.desiredMapping`` of its NamespaceMap.
        current: ``status.currentMapping``.
        refused: reasons why the provider does not make some, by local namespace.
    """

    id: str
    nodes: tuple[VirtualNodeView, ...] = ()
    desired: Mapping[str, str] = {}
    current: Mapping[str, RemoteNamespace] = {}
    refused: Mapping[str, str] = {}


class OffloadingPlan(msgspec.Struct, frozen=True):
    """The mapping and the status to write.

    Attributes:
        mapping: by cluster id, the remote name that its map is to have, None to take it out;
            clusters whose map is right already are not in it.
        status: the whole status.
        problem: why the mapping is not that of the spec, one sentence, or empty.
    """

    mapping: Mapping[str, str | None]
    status: Json
    problem: str = ""


def placement(
    offloading: NamespaceOffloading,
    providers: Providers = NO_PROVIDERS,
    overrides: tuple[Override, ...] = (),
) -> Placement:
    """The placement of its namespace's pods: its own terms, the providers' words, what policies
    change on the way, and all marks of pods that returned, in force or not."""
    wanted = offloading.spec.pod_offloading_strategy
    alone: Strategy = "Local" if wanted == kinds.LOCAL else "LocalAndRemote"
    strategy: Strategy = "Remote" if wanted == kinds.REMOTE else alone
    marks = returnmarks.read(offloading.metadata.annotations)
    shown = offloading.status.remote_namespaces_conditions
    return Placement(
        strategy,
        terms(offloading),
        providers.rules,
        room_told=providers.room_told,
        home_first=home_first(offloading) if strategy == "LocalAndRemote" else 0,
        overrides=overrides,
        returned=marks,
        mapped=frozenset(peer for peer, found in shown.items() if holds(found, READY)),
    )


LONGEST_WAIT: Final = 86_400
"""Seconds for which a pod waits for a place in its own cluster first, at most."""


def home_first(offloading: NamespaceOffloading) -> int:
    """The seconds for which its namespace's pods wait for a place in this cluster before they may
    go to a peer; 0 where it asks for none, or for nonsense."""
    text = offloading.metadata.annotations.get(labels.HOME_FIRST, "")
    found = int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else 0
    return min(found, LONGEST_WAIT)


def fails_closed(offloading: NamespaceOffloading, settings: WebhookSettings) -> bool:
    """True if pods of its namespace are refused while the webhook cannot be reached.

    Only where none may run here: by the namespace's own choice, else by the settings'.
    """
    if offloading.spec.pod_offloading_strategy != kinds.REMOTE or not settings.enabled:
        return False
    own = offloading.metadata.annotations.get(labels.FAIL_CLOSED)
    return settings.fail_closed if own is None else own == labels.TRUE


def terms(offloading: NamespaceOffloading) -> tuple[Json, ...]:
    """The node selector terms of its cluster selector; none selects every cluster."""
    return tuple((offloading.spec.cluster_selector or {}).get("nodeSelectorTerms") or ())


def remote_name(offloading: NamespaceOffloading, consumer: str) -> tuple[str, str]:
    """The remote namespace that the spec requests, and its fault, or an empty text."""
    spec = offloading.spec
    if spec.namespace_mapping_strategy == kinds.ENFORCE_SAME_NAME:
        name = offloading.namespace
    elif spec.namespace_mapping_strategy == kinds.SELECTED_NAME:
        name = spec.remote_namespace_name
        if not name:
            return "", "the strategy SelectedName needs spec.remoteNamespaceName"
    else:
        name = ids.remote_namespace(offloading.namespace, consumer)
    return name, ids.namespace_problem(name) or ""


class _Naming(msgspec.Struct, frozen=True):
    """The remote name; or why there is none (reason, sentence); or what is not heeded."""

    name: str = ""
    refusal: tuple[str, str] | None = None
    note: str = ""


def plan(
    offloading: NamespaceOffloading,
    consumer: str,
    clusters: Sequence[ClusterView],
    now: str,
    *,
    stays: str = "",
) -> OffloadingPlan:
    """Judge every provider, for one NamespaceOffloading.

    Args:
        offloading: the object, also while it is being deleted.
        consumer: this cluster's id.
        clusters: every provider that has virtual nodes or a NamespaceMap here.
        now: RFC 3339, for conditions that change.
        stays: why the namespace can never be offloaded, one sentence: nothing is mapped then, and
            existing entries are taken out; empty where it can.
    """
    namespace = offloading.namespace
    naming = _naming(offloading, consumer, clusters)
    mapping: dict[str, str | None] = {}
    conditions: dict[str, list[Json]] = {}
    verdicts: list[str] = []
    for cluster in sorted(clusters, key=lambda each: each.id):
        selected = not (offloading.leaving or stays) and _selected(offloading, cluster)
        ready: Ready | None
        if selected:
            had = mapped_as(offloading, cluster.id)
            ready = _readiness(cluster, namespace, naming, had)
            verdicts.append(READY if ready[0] == "True" else ready[1])
            if ready[1] not in _UNMAPPED and cluster.desired.get(namespace) != naming.name:
                mapping[cluster.id] = naming.name
        else:
            ready = _ending(cluster, namespace)
            if stays and ready is None and not offloading.leaving:
                ready = ("False", NAMESPACE_STAYS, stays)
            if namespace in cluster.desired and offloading.name == _NAME:
                mapping[cluster.id] = None
        before = offloading.status.remote_namespaces_conditions.get(cluster.id, ())
        conditions[cluster.id] = _conditions(selected, ready, before, now)
    status: Json = {
        "offloadingPhase": _phase(offloading, verdicts, stays),
        "observedGeneration": offloading.metadata.generation,
        "remoteNamespaceName": naming.name,
        "remoteNamespacesConditions": conditions,
    }
    return OffloadingPlan(mapping, status, stays or (naming.refusal or ("", naming.note))[1])


def moving(
    outcome: OffloadingPlan, offloading: NamespaceOffloading, waits: Mapping[str, str], now: str
) -> OffloadingPlan:
    """The outcome while pods still leave providers that are given up.

    Args:
        outcome: the outcome afterwards.
        offloading: the object.
        waits: by cluster id, the reason to wait there.
        now: RFC 3339, for conditions that change.
    """
    shown = dict(outcome.status["remoteNamespacesConditions"])
    for cluster, text in waits.items():
        before = offloading.status.remote_namespaces_conditions.get(cluster, ())
        shown[cluster] = _conditions(False, ("False", DRAINING, text), before, now)
    status = {**outcome.status, "remoteNamespacesConditions": shown}
    return OffloadingPlan(outcome.mapping, status, outcome.problem)


def draining(offloading: NamespaceOffloading) -> dict[str, str]:
    """The reasons to wait while pods leave providers, by cluster id."""
    return {
        cluster: each.message
        for cluster, found in offloading.status.remote_namespaces_conditions.items()
        for each in found
        if each.type == READY and each.reason == DRAINING
    }


def mapped_as(offloading: NamespaceOffloading, cluster: str) -> str:
    """The remote name of a namespace at a provider by its recorded status; empty if it has none.

    It outlives the map, which a user may have deleted or edited: with another name the provider
    would end the namespace that is there, and all that runs in it.
    """
    status = offloading.status
    conditions = status.remote_namespaces_conditions.get(cluster, ())
    required = holds(conditions, REQUIRED)
    refused = any(each.type == READY and each.reason in _UNMAPPED for each in conditions)
    return status.remote_namespace_name if required and not refused else ""


def outdone(outcome: OffloadingPlan) -> bool:
    """True if another namespace has, or still has, the name at some provider."""
    found = outcome.status["remoteNamespacesConditions"].values()
    waits = (NAME_TAKEN, FORMER)
    return any(each["reason"] in waits for conditions in found for each in conditions)


def _naming(
    offloading: NamespaceOffloading, consumer: str, clusters: Sequence[ClusterView]
) -> _Naming:
    if offloading.name != _NAME:
        return _Naming(refusal=("WrongName", f"a NamespaceOffloading must be named {_NAME}"))
    asked, problem = remote_name(offloading, consumer)
    given = next(filter(None, (mapped_as(offloading, each.id) for each in clusters)), None)
    desired = (each.desired.get(offloading.namespace) for each in clusters)
    used = next(filter(None, desired), None)
    if used is None or given == asked:
        used = given or used  # the map is gone; or an entry was edited, since two agree against it
    if used is None and problem:
        too_long = len(asked) > ids.LABEL_LIMIT
        return _Naming(refusal=("NameTooLong" if too_long else "NameInvalid", problem))
    if used is None and _is_anothers(offloading, asked, consumer):
        local = asked.removesuffix(ids.remote_namespace("", consumer))
        text = f"{asked} is the name there of the namespace {local}, if that is offloaded: choose "
        return _Naming(refusal=(NAME_RESERVED, f"{text}one that does not end with -{consumer}"))
    if used is None or used == asked:
        return _Naming(asked)
    return _Naming(used, note=f"the mapping is immutable: {asked!r} is asked for, {used!r} stays")


def _is_anothers(offloading: NamespaceOffloading, name: str, consumer: str) -> bool:
    """True if a name was chosen that is another namespace's default at providers."""
    return (
        offloading.spec.namespace_mapping_strategy == kinds.SELECTED_NAME
        and name.endswith(ids.remote_namespace("", consumer))
        and name != ids.remote_namespace(offloading.namespace, consumer)
    )


def _selected(offloading: NamespaceOffloading, cluster: ClusterView) -> bool:
    chosen = terms(offloading)
    return any(selectors.selects(chosen, node.name, node.labels) for node in cluster.nodes)


def status_patch(outcome: OffloadingPlan, offloading: NamespaceOffloading) -> Json | None:
    """The merge patch of the status sub-resource, or None if it is so already."""
    before = offloading.status
    shown = {
        "offloadingPhase": before.offloading_phase,
        "observedGeneration": before.observed_generation,
        "remoteNamespaceName": before.remote_namespace_name,
        "remoteNamespacesConditions": {
            cluster: [_json(each) for each in conditions]
            for cluster, conditions in before.remote_namespaces_conditions.items()
        },
    }
    if shown == outcome.status:
        return None
    gone = {
        cluster: None
        for cluster in before.remote_namespaces_conditions
        if cluster not in outcome.status["remoteNamespacesConditions"]
    }
    wanted = outcome.status["remoteNamespacesConditions"]
    return {"status": {**outcome.status, "remoteNamespacesConditions": {**wanted, **gone}}}


def is_free(cluster: ClusterView, namespace: str, name: str) -> bool:
    """True if no other namespace's entry has the remote name."""
    others = (key for key, value in cluster.desired.items() if value == name)
    return all(key == namespace for key in others)


def _former(cluster: ClusterView, namespace: str, name: str, had: str) -> str:
    """The namespace that still has that name at the provider; empty if none has.

    Args:
        cluster: the provider.
        namespace: the one that requests the name.
        name: the name there.
        had: the name that this very NamespaceOffloading was given there: its entry was lost by a
            mistake, and it continues with its name.
    """
    holders = (key for key, each in cluster.current.items() if each.remote_namespace == name)
    return next((key for key in holders if key != namespace or had != name), "")


def _readiness(cluster: ClusterView, namespace: str, naming: _Naming, had: str) -> Ready:
    if naming.refusal is not None:
        return "False", *naming.refusal
    name = naming.name
    mapped = cluster.desired.get(namespace) == name
    other = next((key for key, value in cluster.desired.items() if value == name), None)
    if other is not None and not mapped:
        return "False", NAME_TAKEN, f"namespace {other} is mapped to {name} there already"
    former = "" if mapped else _former(cluster, namespace, name, had)
    if former:
        whose = "it" if former == namespace else f"namespace {former}"
        text = f"the namespace {name} that {whose} had there before is not gone yet"
        return "False", FORMER, text
    entry = cluster.current.get(namespace)
    if entry is None or not mapped or entry.remote_namespace not in ("", name):
        return "False", "Creating", "The remote namespace is being created"
    match entry.phase:
        case kinds.MAPPING_ACCEPTED if naming.note:
            return "True", "MappingImmutable", f"Namespace correctly offloaded; {naming.note}"
        case kinds.MAPPING_ACCEPTED:
            message = "Namespace correctly offloaded to the remote cluster"
            return "True", "NamespaceCreated", message
        case kinds.MAPPING_TERMINATING:
            return "False", "Terminating", "The remote namespace is being deleted"
        case _ if namespace in cluster.refused:
            why = cluster.refused[namespace]
            message = f"{cluster.id} does not make the namespace {name}: {why}"
            return "False", "CreationLoopBackOff", message
        case _:
            return (
                "False",
                "CreationLoopBackOff",
                f"{cluster.id} could not make the namespace {name}: one of that name exists there "
                "that is not this cluster's, or its creation was refused",
            )


def _ending(cluster: ClusterView, namespace: str) -> Ready | None:
    if namespace in cluster.current:
        return "False", "Terminating", "The remote namespace is being deleted"
    return None


def _conditions(
    selected: bool, ready: Ready | None, before: Sequence[NamespaceCondition], now: str
) -> list[Json]:
    text = "has been selected" if selected else "has not been selected"
    message = f"The remote cluster {text} through the ClusterSelector field"
    required = ("True", "ClusterSelected") if selected else ("False", "ClusterNotSelected")
    result = []
    for type_, verdict in ((REQUIRED, (*required, message)), (READY, ready)):
        if verdict is None:
            continue
        status, reason, text = verdict
        result.append({"type": type_, "status": status, "reason": reason, "message": text})
    return all_dated(result, [_json(each) for each in before], now)


def _phase(offloading: NamespaceOffloading, verdicts: Sequence[str], stays: str) -> str:
    if offloading.leaving:
        return kinds.PHASE_TERMINATING
    if stays:
        return kinds.PHASE_ALL_FAILED
    if not verdicts:
        return kinds.PHASE_NO_CLUSTER if offloading.name == _NAME else kinds.PHASE_ALL_FAILED
    if all(each == READY for each in verdicts):
        return kinds.PHASE_READY
    if any(each in ("Creating", "Terminating", FORMER) for each in verdicts):
        return kinds.PHASE_IN_PROGRESS
    if any(each == READY for each in verdicts):
        return kinds.PHASE_SOME_FAILED
    return kinds.PHASE_ALL_FAILED


def _json(condition: NamespaceCondition) -> Json:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
    }
