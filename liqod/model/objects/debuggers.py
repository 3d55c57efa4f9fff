"""The statuses of a pod's ephemeral containers, for which ``kubectl debug`` waits. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from liqod.model.objects.restarts import has_ended

Json = dict[str, Any]


def statuses(local: Mapping[str, Any], there: Mapping[str, Any]) -> list[Json]:
    """Statuses of the ephemeral containers: one that has ended stays so, also in a new remote pod.

    Args:
        local: the local pod.
        there: ``status`` of the remote pod.
    """
    before = _by_name((local.get("status") or {}).get("ephemeralContainerStatuses"))
    now = _by_name(there.get("ephemeralContainerStatuses"))
    names = [each["name"] for each in local["spec"].get("ephemeralContainers") or ()]
    over = {name: each for name, each in before.items() if has_ended(each)}
    found = {**before, **now, **over}
    return [found[name] for name in names if name in found]


def refused(
    local: Mapping[str, Any], there: Mapping[str, Any], reason: str, message: str
) -> list[Json]:
    """Statuses of the ephemeral containers: each that the peer has not taken waits, with a reason,
    which ``kubectl debug`` shows while it waits for one.

    Args:
        local: the local pod.
        there: ``spec`` of the remote pod.
        reason: one word.
        message: a sentence.
    """
    known = _by_name((local.get("status") or {}).get("ephemeralContainerStatuses"))
    taken = {each["name"] for each in there.get("ephemeralContainers") or ()}
    for each in local["spec"].get("ephemeralContainers") or ():
        name = each["name"]
        if name not in taken and "waiting" in known.get(name, {}).get("state", {"waiting": {}}):
            state = {"waiting": {"reason": reason, "message": message}}
            none: Json = {"ready": False, "restartCount": 0, "imageID": ""}
            known[name] = {"name": name, "image": each.get("image", ""), **none, "state": state}
    return list(known.values())


def _by_name(statuses: Iterable[Json] | None) -> dict[str, Json]:
    return {str(each.get("name")): each for each in statuses or ()}
