"""Sees the clusters that the operator named: in the configuration, or by a kubeconfig Secret.

A Secret labelled ``liqo.io/identity-type: ControlPlane`` and ``liqo.io/remote-cluster-id`` in a
peer's tenant namespace is the declarative way of peering; a peer in the
configuration may bring the kubeconfig of a peering user as a file.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import trio

from liqod.kube.kinds import SECRETS
from liqod.kube.meta import Partial
from liqod.model import labels
from liqod.plugins.hookspecs import hookimpl
from liqod.plugins.providers import DiscoveryProvider, Services, Sighting

NAME = "manual"
SELECTOR = f"{labels.IDENTITY_TYPE}={labels.CONTROL_PLANE},{labels.REMOTE_CLUSTER_ID}"


class Manual:
    """Reports what is configured, then follows the labelled Secrets."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._files = {peer.cluster_id: peer.kubeconfig for peer in services.configured}
        self._seen: dict[tuple[str, str], Sighting] = {}

    async def run(
        self,
        sighted: Callable[[Sighting], None],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        """Report sightings until cancelled."""
        for cluster_id in self._files:
            sighted(self._configured(cluster_id))
        async with self._services.share(SECRETS, labels=SELECTOR) as informer:

            def changed(change: Any) -> None:
                sighting = self._judge(change.key, informer.store.decode(change.key, Partial))
                if sighting is not None:
                    sighted(sighting)

            stop = informer.subscribe(changed)
            try:
                task_status.started()
                await trio.sleep_forever()
            finally:
                stop()
        raise AssertionError("unreachable")

    def _configured(self, cluster_id: str) -> Sighting:
        return Sighting(cluster_id=cluster_id, plugin=NAME, kubeconfig=self._files[cluster_id])

    def _judge(self, key: tuple[str, str], secret: Partial | None) -> Sighting | None:
        """What a change of one Secret says; None where it says nothing new."""
        known = self._seen.get(key)
        if secret is None:
            if known is None:
                return None
            del self._seen[key]
            if known.cluster_id in self._files:
                return self._configured(known.cluster_id)
            return Sighting(
                cluster_id=known.cluster_id,
                plugin=NAME,
                gone=True,
                tenant_namespace=key[0],
                secret=key[1],
            )
        cluster_id = secret.metadata.labels.get(labels.REMOTE_CLUSTER_ID, "")
        seen = Sighting(
            cluster_id=cluster_id,
            plugin=NAME,
            tenant_namespace=key[0],
            secret=key[1],
            kubeconfig=self._files.get(cluster_id, ""),
        )
        if not seen.cluster_id or seen == known:
            return None
        self._seen[key] = seen
        return seen


def build(settings: Any, services: Services) -> Manual:
    """The plugin has no settings of its own: peers stand in the configuration."""
    return Manual(services)


@hookimpl
def liqod_discovery() -> list[DiscoveryProvider]:
    """One way of seeing clusters: being told."""
    return [DiscoveryProvider(name=NAME, build=build)]
