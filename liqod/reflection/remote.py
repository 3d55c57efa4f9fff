"""Carries out what is wanted at the peer: one object at a time, with the fewest requests.

What the peer's API server refuses is returned as a :class:`Refusal`, to be shown on the local
object; what fails for a while (no connection, overload) is raised and tried again.
"""

from collections.abc import Callable
from contextlib import suppress

import msgspec

from liqod.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, PluginError
from liqod.kube import ensure
from liqod.kube.client import Client
from liqod.kube.meta import Partial
from liqod.model import labels
from liqod.model.crossing import partings
from liqod.model.crossing.adoption import is_adopted
from liqod.model.objects.patches import contained
from liqod.plugins.contracts import Json, Reason, Reflector, Refusal, RemoteKind, Write
from liqod.reflection import steps
from liqod.reflection.marks import ours
from liqod.reflection.observed import Observed, Source
from liqod.reflection.steps import Step

AGAIN_SOON = 0.2
"""Seconds until the next look where the answer of the watch is due at any moment."""
FREE_AGAIN = 60.0
"""Seconds until the next look whether a name is free that somebody else has: no watch tells."""
FOREIGN = "FailedReflection"
"""Reason (Liqo's) for an object at the peer that has our name and is not ours."""

COLLECTORS = ("foregroundDeletion", "orphan")
"""Finalizers that Kubernetes' garbage collector takes off by itself."""


class Outcome(msgspec.Struct, frozen=True):
    """What came of one object.

    Attributes:
        done: the step that was taken; KEEP where nothing was written.
        refusal: the peer's API server refused it.
        reason: why it is not as wanted, where the peer was not even asked.
        again: seconds until another look, where no change will call.
    """

    done: Step = Step.KEEP
    refusal: Refusal | None = None
    reason: Reason | None = None
    again: float | None = None


UNCHANGED = Outcome()
"""It is as wanted."""


async def bring(
    wanted: Json,
    reflector: Reflector,
    observed: Observed,
    client: Client,
    source: Source,
    remover: Callable[[Partial], Client],
    stands: Callable[[Partial], bool],
) -> Outcome:
    """Make one object at the peer be as wanted.

    Args:
        wanted: the object, with the marks of ownership.
        reflector: who wants it.
        observed: what is there of its kind.
        client: who writes it.
        source: the local object it is made from.
        remover: who removes an object that stands for an earlier local one.
        stands: whether an object that does not say so stands for the present one.

    Raises:
        TransientError: the peer cannot be asked now.
    """
    there = declared(wanted, reflector)
    name = wanted["metadata"]["name"]
    if not observed.ready_for(source):
        return Outcome(Step.WAIT)
    live = observed.find(name)
    if live is not None and observed.source(name) not in (None, source):
        return _taken(there, name, "it was made from another object")
    wanted = steps.as_made(wanted, live, there)
    known = observed.settled(name)
    step = steps.judge(wanted, live, there, known, stands=live is None or stands(live))
    try:
        if step is Step.CREATE:
            return await _create(wanted, there, observed, client, source)
        if live is None or step in (Step.KEEP, Step.WAIT):
            return Outcome(step, reason=_held(there, live))
        if step is Step.REMOVE:
            await remove(there, live, observed, remover(live))
            return Outcome(Step.REMOVE)
        return await _update(wanted, live, step, there, observed, client, source)
    except Forbidden as error:
        return Outcome(refusal=Refusal(403, str(error), there.kind, True))
    except Invalid as error:
        return Outcome(refusal=Refusal(422, str(error), there.kind, False))
    except Conflict:
        return Outcome(again=AGAIN_SOON)


async def remove(
    there: RemoteKind, live: Partial, observed: Observed, client: Client, grace: int | None = None
) -> bool:
    """Delete an object of ours; False if that is not due or was done by others already.

    Args:
        there: how its kind is written.
        live: the object.
        observed: what is there of its kind.
        client: who removes it.
        grace: seconds that its pod may take to end, where they are not that pod's own.
    """
    meta = live.metadata
    if meta.deletion_timestamp is not None:
        return False
    try:
        if grace is not None and partings.noted(meta.annotations) != grace:
            patch = {"metadata": {"uid": meta.uid, "annotations": partings.note(grace)}}
            with suppress(Forbidden, Invalid):  # then it has its own
                await client.patch(there.kind, meta.name, patch, observed.namespace)
        return await client.delete(there.kind, meta.name, observed.namespace, uid=meta.uid)
    except (Conflict, NotFound):
        return False


def declared(wanted: Json, reflector: Reflector) -> RemoteKind:
    """How the kind of a wanted object is written. Raises PluginError where it is not declared."""
    found = reflector.declaration(wanted["apiVersion"], wanted["kind"])
    if found is None:
        raise PluginError(f"{reflector.name} does not declare that it writes {wanted['kind']}")
    return found


