"""Deployments, ReplicaSets, DaemonSets, StatefulSets and Jobs: defaults and fixed selectors."""

from typing import Any

from simulator.kinds.base import Strategy, default, section
from simulator.kinds.podspecs import default_template
from simulator.storage.selectors import to_selector
from simulator.wire.failures import Cause, immutable, required, wrong

Json = dict[str, Any]


class WorkloadStrategy(Strategy):
    """A pod template under a selector that never changes."""

    needs_selector = True

    def defaults(self, obj: Json) -> None:
        """As the base class says."""
        template = section(obj, "spec").get("template")
        if isinstance(template, dict):
            default_template(template)

    def validate(self, obj: Json, old: Json | None) -> list[Cause]:
        """As the base class says."""
        spec = obj["spec"]
        if not self.needs_selector:
            return []
        if not spec.get("selector"):
            return [required("spec.selector")]
        template = spec.get("template") or {}
        labels = (template.get("metadata") or {}).get("labels") or {}
        if not to_selector(spec["selector"]).holds(labels):
            detail = "`selector` does not match template `labels`"
            return [wrong("spec.template.metadata.labels", labels, detail)]
        if old is not None and old["spec"].get("selector") != spec["selector"]:
            return [immutable("spec.selector", spec["selector"])]
        return []


class DeploymentStrategy(WorkloadStrategy):
    """Deployments roll by a quarter by default."""

    def defaults(self, obj: Json) -> None:
        """As the base class says."""
        super().defaults(obj)
        spec = obj["spec"]
        default(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
        strategy = section(spec, "strategy")
        default(strategy, type="RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            default(section(strategy, "rollingUpdate"), maxUnavailable="25%", maxSurge="25%")


class ReplicaSetStrategy(WorkloadStrategy):
    """ReplicaSets have one replica by default."""

    def defaults(self, obj: Json) -> None:
        """As the base class says."""
        super().defaults(obj)
        default(obj["spec"], replicas=1)


class DaemonSetStrategy(WorkloadStrategy):
    """Rolling updates, one node at a time."""

    def defaults(self, obj: Json) -> None:
        """As the base class says."""
        super().defaults(obj)
        default(
            obj["spec"],
            revisionHistoryLimit=10,
            updateStrategy={
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
            },
        )


class JobStrategy(WorkloadStrategy):
    """Stored; no controller runs it here."""

    needs_selector = False


WORKLOADS: dict[str, Strategy] = {
    "deployments.apps": DeploymentStrategy(),
    "replicasets.apps": ReplicaSetStrategy(),
    "statefulsets.apps": ReplicaSetStrategy(),
    "daemonsets.apps": DaemonSetStrategy(),
    "jobs.batch": JobStrategy(),
}
