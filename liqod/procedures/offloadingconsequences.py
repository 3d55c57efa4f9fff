"""The consequences of changed objects for namespaces that are offloaded: at each provider. Pure.

The verdict is the plan by which the daemon acts (:mod:`liqod.consumer.namespaces.offloadplan`).
All namespaces are judged, since a virtual node with other labels is selected by other ones.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from liqod.apimachinery.kinds import NODES
from liqod.apimachinery.labels import NAMESPACE_OFFLOADING_NAME as NAME
from liqod.consumer.namespaces import offloadplan
from liqod.consumer.namespaces.clusterviews import ClusterViews
from liqod.consumer.namespaces.offloadplan import ClusterView, OffloadingPlan
from liqod.kube.cache.store import Key
from liqod.model.crossing.exclusions import namespace_stays
from liqod.procedures.clusterobjects import ClusterObjects
from liqod.procedures.consequences import Consequence
from liqod.resources import (
    NAMESPACE_MAPS,
    NAMESPACE_OFFLOADINGS,
    VIRTUAL_NODES,
    NamespaceOffloading,
)

UNDER_WAY: Final = ("Creating", "Terminating", offloadplan.DRAINING, offloadplan.FORMER)
"""Reasons of a namespace that a provider does not have yet, or not any more."""
STRATEGIES: Final = {
    "Local": "its new pods run in this cluster only",
    "Remote": "its new pods run at peers only",
    "LocalAndRemote": "its new pods may run in this cluster and at peers",
}


def offloading_consequences(
    before: ClusterObjects, after: ClusterObjects, here: str, own: str, now: str
) -> dict[Key, list[Consequence]]:
    """The consequences by NamespaceOffloading; those without any are left out.

    Args:
        before, after: all objects.
        here: this cluster's id.
        own: liqod's namespace.
        now: RFC 3339.
    """
    # What is refused already, and goes on being so, is no consequence.
    known = OffloadingForecast(before, before, here, own, now).consequences()
    found = OffloadingForecast(before, after, here, own, now).consequences()
    news = {
        key: [each for each in made if each not in known.get(key, ())]
        for key, made in found.items()
    }
    return {key: made for key, made in news.items() if made}


class OffloadingForecast:
    """Judges the namespaces of a cluster.

    Args:
        before, after: all objects.
        here: this cluster's id.
        own: liqod's namespace.
        now: RFC 3339.
    """

    def __init__(
        self, before: ClusterObjects, after: ClusterObjects, here: str, own: str, now: str
    ) -> None:
        self._before, self._after = before, after
        self._here, self._own, self._now = here, own, now
        stores = (after.store(each) for each in (VIRTUAL_NODES, NODES, NAMESPACE_MAPS))
        self._views = [view for _, view in ClusterViews(*stores).all().values()]

    def consequences(self) -> dict[Key, list[Consequence]]:
        """The consequences by NamespaceOffloading, also of what is so already."""
        stores = (each.store(NAMESPACE_OFFLOADINGS) for each in (self._before, self._after))
        every = sorted({key for store in stores for key in store})
        return {key: list(self._of(key)) for key in every}

    def _of(self, key: Key) -> Iterator[Consequence]:
        was = self._before.get(NAMESPACE_OFFLOADINGS, key, NamespaceOffloading)
        wanted = self._after.get(NAMESPACE_OFFLOADINGS, key, NamespaceOffloading)
        if key[1] != NAME:
            if wanted is not None:
                told = f"a NamespaceOffloading must be named {NAME}"
                yield Consequence("refused", self._here, told)
            return
        stays = namespace_stays(key[0], self._after.labels_of(key[0]), self._own)
        if wanted is not None and stays:
            yield Consequence("refused", self._here, stays)
        outcome = self._plan(wanted, stays) if wanted is not None else None
        for view in self._views:
            yield from self._at(key[0], view, outcome)
        if wanted is not None and outcome is not None:
            yield from self._besides(was, wanted, outcome, stays)

    def _plan(self, wanted: NamespaceOffloading, stays: str) -> OffloadingPlan:
        outcome = offloadplan.plan(wanted, self._here, self._views, self._now, stays=stays)
        # What comes after it finds the names taken, as the daemon's other namespaces do.
        for at, view in enumerate(self._views):
            if name := outcome.mapping.get(view.id):
                desired = {**view.desired, wanted.namespace: name}
                self._views[at] = msgspec.structs.replace(view, desired=desired)
        return outcome

    def _at(
        self, namespace: str, view: ClusterView, outcome: OffloadingPlan | None
    ) -> Iterator[Consequence]:
        had = self._had(namespace, view.id)
        conditions = _ready(outcome, view.id) if outcome is not None else None
        if outcome is not None and view.id not in outcome.mapping:
            if conditions is not None and conditions[0] not in UNDER_WAY:
                yield Consequence("refused", view.id, conditions[1])
            return
        name = outcome.mapping[view.id] if outcome is not None else None
        if name is not None and not had:
            yield Consequence("begins", view.id, f"it has the namespace {namespace}, as {name}")
        elif name is None and had:
            nodes = tuple(sorted(each.name for each in view.nodes))
            told = f"the namespace {namespace} there ({had})"
            yield Consequence("ends", view.id, told, nodes, namespace)

    def _had(self, namespace: str, cluster: str) -> str:
        """The name that a namespace has at a provider; empty where it has none."""
        stores = self._before.store(VIRTUAL_NODES), self._before.store(NODES)
        known = ClusterViews(*stores, self._before.store(NAMESPACE_MAPS)).all()
        return known[cluster][1].desired.get(namespace, "") if cluster in known else ""

    def _besides(
        self,
        was: NamespaceOffloading | None,
        wanted: NamespaceOffloading,
        outcome: OffloadingPlan,
        stays: str,
    ) -> Iterator[Consequence]:
        """The consequences that concern no provider alone."""
        selected = any(_required(outcome, each.id) for each in self._views)
        if not selected and not stays:
            told = "no virtual node matches: it spreads when one does"
            yield Consequence("waits", self._here, told)
        if outcome.problem and not stays and selected and not _refusals(outcome):
            yield Consequence("changes", self._here, outcome.problem)
        strategy = wanted.spec.pod_offloading_strategy
        if was is not None and was.spec.pod_offloading_strategy != strategy:
            yield Consequence("changes", self._here, STRATEGIES[strategy])


def _ready(outcome: OffloadingPlan, cluster: str) -> tuple[str, str] | None:
    """Reason and message of a provider that does not get the namespace, and should."""
    conditions = outcome.status["remoteNamespacesConditions"][cluster]
    found = next((each for each in conditions if each["type"] == offloadplan.READY), None)
    if not _required(outcome, cluster) or found is None or found["status"] == "True":
        return None
    return found.get("reason", ""), found.get("message", "")


def _required(outcome: OffloadingPlan, cluster: str) -> bool:
    conditions = outcome.status["remoteNamespacesConditions"][cluster]
    return any(
        each["type"] == offloadplan.REQUIRED and each["status"] == "True" for each in conditions
    )


def _refusals(outcome: OffloadingPlan) -> bool:
    every = outcome.status["remoteNamespacesConditions"]
    found = (_ready(outcome, each) for each in every)
    return any(each is not None and each[0] not in UNDER_WAY for each in found)
