"""The identities that a peer gave this cluster, as clients, from their kubeconfig Secrets.

Liqod writes those Secrets from Identities; a user may write them by hand. A certificate that was
renewed goes into the client that exists; an address that changed gives a new client.

This is no controller: nothing is reconciled, and a client must exist as soon as its Secret does,
before the change reaches any queue.
"""

from contextlib import AsyncExitStack
from typing import NoReturn

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SECRETS
from liqod.consumer.channelfallback import replaceable
from liqod.consumer.link import ProviderPeer
from liqod.consumer.remote import KubeconfigSecret, Remote
from liqod.consumer.serverdialer import ServerDialer
from liqod.errors import ConfigError, ProtocolError
from liqod.identity import certificates
from liqod.kube.cache.memoryquota import MemoryQuota
from liqod.kube.cache.store import StoreChange
from liqod.kube.client import Client
from liqod.kube.credentials import credentials as kubeconfigs
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.http.cpubudget import CpuBudget
from liqod.kube.selection import Selection
from liqod.runtime.observable import Notifier
from liqod.runtime.ticks import next_tick
from liqod.telemetry.events import IdentityChanged

DEADLINE = 15.0
"""Seconds for a request, retries included: a stuck one is given up soon after a peer is back."""
TIDY_EVERY = 60.0
"""Seconds between checks for connections left after a burst: each holds some 40 kB."""
CONNECTIONS = 16
"""Requests under way at once with one identity: part of a peer's budget."""


class Remotes:
    """The identities at one peer. :meth:`run` keeps them.

    Args:
        peer: the provider.

    Attributes:
        dial: makes the connections to its API server.
    """

    def __init__(self, peer: ProviderPeer) -> None:
        self._peer = peer
        self.dial = ServerDialer(peer.context.client.dial, peer.network, self._renew)
        self._remotes: dict[str, Remote] = {}
        most = peer.context.config.consumer.max_bytes
        self._budget = CpuBudget(MemoryQuota(most, "consumer.max_bytes", owner=peer.id))
        self._news = Notifier()
        self._closing: list[Client] = []

    def control(self) -> Remote | None:
        """The identity of this cluster's control plane; the first by name where several."""
        return self._first(control=True)

    def slice(self, name: str) -> Remote | None:
        """The identity of one slice."""
        return next((each for each in self._sorted() if each.slice == name), None)

    def by_secret(self, name: str) -> Remote | None:
        """The identity whose kubeconfig is in that Secret."""
        return self._remotes.get(name)

    def all(self) -> list[Remote]:
        """All identities by name, for inspection."""
        return self._sorted()

    def any_slice(self) -> Remote | None:
        """The identity of some slice."""
        return self._first(control=False)

    async def changed(self) -> None:
        """Wait until an identity comes, goes or changes."""
        await self._news.wait()

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Follow the Secrets until cancelled; closes the clients then."""
        namespace = self._peer.tenant_namespace
        async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
            nursery.start_soon(self._reconnect)
            secrets = await stack.enter_async_context(
                self._peer.context.informers.share(SECRETS, Selection(namespace))
            )
            stack.push_async_callback(self._close)
            stack.callback(secrets.subscribe(self._on_secret, namespace=namespace))
            task_status.started()
            while True:
                changed = self._news.coming
                await self._close_left()
                with trio.move_on_at(next_tick(TIDY_EVERY)):
                    await changed.wait()
                self._tidy()
        raise AssertionError("the loop never ends")

    async def _reconnect(self) -> NoReturn:
        """After an outage a kept connection may lead nowhere: none is used again."""
        link = self._peer.link
        lost = link.reconnections
        while True:
            await link.wait_changed()
            if link.reconnections != lost:
                lost = link.reconnections
                self._renew()

    def _renew(self) -> None:
        """Use no existing connection again."""
        for each in self._remotes.values():
            each.client.reconnect()

    async def _close_left(self) -> None:
        while self._closing:
            await self._closing.pop().aclose()

    def _tidy(self) -> None:
        for each in self._remotes.values():
            each.client.tidy()

    def _first(self, *, control: bool) -> Remote | None:
        return next((each for each in self._sorted() if (not each.slice) == control), None)

    def _sorted(self) -> list[Remote]:
        return [self._remotes[name] for name in sorted(self._remotes)]

    async def _close(self) -> None:
        for client in [*self._closing, *(each.client for each in self._remotes.values())]:
            await client.aclose()

    def _on_secret(self, change: StoreChange) -> None:
        name = change.key[1]
        before = self._remotes.get(name)
        after = None
        if change.new is not None:
            secret = msgspec.json.decode(change.new, type=KubeconfigSecret)
            try:
                after = self._remote(secret, before)
            except (ConfigError, ProtocolError) as error:
                self._peer.report(IdentityChanged(secret=name, failed=str(error)))
        if before is after:
            return
        if before is not None and (after is None or after.client is not before.client):
            self._closing.append(before.client)
        if after is None:
            del self._remotes[name]
        else:
            self._remotes[name] = after
        self._news.notify()

    def _remote(self, secret: KubeconfigSecret, before: Remote | None) -> Remote | None:
        """The remote of the Secret; the very same as before if nothing relevant has changed."""
        meta = secret.metadata
        ours = meta.labels.get(labels.REMOTE_CLUSTER_ID) == self._peer.id
        if not ours or not secret.type or not secret.kubeconfig or meta.deletion_timestamp:
            return None
        # No base folder: the content of a Secret may name neither files nor programs.
        found = kubeconfigs.from_kubeconfig(secret.kubeconfig)
        namespace = meta.annotations.get(labels.REMOTE_TENANT_NAMESPACE) or found.namespace
        if before is not None and (before.credentials, before.namespace, before.slice) == (
            found,
            namespace,
            secret.slice,
        ):
            return before
        same = before is not None and _goes_as(before.credentials, found)
        credentials, dial = self.dial.to(found)
        if before is not None and same:
            client = before.client
            client.renew(credentials)
        else:
            client = Client(
                credentials,
                connections=CONNECTIONS,
                deadline=DEADLINE,
                dial=dial,
                budget=self._budget,
            )
        user, expires = _facts(found)
        return Remote(client, found, namespace, user, expires, meta.name, secret.slice)


def _goes_as(before: Credentials, found: Credentials) -> bool:
    """True if connections with both credentials are made in the same form."""
    same = replaceable(before) == replaceable(found) and (not before.proxy) == (not found.proxy)
    return before.server == found.server and same


def _facts(found: Credentials) -> tuple[str, float]:
    if found.client_cert is None:
        return "", 0.0
    facts = certificates.read(found.client_cert)
    return facts.common_name, facts.not_after
