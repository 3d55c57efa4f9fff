"""The labels that this cluster declares, where ``liqoctl info`` reads them: beside the address.

Where the daemon runs outside the cluster, a Deployment without pods shows ``liqoctl`` what runs.
Its arguments are an installation's; which labels consumers are offered is the daemon's own
configuration. A Deployment of the daemon itself is left alone: by another argument it would start
anew.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from liqod.apimachinery.kinds import DEPLOYMENTS
from liqod.cluster.context import ClusterContext
from liqod.install.workload import COMPONENT, STAND_IN
from liqod.kube.controller import Controller
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched, by_name

ARGUMENT: Final = "--cluster-labels"
"""The argument of a container from which ``liqoctl`` takes the labels."""


class ClusterLabels(Controller[str]):
    """Keeps the labels on the Deployment that stands for Liqo's; a key is its name."""

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        named = Selection(context.namespace, fields=f"metadata.name={STAND_IN}")
        self._deployments = Watched(DEPLOYMENTS, by_name, named)
        super().__init__(context, "installation", self._deployments, name="labels that are shown")

    async def reconcile(self, name: str) -> float | None:
        """Have the arguments say what is configured."""
        live = self._deployments.store.get((self._context.namespace, name))
        if live is None:
            return None
        found: dict[str, Any] = msgspec.json.decode(live)
        containers = found["spec"]["template"]["spec"]["containers"]
        labels = self._context.config.provider.node_labels
        wanted = [_showing(each, labels) for each in containers]
        if wanted != containers:
            version = {"resourceVersion": found["metadata"]["resourceVersion"]}
            spec = {"template": {"spec": {"containers": wanted}}}
            patch = {"metadata": version, "spec": spec}
            await self._context.client.patch(DEPLOYMENTS, name, patch, self._context.namespace)
        return None


def _showing(container: dict[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    if container["name"] != COMPONENT:
        return container
    return {**container, "args": arguments(container.get("args", ()), labels)}


def arguments(live: Sequence[str], labels: Mapping[str, str]) -> list[str]:
    """The arguments with these labels, and the others as they are."""
    others = [each for each in live if not each.startswith(f"{ARGUMENT}=")]
    told = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return [*others, f"{ARGUMENT}={told}"] if told else others
