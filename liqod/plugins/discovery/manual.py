"""Sees the clusters that the operator named: in the configuration, or by a kubeconfig Secret.

A Secret labelled ``liqo.io/identity-type: ControlPlane`` and ``liqo.io/remote-cluster-id`` in a
peer's tenant namespace is the declarative way of peering (``liqo-v1.md`` §2.1); a peer in the
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
        self._seen: dict[tuple[str, str], Sighting] = {}

    async def run(
        self,
        sighted: Callable[[Sighting], None],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        """Report sightings until cancelled."""
        for peer in self._services.configured:
            sighted(Sighting(cluster_id=peer.cluster_id, plugin=NAME, kubeconfig=peer.kubeconfig))
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

    def _judge(self, key: tuple[str, str], secret: Partial | None) -> Sighting | None:
        """What a change of one Secret says; None where it says nothing new."""
        known = self._seen.get(key)
        if secret is None:
            if known is None:
                return None
            del self._seen[key]
            return Sighting(
                cluster_id=known.cluster_id,
                plugin=NAME,
                gone=True,
                tenant_namespace=key[0],
                secret=key[1],
            )
        seen = Sighting(
            cluster_id=secret.metadata.labels.get(labels.REMOTE_CLUSTER_ID, ""),
            plugin=NAME,
            tenant_namespace=key[0],
            secret=key[1],
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
