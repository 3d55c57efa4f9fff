"""The other cluster's half of a peering, ended from this side by a client of that cluster.

An administrator's client ends all of it, as `liqod unpeer` there would. A peering user may delete
what its cluster made there, and no namespace: that stays, with the key that was accepted.
"""

from typing import Final

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, SECRETS
from liqod.apimachinery.meta import Partial
from liqod.cluster.ownid import cluster_id, own_cluster_id
from liqod.cluster.tenancy import find_tenant_namespace
from liqod.errors import ConfigError, Conflict, Forbidden, LiqodError
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.procedures import agreements, networkleaving, onehalf
from liqod.resources import IDENTITIES, TENANTS, VIRTUAL_NODES
from liqod.runtime.polling import poll_until
from liqod.runtime.progress import Progress

WITHIN: Final = 60.0
"""Seconds for the other cluster to be done; its daemon may not run, and goes on when it does."""


class OtherHalf:
    """A peer's half of a peering.

    Args:
        client: of the peer.
        peer: its id.
        here: this cluster's id.
        namespace: this cluster's tenant namespace at the peer; empty for none.
        liqo: liqod's namespace at the peer.
        doomed: the objects that are deleted, one line each.
        is_administrators: true if the client may end all of it.

    Attributes:
        here, doomed: as above.
        cleared: those that were deleted.
    """

    def __init__(
        self,
        client: Client,
        peer: str,
        here: str,
        namespace: str,
        liqo: str,
        doomed: tuple[str, ...],
        *,
        is_administrators: bool,
    ) -> None:
        self._client, self._peer, self.here = client, peer, here
        self._namespace, self._liqo = namespace, liqo
        self._is_administrators = is_administrators
        self.doomed = doomed
        self.cleared: tuple[str, ...] = ()

    async def end_borrowing(self, progress: Progress) -> bool:
        """End the peer's borrowing from this cluster.

        It is not ended, and False, where the client has not the right, and where the virtual nodes
        do not go in time: the peer's daemon may not run.

        Args:
            progress: called with each step.
        """
        remote, namespace = self._client, self._namespace
        if not namespace:
            return True
        try:
            if self._is_administrators:
                await agreements.end(remote, self._liqo, self.here)
            await onehalf.give_back(remote, namespace)
        except Forbidden:
            return False
        progress("drain and remove the peer's virtual nodes")
        with trio.move_on_after(WITHIN) as waiting:
            await poll_until(lambda: onehalf.is_none_left(remote, VIRTUAL_NODES, namespace))
        if waiting.cancelled_caught:
            return False
        await remote.delete_selected(IDENTITIES, Selection(namespace))
        return True

    async def end(self, progress: Progress) -> str:
        """End all of it that the client may; the namespace that is left there, empty for none.

        Args:
            progress: called with each step.

        Raises:
            ConfigError: the peer keeps the Tenant of this cluster, and why.
        """
        if not self._namespace:
            return ""
        try:
            if self._is_administrators:
                with trio.move_on_after(WITHIN) as waiting:
                    await self._end_all(progress)
                if waiting.cancelled_caught:
                    # Of no use any more. Without these its daemon goes on by itself once it runs.
                    await networkleaving.clear(self._client, self._namespace)
                    await self._client.delete_selected(IDENTITIES, Selection(self._namespace))
            else:
                await self._client.delete(TENANTS, self.here, self._namespace)
                await self._client.delete(SECRETS, labels.NONCE_SECRET, self._namespace)
                await networkleaving.clear(self._client, self._namespace)
            kept = await self._is_kept()
        except LiqodError as error:
            raise ConfigError(f"{self._peer} keeps the Tenant {self.here}: {error}") from error
        gone = {_line(self._namespace)} if kept else set()
        self.cleared = tuple(each for each in self.doomed if each not in gone)
        return self._namespace if kept else ""

    async def _end_all(self, progress: Progress) -> None:
        remote, namespace = self._client, self._namespace
        await agreements.end(remote, self._liqo, self.here)
        await onehalf.withdraw(remote, self.here, namespace, self._liqo, progress)
        progress(f"wait for the namespace {namespace} to go at {self._peer}")
        await poll_until(self._is_gone)

    async def _is_gone(self) -> bool:
        """True if the namespace is gone. One that is empty is deleted, which Liqo's daemons and one
        that does not run leave to others."""
        found = await self._client.find(NAMESPACES, self._namespace, decode=Partial)
        if found is None:
            return True
        if not found.metadata.deletion_timestamp and await self._is_empty():
            try:
                await self._client.delete(NAMESPACES, self._namespace, uid=found.metadata.uid)
            except Conflict:
                return True  # it is another one now
        return False

    async def _is_empty(self) -> bool:
        for kind in onehalf.KINDS:
            if not await onehalf.is_none_left(self._client, kind, self._namespace):
                return False
        identities = Selection(self._namespace, labels=labels.IDENTITY_TYPE)
        return not await self._client.list(SECRETS, identities, decode=Partial)

    async def _is_kept(self) -> bool:
        """True if the tenant namespace is to stay as it is."""
        try:
            found = await self._client.find(NAMESPACES, self._namespace, decode=Partial)
        except Forbidden:
            return True
        return found is not None and not found.metadata.deletion_timestamp


def _line(namespace: str) -> str:
    return f"Namespace {namespace}"


async def find(
    local: Client,
    remote: Client,
    peer: str,
    *,
    liqo: str = labels.LIQO_NAMESPACE,
    remote_liqo: str = labels.LIQO_NAMESPACE,
) -> OtherHalf:
    """The half that a peer has of the peering with this cluster.

    Args:
        local: an administrator's client of this cluster.
        remote: a client of the peer.
        peer: the peer's id.
        liqo: liqod's namespace in this cluster.
        remote_liqo: the same at the peer.

    Raises:
        ConfigError: the client is of another cluster.
        LiqodError: it cannot be read.
    """
    here = await own_cluster_id(local, liqo)
    there = await cluster_id(remote, remote_liqo)
    if there != peer:
        raise ConfigError(f"the kubeconfig leads to the cluster {there}, not to {peer}")
    try:
        namespace = await find_tenant_namespace(remote, here) or ""
        doomed = await onehalf.plan(remote, here, remote_liqo)
    except Forbidden:  # a peering user's, which is of its tenant namespace
        usual = remote.namespace == "default"
        namespace = ids.tenant_namespace(here) if usual else remote.namespace
        doomed = [f"Tenant {here}", *await networkleaving.parts(remote, namespace)]
        is_administrators = False
    else:
        is_administrators = True
    return OtherHalf(
        *(remote, peer, here, namespace, remote_liqo, tuple(doomed)),
        is_administrators=is_administrators,
    )
