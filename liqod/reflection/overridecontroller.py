"""Writes the conditions of OverridePolicies: whether one is valid, and applied as it says."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import msgspec

from liqod.cluster.context import ClusterContext
from liqod.kube import times
from liqod.kube.cache.store import StoreChange
from liqod.kube.controller import Controller
from liqod.kube.watched import Watched
from liqod.model.crossing.overrides import Override, compiled
from liqod.model.objects import conditions
from liqod.model.objects.patches import exact_patch
from liqod.reflection.overrides import OverrideProblems
from liqod.reflection.view import Key
from liqod.resources import VIRTUAL_NODES, VirtualNode
from liqod.resources.overrides import APPLIED, OVERRIDE_POLICIES, VALID

TOGETHER: Final = 0.2
"""Seconds in which problems of many objects are taken together."""


class OverrideController(Controller[Key]):
    """Keeps the status of each OverridePolicy.

    Args:
        problems: what the reflection to all peers could not apply.
    """

    def __init__(self, context: ClusterContext, problems: OverrideProblems) -> None:
        self._client = context.client
        self._problems = problems
        self._policies = Watched(OVERRIDE_POLICIES, self._on_policy)
        self._nodes = Watched(VIRTUAL_NODES, self._on_virtual_node)
        super().__init__(
            context,
            "reflection",
            self._policies,
            self._nodes,
            name="override policies",
            tasks=[partial(self.whenever, problems.wait_changed, self._on_problems)],
        )

    def _on_policy(self, change: StoreChange) -> Iterator[Key]:
        if change.new is not None:
            yield change.key

    def _on_virtual_node(self, change: StoreChange) -> Iterator[Key]:
        if change.old is None or change.new is None:
            yield from list(self._policies.store)

    def _on_problems(self) -> Iterator[Key]:
        for policy in self._problems.changed():
            namespace, _, name = policy.partition("/")
            yield (namespace, name)

    async def reconcile(self, key: Key) -> float | None:
        """Write the conditions of one policy, where they differ."""
        body = self._policies.store.get(key)
        if body is None:
            return None
        override = compiled(body)
        live: dict[str, Any] = msgspec.json.decode(body).get("status") or {}
        failed = self._problems.first("/".join(key))
        wanted = [_condition(VALID, override.problem, "Refused", "Accepted")]
        if not override.problem:
            unknown = self._unknown(override)
            bad = "NoPath" if failed else "NoSuchPeer"
            wanted.append(_condition(APPLIED, failed or unknown, bad, "AsWritten"))
        status = {
            "observedGeneration": override.generation,
            "conditions": conditions.all_dated(wanted, live.get("conditions"), times.now()),
        }
        patch = exact_patch(live, status)
        if patch:
            namespace, name = key
            where = (OVERRIDE_POLICIES, name, {"status": patch}, namespace)
            await self._client.patch(*where, subresource="status")
        return None

    def _unknown(self, override: Override) -> str:
        """The peers of a policy from which nothing is borrowed, as a sentence; empty for none.

        They are named by their ids alone: another name may come to mean another cluster.
        """
        known = {each.spec.cluster_id for each in self._nodes.store.values(VirtualNode)}
        missing = [each for each in override.spec.peers if each not in known]
        if not missing:
            return ""
        there = ", ".join(sorted(known)) or "none"
        return f"there is no peer with the id {', '.join(missing)}; those with nodes here: {there}"


def _condition(type_: str, problem: str, bad: str, good: str) -> dict[str, str]:
    if problem:
        return {"type": type_, "status": "False", "reason": bad, "message": problem[:1024]}
    return {"type": type_, "status": "True", "reason": good}
