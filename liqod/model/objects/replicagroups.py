"""Groups the replicas of a workload by the cluster in which they are, and why some wait. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from liqod.apimachinery.kinds import DEPLOYMENTS
from liqod.model.objects import conditions, podreturns, podsight, podstatus
from liqod.model.objects.podsight import LivePod

Json = Mapping[str, Any]

JOB: Final = "Job"


class ReplicaGroup(msgspec.Struct, frozen=True):
    """Replicas that are in the same place, and alike.

    Attributes:
        placed: they are on a node.
        peer: the peer's id of that node; empty for a node of this cluster, and for none.
        count: their number.
        ready: they are ready.
        why: the reason why they are not; empty where none is given.
        pod: the name of one of them.
    """

    placed: bool
    peer: str
    count: int
    ready: bool
    why: str
    pod: str


class Replicas(msgspec.Struct, frozen=True):
    """The replicas of a workload.

    Attributes:
        wanted: their number by its spec.
        groups: those that are there, and have not ended.
        ended: those that have.
        unmade: those that are wanted and not there.
        unmade_why: the reason, as far as its controller gives one.
    """

    wanted: int
    groups: tuple[ReplicaGroup, ...]
    ended: int
    unmade: int
    unmade_why: str = ""

    @property
    def ready(self) -> int:
        """The number that is ready."""
        return sum(each.count for each in self.groups if each.ready)


def replicas(
    workload: Json, sets: Iterable[Json], pods: Iterable[Json], peers: Mapping[str, str]
) -> Replicas:
    """The replicas of a workload that is in the cluster.

    Args:
        workload: the object.
        sets: the ReplicaSets of its namespace.
        pods: the pods, of any namespace.
        peers: the peer of each virtual node, by the node's name.
    """
    owners = {workload["metadata"]["uid"]}
    if workload.get("kind") == DEPLOYMENTS.name:
        owners = {each["metadata"]["uid"] for each in sets if _controller(each) in owners}
    mine = [msgspec.convert(each, LivePod) for each in pods if _controller(each) in owners]
    there = [each for each in mine if not each.metadata.deletion_timestamp]
    alive = [each for each in there if each.status.phase not in podstatus.TERMINAL]
    wanted = _wanted(workload)
    unmade = max(0, wanted - len(alive))
    return Replicas(
        wanted,
        tuple(_groups(alive, peers)),
        len(there) - len(alive),
        unmade,
        _failure(workload) if unmade else "",
    )


def _controller(body: Json) -> str:
    """The UID of an object's controller; empty for none."""
    return str((podreturns.owner(body) or {}).get("uid", ""))


def _groups(pods: Iterable[LivePod], peers: Mapping[str, str]) -> Iterable[ReplicaGroup]:
    """The groups: those that are ready first, and those without a node last."""
    alike: dict[tuple[bool, bool, str, str], list[str]] = {}
    for each in map(podsight.pod_of, pods):
        key = (not each.node, not each.ready, peers.get(each.node, ""), each.reason)
        alike.setdefault(key, []).append(each.name)
    for (unplaced, unready, peer, why), names in sorted(alike.items()):
        yield ReplicaGroup(not unplaced, peer, len(names), not unready, why, min(names))


def _wanted(workload: Json) -> int:
    spec = workload.get("spec") or {}
    if workload.get("kind") != JOB:
        return int(spec.get("replicas", 1))
    if spec.get("suspend"):
        return 0
    done = (workload.get("status") or {}).get("succeeded") or 0
    at_once = int(spec.get("parallelism", 1))
    if spec.get("completions") is None:
        return 0 if done else at_once  # of a work queue, none follow the first that succeeds
    return max(0, min(at_once, int(spec["completions"]) - done))


def _failure(workload: Json) -> str:
    found = conditions.find((workload.get("status") or {}).get("conditions"), "ReplicaFailure")
    if found is None or found.get("status") != "True":
        return ""
    return str(found.get("message") or found.get("reason") or "")
