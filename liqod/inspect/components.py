"""The components that can be looked into, as the daemon shows them while they work.

Nothing is decided by the entries here; components that need each other are given each other.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from liqod.borrowing import Borrowing
from liqod.cluster.guestpolicies import GuestPolicies
from liqod.consumer.identities.formerkey import FormerKey
from liqod.consumer.link import ProviderPeer
from liqod.consumer.nodes.podproxy import PodProxies
from liqod.consumer.nodes.servingcertificate import ServingCertificate
from liqod.consumer.webhook.podwebhook import PodWebhook
from liqod.consumer.webhook.webhookcontroller import WebhookController
from liqod.discovery.discoverymanager import DiscoveryManager
from liqod.handshake.handshakemanager import HandshakeManager


class Components:
    """The components that work in one daemon now.

    Attributes:
        peers: those whose task runs, by id.
        guest_policies: state of the policies that restrict consumers, as far as it is checked.
        pod_proxies: to the pods at peers.
        discovery: while this daemon leads.
        handshake: while this daemon leads.
        former_key: while this daemon leads.
        admission: where the webhook is enabled.
        serving: what virtual nodes show, while they are served.
    """

    def __init__(self) -> None:
        self.peers: dict[str, ProviderPeer] = {}
        self.guest_policies = GuestPolicies()
        self.pod_proxies = PodProxies()
        self.discovery: DiscoveryManager | None = None
        self.handshake: HandshakeManager | None = None
        self.former_key: FormerKey | None = None
        self.admission: PodWebhook | None = None
        self.serving: ServingCertificate | None = None
        self._borrowing: dict[str, Borrowing] = {}

    @property
    def listening(self) -> int:
        """TCP port at which other daemons' handshakes are taken; 0 while none is."""
        return 0 if self.handshake is None else self.handshake.port

    @property
    def unheard(self) -> str:
        """Why none are taken, where they are to be; empty otherwise."""
        return "" if self.handshake is None else self.handshake.problem

    @property
    def webhook(self) -> WebhookController | None:
        """The controller of the webhook, while this daemon leads."""
        return None if self.admission is None else self.admission.controller

    @property
    def by_former_key(self) -> frozenset[str]:
        """The peers that know this cluster by its former key alone."""
        return frozenset() if self.former_key is None else self.former_key.providers

    def borrowing(self) -> dict[str, Borrowing]:
        """The components that borrow, by peer."""
        return dict(self._borrowing)

    def stand_by(self) -> None:
        """Show nothing any more of what a leader alone has."""
        self.discovery = self.handshake = self.former_key = None

    @contextmanager
    def peer(self, peer: ProviderPeer) -> Iterator[None]:
        """Show a peer for as long as the block lasts."""
        self.peers[peer.id] = peer
        try:
            yield
        finally:
            if self.peers.get(peer.id) is peer:  # else the next one is here already
                del self.peers[peer.id]

    @contextmanager
    def borrows(self, peer: str, borrowing: Borrowing) -> Iterator[None]:
        """Show what is borrowed with from one peer for as long as the block lasts."""
        self._borrowing[peer] = borrowing
        try:
            yield
        finally:
            if self._borrowing.get(peer) is borrowing:
                del self._borrowing[peer]
