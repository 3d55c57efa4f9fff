"""Changes that Kubernetes allows of a running pod, and the writes by which another pod follows.

A pod's image, deadline, tolerations and resources can be changed, and ephemeral containers can be
added (``kubectl debug``). A consumer writes them into its ShadowPod (:data:`MUTABLE`), the provider
into the Pod (:func:`changes`). On the Pod the provider notes the state that it has applied, and the
refused changes (:func:`note`), for the consumer. Scheduling gates are not among them: a pod with
one is on no node yet, and so on none of a peer's. Pure; specs are plain JSON, and those of a guest
are hostile.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from liqod.apimachinery import labels
from liqod.model.objects.fieldpaths import name_of, named, select
from liqod.model.objects.patches import contained, digest

Json = dict[str, Any]

MUTABLE: Final = (
    "containers[*].image",
    "initContainers[*].image",
    "activeDeadlineSeconds",
    "tolerations",
    "containers[*].resources",
    "initContainers[*].resources",
    "resources",
    "ephemeralContainers",
)
"""Paths of the fields in a pod's spec that can be changed after its creation."""
RESIZE: Final = "resize"
EPHEMERAL: Final = "ephemeralcontainers"
NOT_TAKEN_OVER: Final = "NotTakenOver"
"""Reason where the peer has a change, and its pod has not: Liqo applies none."""
REFUSED: Final = "Refused"
MESSAGE_LIMIT: Final = 1024
_REASON: Final = re.compile(r"[A-Za-z]{1,64}")
_GROUPS: Final = ("containers", "initContainers")
_AMOUNTS: Final = ("limits", "requests")


class PodChange(NamedTuple):
    """One write.

    Attributes:
        subresource: of the pod; empty for the pod itself.
        patch: a JSON merge patch of its ``spec``. Lists are whole: it holds for the very version of
            the pod that it was made from.
        what: the fields, for people.
    """

    subresource: str
    patch: Json
    what: str


class PodChangeProblem(NamedTuple):
    """The reason why a change is not applied at the peer: one word, and a sentence."""

    reason: str
    message: str


def state(spec: Mapping[str, Any]) -> str:
    """A short hash of all that can be changed of a pod."""
    return digest(select(spec, MUTABLE))


