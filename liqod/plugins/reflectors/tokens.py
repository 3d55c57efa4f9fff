"""The tokens by which a pod at a peer speaks with the API server here.

Where a pod may (:mod:`liqod.model.objects.homeapi`), the tokens that it projects are asked here,
bound to it, and lie at the peer in a Secret beside its remote pod, which is made to mount that.
They are renewed before they end, and go when the pod has ended; a pod that ends keeps its own until
it is gone. How long the present ones last is noted on that Secret, so that nothing need be kept
here, and a daemon that starts again asks for none. It is a reflector of its own: what goes wrong
with a token stops no pod and no status.
"""

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import PODS, SECRETS
from liqod.model import ids
from liqod.model.objects import conditions, homeapi, podstatus
from liqod.plugins.contracts import (
    NOTHING,
    READ,
    Absence,
    Json,
    Plan,
    Policy,
    Reason,
    Reflector,
    RemoteKind,
    RemoteObject,
    Right,
    Scope,
    ServiceAccountToken,
    Token,
    View,
)
from liqod.plugins.hookspecs import hookimpl
from liqod.plugins.reflectors.pods import SEEN

REFUSED = "TokenRefused"
"""Reason: this cluster gives no token for the pod."""
LATE = "TokenLate"
"""Reason: the tokens of a pod could not be renewed when they were due."""
AGAIN = 60.0
"""Seconds after which one that was refused is looked at again."""
KEPT = 120.0
"""Seconds that a token is kept in memory, to be written: how long it lasts is noted at the peer."""
PACE = 15.0
"""Seconds after which a remote pod is looked for that was not there."""
DUE = 0.5
"""Part of the reserve that is left when a renewal is called late."""


def outgoing(pod: Json, view: View) -> Plan:
    """The Secret with the pod's tokens, or that it stays as it is, or none."""
    names = view.names
    if names.absence is not Absence.MAPPED or pod["metadata"].get("deletionTimestamp"):
        return Plan(hold=True)
    if (pod.get("status") or {}).get("phase") in podstatus.TERMINAL:
        return NOTHING
    if homeapi.access(pod, names.home_api.mode) != labels.API_SERVER_HOME:
        return NOTHING
    found = view.remote(SECRETS)
    notes = (found[0]["metadata"].get("annotations") or {}) if found else {}
    left = homeapi.left(pod, notes, view.now)
    reserve = homeapi.reserve(pod)
    if left is not None and left > reserve:
        return Plan(hold=True, requeue_after=left - reserve)
    if left is None:
        unused = _unused(pod, view)
        if unused is not None:
            return unused
    reasons: tuple[Reason, ...] = ()
    if left is not None and left < reserve * DUE:
        end = notes.get(labels.SERVICE_ACCOUNT_EXPIRATION, "")[:40]
        text = f"the pod's tokens at {names.peer} end at {end} and are not renewed yet"
        reasons = (Reason(LATE, text),)
    return _renewed(pod, view, reasons)


def _unused(pod: Json, view: View) -> Plan | None:
    """The plan where no pod at the peer is known to use the tokens; None where one does or will.

    A remote pod is made once: one from before this was let mounts no token, and gets none.
    """
    status = pod.get("status") or {}
    made = conditions.find(status.get("conditions"), podstatus.REMOTE_POD) is not None
    if not made and not status.get("containerStatuses"):
        return None if view.names.home_api.host else NOTHING
    name = pod["metadata"]["name"]
    need = RemoteObject(kind=PODS, name=name, lasts=PACE)
    remote_pod = view.fulfilled(need)
    if remote_pod is None:
        return Plan(needs=(need,))
    if not remote_pod:
        return Plan(hold=True, requeue_after=PACE)
    return None if homeapi.is_mounted(remote_pod, ids.token_secret(name)) else NOTHING


def _renewed(pod: Json, view: View, reasons: tuple[Reason, ...]) -> Plan:
    """The Secret with new tokens, once they are there."""
    wanted = {each.key: _need(pod, each) for each in homeapi.projections(pod)}
    given: dict[str, Token | None] = {key: view.fulfilled(need) for key, need in wanted.items()}
    missing = tuple(wanted[key] for key, token in given.items() if token is None)
    if missing:
        return Plan(needs=missing)
    tokens = {key: token for key, token in given.items() if token is not None}
    problem = next((token.problem for token in tokens.values() if token.problem), "")
    if problem:
        text = f"this cluster gives no token for the pod at {view.names.peer}: {problem}"
        told = (*reasons, Reason(REFUSED, text))
        return Plan(hold=True, reasons=told, requeue_after=AGAIN)
    texts = [(key, token.text, token.expires) for key, token in tokens.items()]
    return Plan(remote=(homeapi.secret(pod, texts),), reasons=reasons)


def _need(pod: Json, each: homeapi.Projection) -> ServiceAccountToken:
    meta = pod["metadata"]
    return ServiceAccountToken(
        account=homeapi.account(pod),
        pod=meta["name"],
        pod_uid=meta["uid"],
        audience=each.audience,
        seconds=each.seconds,
        lasts=KEPT,
    )


REFLECTOR = Reflector(
    name="tokens",
    kind=PODS,
    outgoing=outgoing,
    remote=(RemoteKind(kind=SECRETS), RemoteKind(kind=PODS, write=None, fields=SEEN)),
    scope=Scope.NODE,
    policy=Policy.ALWAYS,
    concurrency=5,
    # Its Secrets are within what the reflector of Secrets is granted.
    rights=(
        Right(
            group="",
            resources=("pods",),
            verbs=READ,
            why="tokens of pods on virtual nodes are reflected",
        ),
    ),
)


@hookimpl
def liqod_reflectors() -> list[Reflector]:
    """Tokens of pods."""
    return [REFLECTOR]
