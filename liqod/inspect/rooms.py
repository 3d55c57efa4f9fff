"""The rooms that can be looked into: each is here while it works.

Nothing is decided by what stands here; rooms that need each other are given each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from liqod.consumer.borrowing import Borrowing
    from liqod.consumer.nodes.serving import Serving
    from liqod.consumer.webhook.controller import WebhookController
    from liqod.discovery.room import Discovery
    from liqod.handshake.running import Handshake
    from liqod.peer import Peer


class Rooms:
    """What works in one daemon now.

    Attributes:
        peers: those whose task runs, by id.
        discovery: while this daemon leads.
        handshake: while this daemon leads.
        listening: TCP port at which other daemons' hand-shakes are taken; 0 while none is.
        unheard: why none is, where one is to be; empty otherwise.
        webhook: the same, where the webhook is enabled.
        serving: what virtual nodes show, while they are served.
        by_former_key: the peers that know this cluster by its former key alone.
    """

    def __init__(self) -> None:
        self.peers: dict[str, Peer] = {}
        self.discovery: Discovery | None = None
        self.handshake: Handshake | None = None
        self.listening = 0
        self.unheard = ""
        self.webhook: WebhookController | None = None
        self.serving: Serving | None = None
        self.by_former_key: frozenset[str] = frozenset()

    def borrowing(self) -> dict[str, Borrowing]:
        """What is borrowed with, by peer."""
        return {
            name: peer.borrowing for name, peer in self.peers.items() if peer.borrowing is not None
        }

    @contextmanager
    def peer(self, peer: Peer) -> Iterator[None]:
        """Show a peer for as long as the block lasts."""
        self.peers[peer.id] = peer
        try:
            yield
        finally:
            if self.peers.get(peer.id) is peer:  # else the next one is here already
                del self.peers[peer.id]