def changes(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[PodChange, ...]:
    """The writes that bring a pod to the wanted spec; additions of others stay.

    Args:
        there: ``spec`` of the pod.
        wanted: the spec that it is to follow. Only fields that Kubernetes lets change count.
    """
    own: Json = {}
    for group in _GROUPS:
        run = _images(there, wanted, group)
        if run:
            own[group] = run
    deadline = wanted.get("activeDeadlineSeconds")
    before = there.get("activeDeadlineSeconds")
    if isinstance(deadline, int) and (not isinstance(before, int) or deadline < before):
        own["activeDeadlineSeconds"] = deadline
    tolerated = _tolerations(there, wanted)
    if tolerated:
        own["tolerations"] = tolerated
    sizes: Json = {group: found for group in _GROUPS if (found := _sizes(there, wanted, group))}
    whole = _resources(there, wanted)
    if whole:
        sizes["resources"] = whole
    added = _added(there, wanted)
    debugged: Json = {"ephemeralContainers": added} if added else {}
    writes = (("", own), (RESIZE, sizes), (EPHEMERAL, debugged))
    return tuple(PodChange(sub, patch, _what(sub, patch)) for sub, patch in writes if patch)


def additions(there: Mapping[str, Any], change: PodChange) -> tuple[list[Json], list[Json]]:
    """The ephemeral containers that a pod has, and those that a change adds.

    Args:
        there: ``spec`` of the pod.
        change: one of its ephemeral containers.
    """
    known = _items(there, "ephemeralContainers")
    return known, change.patch["ephemeralContainers"][len(known) :]


def note(brought: str, problem: PodChangeProblem | None) -> str:
    """The annotation ``liqod.io/changes`` of a provider's Pod: the state that the provider has
    applied, and the reason if a part is not."""
    if problem is None:
        return brought
    return f"{brought} {problem.reason}: {problem.message}"[:MESSAGE_LIMIT]


def noted(text: str) -> tuple[str, PodChangeProblem | None]:
    """The applied state in a note, and the reason if a part is not applied; None for none."""
    brought, _, rest = text[:MESSAGE_LIMIT].partition(" ")
    reason, _, message = rest.partition(": ")
    return brought, PodChangeProblem(reason, message) if reason else None


def behind(
    remote_pod: Mapping[str, Any], wanted: Mapping[str, Any], peer: str
) -> PodChangeProblem | None:
    """The changes of a pod that are not applied at the peer, as a problem; None where all are.

    The peer decides on tolerations and pods of another state, where it notes that it has.

    Args:
        remote_pod: the pod at the peer.
        wanted: the spec that it is to follow.
        peer: its cluster id.
    """
    annotations = (remote_pod.get("metadata") or {}).get("annotations") or {}
    brought, problem = noted(str(annotations.get(labels.CHANGES) or ""))
    if brought == state(wanted):
        if problem is None:
            return None
        word = problem.reason if _REASON.fullmatch(problem.reason) else REFUSED
        return PodChangeProblem(word, f"{peer}: {problem.message}")
    asked = {key: value for key, value in wanted.items() if key != "tolerations"}
    found = changes(remote_pod.get("spec") or {}, asked)
    if not found:
        return None
    what = ", ".join(each.what for each in found)
    return PodChangeProblem(NOT_TAKEN_OVER, f"{peer} has not taken over what was changed: {what}")


def _what(subresource: str, patch: Json) -> str:
    if subresource == RESIZE:
        return "resources"
    if subresource == EPHEMERAL:
        return "ephemeralContainers"
    return ", ".join("image" if key in _GROUPS else key for key in patch)


def _images(there: Mapping[str, Any], wanted: Mapping[str, Any], group: str) -> list[Json]:
    """The containers with the images that are wanted; none where they have them."""
    asked = {name: each.get("image") for name, each in named(wanted, group).items()}
    changed = False
    made: list[Json] = []
    for each in _items(there, group):
        image = asked.get(name_of(each))
        differs = isinstance(image, str) and image not in ("", each.get("image"))
        changed |= differs
        made.append({**each, "image": image} if differs else each)
    return made if changed else []


def _tolerations(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[Json]:
    """The tolerations with those that are added, or have other seconds; none where nothing is."""

    def core(toleration: Mapping[str, Any]) -> Json:
        kept = {k: v for k, v in toleration.items() if k != "tolerationSeconds" and v}
        return {"operator": "Equal", **kept}

    before = _items(there, "tolerations")
    made = list(before)
    for each in _items(wanted, "tolerations"):
        at = next((n for n, one in enumerate(made) if core(one) == core(each)), None)
        if at is None:
            made.append(each)
        elif made[at].get("tolerationSeconds") != each.get("tolerationSeconds"):
            made[at] = each
    return [] if made == before else made


def _sizes(there: Mapping[str, Any], wanted: Mapping[str, Any], group: str) -> list[Json]:
    """The containers with the resources that are wanted; none where they have them."""
    asked, before = named(wanted, group), _items(there, group)
    sizes = [_resources(each, asked.get(name_of(each))) for each in before]
    if not any(sizes):
        return []
    return [
        {**each, "resources": size} if size else each
        for each, size in zip(before, sizes, strict=True)
    ]


def _resources(there: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> Json:
    """Limits and requests as they are wanted; empty where they are so.

    Amounts that are not named stay: a limit that was set cannot be taken away.
    """
    asked, live = (_object(each, "resources") for each in (wanted, there))
    amounts = {key: each for key in _AMOUNTS if (each := _object(asked, key))}
    if not amounts or contained({"resources": amounts}, {"resources": live}):
        return {}
    return {**live, **{key: {**_object(live, key), **each} for key, each in amounts.items()}}


def _added(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[Json]:
    """The ephemeral containers with those that are added; none where none is."""
    known = named(there, "ephemeralContainers")
    more = [
        each for name, each in named(wanted, "ephemeralContainers").items() if name not in known
    ]
    return [*_items(there, "ephemeralContainers"), *more] if more else []


def _items(obj: Mapping[str, Any], field: str) -> list[Json]:
    """The objects in a list."""
    found = obj.get(field)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _object(parent: Mapping[str, Any] | None, field: str) -> Json:
    found = (parent or {}).get(field)
    return found if isinstance(found, dict) else {}
