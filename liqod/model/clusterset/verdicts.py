"""The conditions of ServiceExports, and the status of ServiceImports. Pure.

Conditions come without the time since when they hold, which is added where they are written
(:func:`liqod.model.objects.conditions.all_dated`).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from liqod.model.clusterset.exports import Export, Refusal
from liqod.model.clusterset.importing import usable
from liqod.model.clusterset.merging import SHOWN, Merged
from liqod.model.objects.bounded import TEXT
from liqod.model.view.figures import listed

Json = dict[str, Any]

NONE: Final[Mapping[str, str]] = {}
VALID: Final = "Valid"
READY: Final = "Ready"
CONFLICT: Final = "Conflict"
EXPORTED: Final = "Exported"
PENDING: Final = "Pending"
FAILED: Final = "Failed"
NO_CONFLICTS: Final = "NoConflicts"
_SILENT: Final = (
    "a peer confirms what it takes, unless it is silent, shares no such namespace, refuses it, or "
    "is of a version that confirms nothing"
)
_NOT_PASSED: Final = (
    "which has not agreed, or has no transit by the one between, or has not taken it yet"
)
_LEFT_OUT: Final = "the one between has no room for it beside its own exports"
NOTHING: Final[Mapping[tuple[str, str], bool | None]] = {}
FAMILY_NOT_SUPPORTED: Final = "IPFamilyNotSupported"


def valid(export: Export | Refusal) -> Json:
    """The condition ``Valid`` of a ServiceExport."""
    if isinstance(export, Refusal):
        return _condition(VALID, "False", export.reason, export.message)
    return _condition(VALID, "True", VALID, "the Service can be exported")


def ready(
    export: Export | Refusal,
    entitled: Collection[str],
    taken: Collection[str],
    failed: Mapping[str, str] = NONE,
    passed: Mapping[tuple[str, str], bool | None] = NOTHING,
) -> Json:
    """The condition ``Ready`` of a ServiceExport.

    Only clusters that this one has a peering with are told of an export; the message names them,
    since two peers of one cluster need not be peers of each other.

    Args:
        export: the export, or the reason why it is none.
        entitled: the peers that may import it.
        taken: those that have it.
        failed: those that are not told of it, and the bound of this cluster that is the reason.
        passed: by each cluster that may have it by way of a peer, and that peer, whether it has;
            None where that peer has no room for it.
    """
    if isinstance(export, Refusal):
        return _condition(READY, "False", FAILED, export.message)
    untold = [
        f"{listed(peers, SHOWN)} cannot be told of it: {reason}"
        for reason in sorted(set(failed.values()))
        if (peers := sorted(each for each in entitled if failed.get(each) == reason))
    ]
    if untold:
        return _condition(READY, "False", FAILED, "; ".join(untold))
    waiting = sorted(set(entitled) - set(taken))
    if waiting:
        return _condition(
            READY, "False", PENDING, f"not yet known to {listed(waiting, SHOWN)}: {_SILENT}"
        )
    if not entitled:
        return _condition(READY, "True", READY, "no peer may import it; this cluster does")
    told = f"known to {listed(sorted(entitled), SHOWN)} alone"
    ways = [(f"{other} by way of {hub}", has) for (other, hub), has in sorted(passed.items())]
    have, lack, full = ([way for way, has in ways if has is each] for each in (True, False, None))
    if have:
        told = f"known to {listed(sorted(entitled), SHOWN)}, and to {listed(have, SHOWN)}"
    if lack:
        told = f"{told}; not to {listed(lack, SHOWN)}, {_NOT_PASSED}"
    if full:
        told = f"{told}; not to {listed(full, SHOWN)}: {_LEFT_OUT}"
    return _condition(READY, "True", EXPORTED, told)


def conflict(merged: Merged, *, complete: bool) -> Json | None:
    """The condition ``Conflict`` of each ServiceExport; None where it is to stay as it is.

    Args:
        merged: the Service of the set.
        complete: whether the exports of all peers are known; if not, another one may conflict.
    """
    found = merged.conflicts
    if found:
        reasons = ",".join(each.reason for each in found)
        return _condition(CONFLICT, "True", reasons, "; ".join(str(each) for each in found))
    if not complete:
        return None
    return _condition(CONFLICT, "False", NO_CONFLICTS, "all exporters agree")


def import_status(
    merged: Merged,
    families: Collection[str],
    ips: Sequence[str],
    slices: int,
    refused: str = "",
    also: Collection[Json] = (),
) -> Json:
    """The status of a ServiceImport.

    Args:
        merged: the Service of the set.
        families: the IP families that this cluster has.
        ips: the addresses that the import has.
        slices: the number of its EndpointSlices.
        refused: the words by which the API server refuses its Service; empty if it does not.
        also: further conditions.
    """
    return {
        "clusters": [{"cluster": each} for each in sorted(merged.clusters)],
        "conditions": [_import_ready(merged, families, ips, refused), *also],
        "endpointSliceObjects": "Present" if slices else "Absent",
    }


def _import_ready(
    merged: Merged, families: Collection[str], ips: Sequence[str], refused: str
) -> Json:
    here = usable(merged, families)
    if not here:
        wanted = " and ".join(merged.oldest.families)
        message = f"it has {wanted}, which this cluster has not"
        return _condition(READY, "False", FAMILY_NOT_SUPPORTED, message)
    if refused:
        return _condition(READY, "False", FAILED, f"its Service is refused: {refused}")
    if not merged.headless and len(ips) < len(here):
        return _condition(READY, "False", PENDING, "its Service has no address yet")
    return _condition(READY, "True", READY, "it can be used")


def _condition(type_: str, status: str, reason: str, message: str) -> Json:
    return {"type": type_, "status": status, "reason": reason, "message": message[:TEXT]}
