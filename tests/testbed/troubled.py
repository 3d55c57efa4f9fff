"""One consumer and three providers on real control planes, one provider behind a relay.

The relay listens where the provider says that its API server is, so all that the consumer's daemon
does there passes through it, and the administrator's own access does not.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.testbed import evidence
from tests.testbed.controlplane import ControlPlane, Settings
from tests.testbed.federation import Federation, Member
from tests.testbed.processes import Child
from tests.testbed.relays import Files, Relay, stand

CONSUMER, BAD, GOOD = "rome", "milan", ("turin", "genoa")
NAMES = (CONSUMER, BAD, *GOOD)
NAMESPACE = "shop"
ROOM = {"cpu": "100", "memory": "100Gi", "pods": "200"}


class Troubled(Federation):
    """The four clusters, peered, with one namespace offloaded to all. Owner calls `end`."""

    relay: Relay

    def __init__(self) -> None:
        super().__init__()
        self.planes = [
            ControlPlane(name, Settings(pod_cidr=f"10.{211 + index}.0.0/16"))
            for index, name in enumerate(NAMES)
        ]

    @property
    def rome(self) -> Member:
        """The consumer."""
        return self.members[CONSUMER]

    @property
    def milan(self) -> Member:
        """The provider behind the relay."""
        return self.members[BAD]

    def begin(self) -> None:
        """Starts and peers everything."""
        with ThreadPoolExecutor(len(self.planes)) as pool:
            list(pool.map(self._start, range(len(self.planes))))
            list(pool.map(self._peer, (BAD, *GOOD)))
        self.rome.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self.rome.liqod("offload", "namespace", NAMESPACE, "--pod-offloading-strategy", "Remote")

    def _start(self, index: int) -> None:
        plane = self.planes[index]
        evidence.add(plane.name, plane.logs)
        plane.start()
        settings: dict[str, object] = {
            "cluster": {"pod_cidrs": [plane.settings.pod_cidr]},
            "peer_defaults": {"pod_network": "routed", "pod_cidrs": ["10.0.0.0/8"]},
        }
        if plane.name == BAD:
            self.relay = stand(BAD, plane.server, files(plane), plane.folder)
            settings["api_server"] = {"advertise": self.relay.server}
        self.join(plane, settings, nodes=0 if plane.name == CONSUMER else 1, pods=200)

    def _peer(self, provider: str) -> None:
        self.peer(self.rome, self.members[provider], **ROOM)

    def children(self) -> list[Child]:
        """Every program of the four clusters."""
        found = [child for plane in self.planes for child in plane.children.values()]
        for member in self.members.values():
            found += [member.daemon.child] if member.daemon.child is not None else []
            found += [member.nodes] if member.name != CONSUMER else []
        return [*found, self.relay.child]

    def end(self) -> None:
        """Ends everything at once."""
        self.close()
        if hasattr(self, "relay"):
            self.relay.close()
        for plane in self.planes:
            evidence.remove(plane.name, plane.logs)
            plane.destroy()


def files(plane: ControlPlane) -> Files:
    """Makes what a relay needs to pass for a control plane's API server."""
    authority: Path = plane.authority.pair.certificate
    serving = plane.authority.server("relay", "relay", ["127.0.0.1"])
    admin = plane.authority.client("relay-admin", "relay", ["system:masters"])
    return Files(authority, serving.certificate, serving.key, admin.certificate, admin.key)
