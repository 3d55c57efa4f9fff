"""Claims of the virtual StorageClass have a claim of the same name where their first pod lands.

The scheduler's choice of a virtual node asks for it; the condition ``liqod.io/VolumeAtPeer`` tells
:mod:`liqod.consumer.volumeprovisioner` what came of it, which then makes the volume here or lets
the scheduler choose again. A claim that has its volume here keeps its claim there until it is
deleted itself. One that has gone there is not made again: that would be an empty volume under an
application's data.
"""

from typing import Any

from liqod.apimachinery import labels
from liqod.errors import ConfigError
from liqod.model.objects import volumeclaims
from liqod.plugins.contracts import (
    CLAIMS,
    NOTHING,
    Absence,
    AdmissionPolicy,
    Grant,
    Json,
    Plan,
    Policy,
    Reason,
    Reflector,
    RemoteKind,
    Validation,
    View,
    Watch,
    Write,
)
from liqod.plugins.crossing import manifest
from liqod.plugins.hookspecs import hookimpl

ASKED = 0.5
"""Seconds until it is looked whether a claim that was asked for is there."""
VOLUME_LOST = "VolumeLost"
VOLUME_REFUSED = "VolumeRefused"


def outgoing(claim: Json, view: View) -> Plan:
    """The claim over there, where the first pod is placed at this peer."""
    found = view.remote(CLAIMS)
    bound = bool(claim["spec"].get("volumeName"))
    if claim["metadata"].get("deletionTimestamp"):
        return Plan(hold=True)  # it goes when no pod uses it any more, and then this does
    if any(not _made_for(claim, each) for each in found):
        return NOTHING  # of a claim of that name that is gone, and goes first
    there = found[0] if found else None
    if bound and there is None:
        return Plan(reasons=_lost(claim, view))
    if not bound and not (
        volumeclaims.ours(claim) and volumeclaims.selected(claim) in view.names.nodes
    ):
        return NOTHING
    try:
        spec = _spec(claim, view, there)
    except ConfigError:
        return NOTHING
    made = manifest(CLAIMS, claim["metadata"]["name"], claim, view, spec=spec)
    notes = {
        key: value
        for key, value in made["metadata"]["annotations"].items()
        if not key.startswith(("volume.kubernetes.io/", "volume.beta.kubernetes.io/", "pv."))
    }
    made["metadata"]["annotations"] = {**notes, labels.CLAIM_UID: claim["metadata"]["uid"]}
    # Our own write there is no change of which we are told, and it has to be answered here.
    again = ASKED if there is None and not view.refusals else None
    return Plan(remote=(made,), reasons=_refused(view) if bound else (), requeue_after=again)


def incoming(claim: Json, remote: tuple[Json, ...], view: View) -> Plan:
    """The status of the claim from the peer's: its phase, and its capacity."""
    there = next((each for each in remote if _made_for(claim, each)), None)
    bound, peer = bool(claim["spec"].get("volumeName")), view.names.peer
    asked = volumeclaims.ours(claim) and volumeclaims.selected(claim) in view.names.nodes
    if there is not None and (bound or asked):
        phase = (there.get("status") or {}).get("phase")
        # What a hostile peer says otherwise is nobody's business here.
        shown = phase if phase in ("Bound", "Lost", "Pending") else "Pending"
        condition = volumeclaims.claim_condition(peer, True, f"the claim at {peer} is {shown}")
        status: Json = {"conditions": [condition]}
        capacity = volumeclaims.believed(there.get("status") or {})
        if bound and shown == "Bound" and capacity is not None:
            status["capacity"] = capacity
        return Plan(status=status)
    if bound or not asked or remote:
        return NOTHING
    refused = [each.message for each in _refused(view)]
    try:
        _spec(claim, view, None)
    except ConfigError as error:
        refused.append(f"{peer} makes no volume: {error}")
    if not refused:
        return NOTHING
    return Plan(status={"conditions": [volumeclaims.claim_condition(peer, False, refused[0])]})


def _spec(claim: Json, view: View, there: Json | None) -> dict[str, Any]:
    node = view.names.nodes.get(volumeclaims.selected(claim))
    return volumeclaims.remote_spec(claim, node.storage_classes if node is not None else (), there)


def _made_for(claim: Json, there: Json) -> bool:
    """True if a claim there was made from this one, or has no mark of its origin (Liqo's)."""
    noted = (there["metadata"].get("annotations") or {}).get(labels.CLAIM_UID)
    return noted in (None, claim["metadata"]["uid"])


def _lost(claim: Json, view: View) -> tuple[Reason, ...]:
    if (
        view.names.absence is not Absence.MAPPED
        or volumeclaims.selected(claim) not in view.names.nodes
    ):
        return ()
    if not volumeclaims.ours(claim):
        return ()
    text = (
        f"{view.names.peer} has no claim for this any more, and with it its data has gone; delete "
        "this claim to begin with a new volume"
    )
    return (Reason(VOLUME_LOST, text),)


def _refused(view: View) -> tuple[Reason, ...]:
    return tuple(
        Reason(VOLUME_REFUSED, f"{view.names.peer} refuses the claim: {each.message}"[:256])
        for each in view.refusals
        if each.kind == CLAIMS
    )


NEW_VOLUMES = AdmissionPolicy(
    name="claims",
    validations=(
        Validation(
            "!variables.names || variables.before",
            "a consumer may not claim a volume that exists (volumeName, selector)",
        ),
        Validation(
            "!variables.copies || request.operation == 'UPDATE'",
            "a consumer may not claim a copy of what exists (dataSource, dataSourceRef)",
        ),
    ),
    variables={
        "names": "has(object.spec.volumeName) && object.spec.volumeName != ''"
        " || has(object.spec.selector)",
        "copies": "has(object.spec.dataSource) || has(object.spec.dataSourceRef)",
        "before": "request.operation == 'UPDATE' && has(oldObject.spec.volumeName)"
        " && oldObject.spec.volumeName != ''",
    },
    controllers=True,
)
"""Volumes that are there already may be somebody's; a consumer's claims get new ones."""

REFLECTOR = Reflector(
    name=CLAIMS.plural,
    kind=CLAIMS,
    outgoing=outgoing,
    incoming=incoming,
    remote=(RemoteKind(kind=CLAIMS, write=Write.APPLY, watch=Watch.FULL),),
    policy=Policy.ALWAYS,
    # Its rights here come with `liqod install --storage` (liqod/install/rights.py).
    grant=Grant(
        quota={"count/persistentvolumeclaims": "100", "requests.storage": "100Gi"},
        policy=NEW_VOLUMES,
        finalizers=("kubernetes.io/pvc-protection",),
    ),
)


@hookimpl
def liqod_reflectors() -> list[Reflector]:
    """Claims."""
    return [REFLECTOR]