async def _create(
    wanted: Json, there: RemoteKind, observed: Observed, client: Client, source: Source
) -> Outcome:
    kind, name, namespace = there.kind, wanted["metadata"]["name"], observed.namespace
    body = steps.stamped(wanted, there)
    try:
        if there.write is Write.APPLY:
            # An apply would take over what others have, and the watch shows ours only: look first.
            found = await client.find(kind, name, namespace, decode=Partial)
            if found is not None:
                return _existing(found, wanted, there)
            partial = await client.apply(kind, body, namespace, manager=labels.REFLECTION_MANAGER)
        else:
            partial = await client.create(kind, body, namespace)
    except AlreadyExists:
        found = await client.find(kind, name, namespace, decode=Partial)
        if found is None:
            return Outcome(again=AGAIN_SOON)
        return _existing(found, wanted, there)
    observed.wrote(source, partial)
    return Outcome(Step.CREATE)


def _existing(found: Partial, wanted: Json, there: RemoteKind) -> Outcome:
    """What to do about an object that the watch has not shown: ours, or somebody else's."""
    marks = wanted["metadata"]["labels"]
    if ours(found.metadata.labels, marks[labels.ORIGIN], marks[labels.DESTINATION]):
        return Outcome(again=AGAIN_SOON)
    return _taken(there, found.metadata.name, "it is not a reflection of this cluster")


async def _update(
    wanted: Json,
    live: Partial,
    step: Step,
    there: RemoteKind,
    observed: Observed,
    client: Client,
    source: Source,
) -> Outcome:
    kind, name, namespace = there.kind, live.metadata.name, observed.namespace
    if there.write is Write.ONCE:
        return await _restore(wanted, live, there, observed, client, source)
    if there.write is Write.APPLY and step is Step.UPDATE:
        return await _apply(wanted, live, there, observed, client, source)
    whole = await client.find(kind, name, namespace)
    if whole is None:
        return Outcome(again=AGAIN_SOON)
    read = msgspec.convert(whole, Partial)
    if there.write is Write.APPLY:
        if contained(wanted, whole):
            observed.settle(read)
            return Outcome()
        return await _apply(wanted, live, there, observed, client, source)
    written = await ensure.ensure(
        client, kind, wanted, live=msgspec.json.encode(whole), namespace=namespace, recreate=True
    )
    if written.partial is None:
        observed.settle(read)
        return Outcome()
    observed.wrote(source, written.partial)
    return Outcome(Step.UPDATE)


async def _restore(
    wanted: Json,
    live: Partial,
    there: RemoteKind,
    observed: Observed,
    client: Client,
    source: Source,
) -> Outcome:
    """Labels and annotations of an object written once; and its content, where others edited it.

    What was adopted keeps its content.
    """
    kind, name, namespace = there.kind, live.metadata.name, observed.namespace
    patch = steps.relabel(wanted, live, there)
    adopted = is_adopted(live.metadata.annotations)
    if not adopted and steps.edited(live, there, observed.settled(name)):
        whole = await client.find(kind, name, namespace)
        if whole is None:
            return Outcome(again=AGAIN_SOON)
        live = msgspec.convert(whole, Partial)
        patch = {**steps.relabel(wanted, live, there), **steps.restored(wanted, whole)}
    if not patch:
        observed.settle(live)
        return Outcome()
    observed.wrote(source, await client.patch(kind, name, patch, namespace))
    return Outcome(Step.UPDATE)


async def _apply(
    wanted: Json,
    live: Partial,
    there: RemoteKind,
    observed: Observed,
    client: Client,
    source: Source,
) -> Outcome:
    kind, name, namespace = there.kind, live.metadata.name, observed.namespace
    body = steps.stamped(wanted, there)
    try:
        partial = await client.apply(kind, body, namespace, manager=labels.REFLECTION_MANAGER)
    except Invalid:
        # What others put into a list of ours may not go together with it, or what has changed
        # cannot change: the content is replaced, or else the whole object.
        content = {key: value for key, value in wanted.items() if key != "metadata"}
        try:
            await client.patch(kind, name, content, namespace)
        except Invalid:
            await ensure.make_room(client, kind, body, live.metadata.uid, namespace)
        partial = await client.apply(kind, body, namespace, manager=labels.REFLECTION_MANAGER)
    observed.wrote(source, partial)
    return Outcome(Step.UPDATE)


def _held(there: RemoteKind, live: Partial | None) -> Reason | None:
    """Whose finalizers keep an object that is going, where there are any."""
    if live is None or live.metadata.deletion_timestamp is None:
        return None
    others = [each for each in live.metadata.finalizers if each not in COLLECTORS]
    if not others:
        return None
    what, names = f"{there.kind.name} {live.metadata.name}", ", ".join(others)
    text = f"{what} at the peer is being deleted and still held by its finalizers: {names}"
    return Reason(FOREIGN, text)


def _taken(there: RemoteKind, name: str, why: str) -> Outcome:
    text = f"{there.kind.name} {name} exists at the peer and is left alone: {why}"
    return Outcome(reason=Reason(FOREIGN, text), again=FREE_AGAIN)
