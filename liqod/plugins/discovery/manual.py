"""Sees the clusters that the operator named: in the configuration, or by a kubeconfig Secret.

A Secret labelled ``liqo.io/identity-type: ControlPlane`` and ``liqo.io/remote-cluster-id`` in a
peer's tenant namespace is the declarative way of peering; a peer in the
configuration may bring the kubeconfig of a peering user as a file.

Only tenant namespaces are looked into, and only for their own peer: whoever may write Secrets
elsewhere is seen by nobody and fills no memory. Their Secrets are watched for the peer anyway, and
that watch is the one that is shared here.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, SECRETS
from liqod.apimachinery.meta import Partial
from liqod.kube.selection import Selection
from liqod.model import endpoints
from liqod.plugins.hookspecs import hookimpl
from liqod.plugins.providers import MOST_ADDRESSES, DiscoveryProvider, Services, Sighting

NAME = "manual"

Sighted = Callable[[Sighting], None]


class Manual:
    """Reports what is configured, then follows the labelled Secrets of tenant namespaces."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._configured = {
            peer.cluster_id: Sighting(
                cluster_id=peer.cluster_id,
                plugin=NAME,
                addresses=tuple(filter(endpoints.split, peer.addresses))[:MOST_ADDRESSES],
                kubeconfig=peer.kubeconfig,
            )
            for peer in services.configured
        }
        self._tenants: dict[str, str] = {}
        self._followed: dict[str, tuple[str, trio.CancelScope]] = {}
        self._seen: dict[tuple[str, str], Sighting] = {}
        self._changed = trio.Event()

    async def run(
        self,
        sighted: Sighted,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        """Report sightings until cancelled."""
        for seen in self._configured.values():
            sighted(seen)
        async with (
            self._services.share(NAMESPACES) as namespaces,
            trio.open_nursery() as nursery,
        ):

            def heard(change: Any) -> None:
                self._judge_namespace(change.key[1], namespaces.store.decode(change.key, Partial))

            stop = namespaces.subscribe(heard)
            try:
                task_status.started()
                while True:
                    self._adjust(nursery, sighted)
                    await self._changed.wait()
                    self._changed = trio.Event()
            finally:
                stop()
        raise AssertionError("unreachable")

    def _judge_namespace(self, name: str, namespace: Partial | None) -> None:
        """Take note of whose tenant namespace it is, if it is one."""
        marks = {} if namespace is None else namespace.metadata.labels
        tenant = marks.get(labels.TENANT_NAMESPACE) == labels.TRUE
        peer = marks.get(labels.REMOTE_CLUSTER_ID, "") if tenant else ""
        if self._tenants.get(name, "") == peer:
            return
        self._tenants.pop(name, None)
        if peer:
            self._tenants[name] = peer
        self._changed.set()

    def _adjust(self, nursery: trio.Nursery, sighted: Sighted) -> None:
        """Follow the tenant namespaces that there are, and no others."""
        for name, (peer, scope) in list(self._followed.items()):
            if self._tenants.get(name) != peer:
                scope.cancel()
                del self._followed[name]
        for name, peer in self._tenants.items():
            if name not in self._followed:
                scope = trio.CancelScope()
                self._followed[name] = (peer, scope)
                nursery.start_soon(self._follow, name, peer, scope, sighted)

    async def _follow(
        self, namespace: str, peer: str, scope: trio.CancelScope, sighted: Sighted
    ) -> None:
        """Follow the Secrets of one tenant namespace."""
        with scope:
            async with self._services.share(SECRETS, Selection(namespace)) as informer:

                def changed(change: Any) -> None:
                    secret = informer.store.decode(change.key, Partial)
                    for sighting in self._judge(change.key, peer, secret):
                        sighted(sighting)

                stop = informer.subscribe(changed)
                try:
                    await trio.sleep_forever()
                finally:
                    stop()
        over = [
            key
            for key, known in self._seen.items()
            if key[0] == namespace and known.cluster_id == peer
        ]
        for key in over:
            for sighting in self._judge(key, peer, None):
                sighted(sighting)

    def _judge(self, key: tuple[str, str], peer: str, secret: Partial | None) -> list[Sighting]:
        """The sightings of a change of one Secret: that its cluster is gone, or a new one.

        A Secret that names another cluster than the one whose namespace it is in says nothing.
        """
        known = self._seen.get(key)
        marks = {} if secret is None else secret.metadata.labels
        named = marks.get(labels.REMOTE_CLUSTER_ID, "")
        if marks.get(labels.IDENTITY_TYPE) != labels.CONTROL_PLANE or named != peer:
            return [] if known is None else [self._gone(key, self._seen.pop(key))]
        bare = self._configured.get(named) or Sighting(cluster_id=named, plugin=NAME)
        seen = msgspec.structs.replace(bare, tenant_namespace=key[0], secret=key[1])
        if seen == known:
            return []
        self._seen[key] = seen
        return [seen]

    def _gone(self, key: tuple[str, str], known: Sighting) -> Sighting:
        if known.cluster_id in self._configured:
            return self._configured[known.cluster_id]
        return Sighting(
            cluster_id=known.cluster_id,
            plugin=NAME,
            gone=True,
            tenant_namespace=key[0],
            secret=key[1],
        )


def build(settings: Any, services: Services) -> Manual:
    """The plugin has no settings of its own: peers stand in the configuration."""
    return Manual(services)


@hookimpl
def liqod_discovery() -> list[DiscoveryProvider]:
    """One way of seeing clusters: being told."""
    return [DiscoveryProvider(name=NAME, build=build)]
