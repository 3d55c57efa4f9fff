"""Every write that the API servers served: who wrote what, and whether it was theirs to write.

Conditions that hold at every moment are judged here, write by write; those that hold only after
quiet are in :mod:`tests.stateful.agreement`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from liqod.apimachinery import labels
from liqod.model import ids
from liqod.model.objects import podreturns
from simulator import EmbeddedCluster
from simulator.access.identities import REQUESTER
from simulator.storage.storage import Change, Item

Json = dict[str, Any]

CONSUMER = "rome"
FOREIGN = "stateful.test/foreign"
"""Label of objects that belong to people, wherever they are and whatever they are called."""
NOISE = ("leases.coordination.k8s.io", "events", "events.events.k8s.io")
"""Kinds that change while nothing happens, or that nobody decides by."""
DAEMON = "system:serviceaccount:liqo:liqod"
ENDED = ("Succeeded", "Failed")
KEPT = 4000
"""Writes remembered, for messages."""


class Broken(AssertionError):
    """An invariant does not hold."""


class _Meta(msgspec.Struct, rename="camel"):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct):
    phase: str = ""


class Seen(msgspec.Struct):
    """The part of an object that is judged."""

    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class Write(NamedTuple):
    """One write.

    Attributes:
        cluster: where.
        author: ``daemon`` (that cluster's), ``rome`` (the consumer, at a provider), ``peering``
            (a peering user), or empty: controllers, kubelets and people.
        resource: qualified.
        change: before and after.
    """

    cluster: str
    author: str
    resource: str
    change: Change

    def __str__(self) -> str:
        last, change = self.change.last, self.change
        did = "created" if change.before is None else "deleted" if change.after is None else "wrote"
        return (
            f"{self.author or '-'}@{self.cluster} {did} {self.resource}"
            f" {last.namespace}/{last.name} ({last.version})"
        )


def seen(item: Item) -> Seen:
    """Decodes the fields of an object that are judged."""
    return msgspec.json.decode(item.raw, type=Seen)


class Audit:
    """The writes of one world.

    Attributes:
        changes: how many, without the noise.
        writes: the last of them.
        problems: what was found.
        rules: what is asked of each write; gives what is wrong with it, or None.
    """

    def __init__(self) -> None:
        self.changes = 0
        self.writes: list[Write] = []
        self.problems: list[str] = []
        self.returned: set[str] = set()
        """UIDs of local pods that have returned."""
        self.clusters: dict[str, EmbeddedCluster] = {}
        self.rules: tuple[Callable[[Write], str | None], ...] = (
            _people_own,
            _consumer_owns,
            _users_own,
            self._one_remote_pod,
            self._returned_once,
            self._not_abandoned,
        )

    def follow(self, name: str, cluster: EmbeddedCluster) -> None:
        """Judge the writes of a cluster, in place of an older one of that name."""
        self.clusters[name] = cluster

        def listen(resource: str, change: Change) -> None:
            user = REQUESTER.get()
            write = Write(name, _author(name, user.name if user else ""), resource, change)
            if resource in NOISE or self.clusters[name] is not cluster:
                return
            self.changes += 1
            if len(self.writes) < KEPT:
                self.writes.append(write)
            for rule in self.rules:
                wrong = rule(write)
                if wrong is not None:
                    self.problems.append(f"{write}: {wrong}")

        cluster.registry.storage.listeners.append(listen)

    def last(self, count: int) -> str:
        """The last writes, for people."""
        return "\n  ".join(str(write) for write in self.writes[-count:])

    def by_daemons(self, since: int) -> list[Write]:
        """Returns the daemons' writes, without the first `since` writes."""
        return [write for write in self.writes[since:] if write.author in ("daemon", CONSUMER)]

    def check(self) -> None:
        """Raise what was found."""
        if self.problems:
            raise Broken("; ".join(self.problems) + "\n  " + self.last(12))

    # Rules that look beyond the object

    def remote_pods(self, uid: str) -> list[Item]:
        """The pods at providers that reflect a local one and carry the consumer's mark."""
        found = []
        for name, cluster in self.clusters.items():
            if name != CONSUMER:
                for item in cluster.registry.storage.of("pods").items():
                    if uid.encode() in item.raw:
                        marks = seen(item).metadata
                        stands = marks.annotations.get(labels.LOCAL_UID) == uid
                        if stands and marks.labels.get(labels.ORIGIN) == CONSUMER:
                            found.append(item)
        return found

    def _one_remote_pod(self, write: Write) -> str | None:
        """Every local pod has at most one remote pod."""
        if write.cluster == CONSUMER or write.resource != "pods" or write.change.before is not None:
            return None
        uid = seen(write.change.last).metadata.annotations.get(labels.LOCAL_UID)
        if uid is None or len(self.remote_pods(uid)) < 2:
            return None
        return f"the local pod {uid} has two remote pods"

    def _returned_once(self, write: Write) -> str | None:
        """Nothing of a pod that has returned is at a provider, or comes there again."""
        change = write.change
        if write.resource != "pods" or change.after is None:
            return None
        if write.cluster == CONSUMER:
            if not _returned(change.after):
                return None
            self.returned.add(change.after.uid)
            left = self._there(change.after.uid)
            return f"it has returned, and {left[0].name} is there" if left else None
        uid = seen(change.after).metadata.annotations.get(labels.LOCAL_UID)
        if uid is None or change.before is not None:
            return None
        local = self.clusters[CONSUMER].registry.storage.of("pods").items()
        back = any(item.uid == uid and _returned(item) for item in local)
        return "it has returned, and is made there again" if back else None

    def _there(self, uid: str) -> list[Item]:
        """The remote pods of a local one, and its ShadowPods."""
        found = self.remote_pods(uid)
        for name, cluster in self.clusters.items():
            if name != CONSUMER:
                shadows = cluster.registry.storage.of("shadowpods.offloading.liqo.io").items()
                notes = ((seen(item).metadata.annotations, item) for item in shadows)
                found += [each for marks, each in notes if marks.get(labels.LOCAL_UID) == uid]
        return found

    def _not_abandoned(self, write: Write) -> str | None:
        """A local pod is not ended or given up by the daemon while its remote pod runs."""
        if write.cluster != CONSUMER or write.resource != "pods" or write.author != "daemon":
            return None
        before, after = write.change.before, write.change.after
        if before is None:
            return None
        was = seen(before)
        ends = after is None or (
            seen(after).status.phase in ENDED and was.status.phase not in ENDED
        )
        if not ends or not self._mapped(was.spec.node_name):
            return None
        if after is None and not was.metadata.deletion_timestamp:
            return "nobody has asked for its end"
        for remote_pod in self.remote_pods(before.uid):
            if (
                seen(remote_pod).status.phase not in ENDED
                and not seen(remote_pod).metadata.deletion_timestamp
            ):
                return f"its remote pod {remote_pod.namespace}/{remote_pod.name} runs on"
        return None

    def _mapped(self, node: str) -> bool:
        """True if pods on that node are to run: it is a virtual one that is not being deleted."""
        storage = self.clusters[CONSUMER].registry.storage
        nodes = storage.of("virtualnodes.offloading.liqo.io")
        node_of = nodes.get(f"liqo-tenant-{node}", node)
        if node_of is None or seen(node_of).metadata.deletion_timestamp:
            return False
        found = storage.of("namespacemaps.offloading.liqo.io").get(f"liqo-tenant-{node}", node)
        return found is not None and bool(found.decode().get("spec", {}).get("desiredMapping"))


def _returned(pod: Item) -> bool:
    """True if a local pod is said to have ended at its provider, to return."""
    if labels.RETURNING.encode() not in pod.raw:
        return False
    return podreturns.ended_there(pod.decode())


def _author(cluster: str, user: str) -> str:
    if user == DAEMON:
        return "daemon"
    if cluster != CONSUMER and user in (CONSUMER, ids.slice_user(cluster, CONSUMER)):
        return CONSUMER
    return "peering" if user.startswith("liqo-peering") else ""


def _people_own(write: Write) -> str | None:
    """Reports a write to an object that is not ours."""
    before = write.change.before
    if not write.author or before is None or FOREIGN not in seen(before).metadata.labels:
        return None
    return "it is not ours"


def _consumer_owns(write: Write) -> str | None:
    """At a provider the consumer writes only what carries its marks."""
    if write.author != CONSUMER:
        return None
    before = write.change.before or write.change.after
    assert before is not None
    marks = seen(before).metadata.labels
    reflected = (marks.get(labels.ORIGIN), marks.get(labels.DESTINATION))
    if reflected == (CONSUMER, write.cluster):
        return None
    if marks.get(labels.REPLICATED) == labels.TRUE and marks.get(labels.ORIGIN_ID) == CONSUMER:
        return None
    return "it does not carry the consumer's marks"


def _users_own(write: Write) -> str | None:
    """In its own cluster the daemon never writes what users made, except pods."""
    kinds = ("services", "configmaps", "secrets", "deployments.apps", "replicasets.apps")
    before = write.change.before
    if write.author != "daemon" or before is None or write.cluster != CONSUMER:
        return None
    if write.resource in kinds and before.namespace == "shop":
        return "it is its user's"
    return None
