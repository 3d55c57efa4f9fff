"""The three clusters of the end-to-end tests: rome, milan and turin, each with liqod in it.

They are kept for the whole run, because a start costs ten seconds and a test two. So each test has
to leave them as it found them, which is at the same time what is asserted of liqod: unpeering
leaves nothing. A test that fails leaves who knows what, and the next one gets new clusters.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from tests.testbed import evidence, inventory
from tests.testbed.api import wait_until
from tests.testbed.controlplane import ControlPlane, Settings
from tests.testbed.errors import TestbedError
from tests.testbed.federation import Federation, Member
from tests.testbed.inventory import Item

NAMES = ("rome", "milan", "turin")
DAEMONS_SECRETS = ("authentication-keys", "liqod-webhook")
"""What a daemon makes for itself and keeps."""
CLEAN_DEADLINE = 60.0
NAMESPACE_OFFLOADINGS = "/apis/offloading.liqo.io/v1beta1/namespaceoffloadings"
FOREIGN_CLUSTERS = "/apis/core.liqo.io/v1beta1/foreignclusters"
SLICES = "/apis/authentication.liqo.io/v1beta1/resourceslices"


def settings(index: int) -> dict[str, Any]:
    """Daemon settings under which pod addresses are reachable, as in a VPC."""
    return {
        "cluster": {"pod_cidrs": [pod_cidr(index)]},
        "peer_defaults": {"pod_network": "routed"},
    }


def pod_cidr(index: int) -> str:
    """Pod networks that do not overlap."""
    return f"10.{201 + index}.0.0/16"


class Clusters(Federation):
    """A federation that can be brought back to how it was."""

    def __init__(self) -> None:
        super().__init__()
        self.planes: list[ControlPlane] = []
        self.before: dict[str, set[Item]] = {}
        self.kept: set[tuple[str, str]] = set()
        self._namespaces: list[tuple[Member, str]] = []

    @property
    def rome(self) -> Member:
        """The usual consumer."""
        return self.members["rome"]

    @property
    def milan(self) -> Member:
        """The usual provider."""
        return self.members["milan"]

    @property
    def turin(self) -> Member:
        """The second of either."""
        return self.members["turin"]

    def start(self) -> None:
        """Starts the clusters side by side unless they run; `Unavailable` where there are none."""
        if self.planes:
            return
        self.planes = [
            ControlPlane(name, Settings(pod_cidr=pod_cidr(index)))
            for index, name in enumerate(NAMES)
        ]
        try:
            with ThreadPoolExecutor(len(NAMES)) as pool:
                list(pool.map(self._start_one, range(len(NAMES))))
        except BaseException:
            self.destroy()
            raise

    def _start_one(self, index: int) -> None:
        plane = self.planes[index]
        evidence.add(plane.name, plane.logs)
        plane.start()
        member = self.join(plane, settings(index))
        # A leader makes these when its rooms start, which is a moment after it leads.
        for name in DAEMONS_SECRETS:
            path = f"/api/v1/namespaces/liqo/secrets/{name}"
            wait_until(f"{plane.name}: Secret {name}", partial(member.api.exists, path), 30)
        # The namespace controller and others settle a moment after the first pod could be made.
        self.before[plane.name] = member.inventory()

    def destroy(self) -> None:
        """Ends everything and forgets it, so that `start` makes it anew."""
        self.close()
        for plane in self.planes:
            evidence.remove(plane.name, plane.logs)
            plane.destroy()
        self.planes.clear()
        self.before.clear()
        self._namespaces.clear()
        self.kept.clear()

    def namespace(self, member: Member, labels: Mapping[str, str] | None = None) -> str:
        """A new namespace in one cluster that goes with the test."""
        name = f"shop-{secrets.token_hex(3)}"
        metadata = {"name": name, "labels": dict(labels or {})}
        member.create("/api/v1/namespaces", {"metadata": metadata})
        self._namespaces.append((member, name))
        return name

    def keep(self, consumer: str, provider: str) -> None:
        """Peers two members, and leaves them peered for tests that only need them to be."""
        if (consumer, provider) not in self.kept:
            self.peer(self.members[consumer], self.members[provider])
            self.kept.add((consumer, provider))

    def tidy(self) -> None:
        """Takes away the namespaces of a test, and does not wait for it."""
        for member, name in self._namespaces:
            with contextlib.suppress(TestbedError):
                path = f"/apis/offloading.liqo.io/v1beta1/namespaces/{name}/namespaceoffloadings"
                member.api.call("DELETE", f"{path}/offloading")
            with contextlib.suppress(TestbedError):
                member.api.call("DELETE", f"/api/v1/namespaces/{name}")
        self._namespaces.clear()

    def clean(self) -> None:
        """Takes back what the test did, the way a user would.

        Raises `TestbedError` if something is left of it, or was missing.
        """
        with ThreadPoolExecutor(len(NAMES)) as pool:
            list(pool.map(self._unoffload, self.members.values()))
            list(pool.map(self._unpeer, self.members.values()))
        self.kept.clear()
        self.tidy()
        for name, member in self.members.items():
            try:
                inventory.wait_for(member.api, self.before[name], CLEAN_DEADLINE)
            except TestbedError as difference:
                raise TestbedError(f"{name} after unpeering: {difference}") from None

    def _unoffload(self, member: Member) -> None:
        for one in member.api.get(NAMESPACE_OFFLOADINGS)["items"]:
            member.liqod("unoffload", "namespace", one["metadata"]["namespace"], "--yes")

    def _unpeer(self, member: Member) -> None:
        for peer in member.names(FOREIGN_CLUSTERS):
            if member.api.exists(f"{FOREIGN_CLUSTERS}/{peer}"):
                member.liqod("unpeer", peer, "--yes")
            member.liqod("delete", "peering-user", "--consumer-cluster-id", peer, check=False)
