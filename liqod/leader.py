"""The work of a leader: the parts that a reload reaches, and the status line for systemd."""

import dataclasses
from dataclasses import dataclass
from typing import NoReturn

import trio

from liqod.cluster.context import ClusterContext
from liqod.config import Config
from liqod.discovery.discoverymanager import DiscoveryManager
from liqod.handshake.handshakemanager import HandshakeManager
from liqod.model.view.figures import counted
from liqod.peers.peercontroller import PeerController
from liqod.runtime import sdnotify

NOTIFY_EVERY = 10.0


@dataclass(frozen=True)
class LeaderComponents:
    """The parts of a leader that a reload of the configuration reaches."""

    context: ClusterContext
    peers: PeerController
    discovery: DiscoveryManager
    handshake: HandshakeManager

    def reload(self, config: Config) -> list[str]:
        """Hand on another configuration; the peers that start anew."""
        context = dataclasses.replace(self.context, config=config)
        self.discovery.reload(context)
        self.handshake.reload(context)
        return self.peers.reload(context)

    async def notify_systemd(self) -> NoReturn:
        """Keep systemd's status line true."""
        while True:
            failed = len(self.peers.failures)
            sdnotify.notify(f"STATUS=leading; {counted(len(self.peers), 'peer')}, {failed} failing")
            await trio.sleep(NOTIFY_EVERY)
