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
from tests.testbed.federation import COMMAND_DEADLINE, Federation, Member
from tests.testbed.inventory import Item

NAMES = ("rome", "milan", "turin")
DAEMONS_OWN = (
    "/api/v1/namespaces/liqo/secrets/authentication-keys",
    "/api/v1/namespaces/liqo/secrets/liqod-webhook",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/liqod-webhook",
)
"""Objects that a daemon makes for itself and keeps."""
ROOM = 250
"""Pods that each cluster's node has room for."""
CLEAN_DEADLINE = 150.0
"""Seconds: a kind whose definition was away is doubted for 75 s, and namespaces go after that."""
NAMESPACE_OFFLOADINGS = "/apis/offloading.liqo.io/v1beta1/namespaceoffloadings"
FOREIGN_CLUSTERS = "/apis/core.liqo.io/v1beta1/foreignclusters"
SLICES = "/apis/authentication.liqo.io/v1beta1/resourceslices"


CLASSES = {"mapped": "theirs", "milan/mapped": "milans"}
"""Classes of Ingresses at peers, by the class here."""


def settings(index: int) -> dict[str, Any]:
    """Daemon settings under which pod addresses are reachable, as in a VPC."""
    return {
        "cluster": {"pod_cidrs": [pod_cidr(index)]},
        "peer_defaults": {"pod_network": "routed", "pod_cidrs": ["10.0.0.0/8"]},
        "plugins": {"settings": {"ingresses": {"classes": CLASSES}}},
        "guests": {
            "ingress_hosts": ["*.{peer}.example"],
            "disruption_budgets": NAMES[index] != "turin",
        },
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
        member = self.join(plane, settings(index), pods=ROOM)
        # A leader makes these when its components start, which is a moment after it leads.
        for path in DAEMONS_OWN:
            wait_until(f"{path} at {plane.name}", partial(member.api.exists, path), 60)
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

    def namespace(
        self, member: Member, labels: Mapping[str, str] | None = None, name: str = ""
    ) -> str:
        """A new namespace in one cluster that goes with the test."""
        name = name or f"shop-{secrets.token_hex(3)}"
        metadata = {"name": name, "labels": dict(labels or {})}
        member.create("/api/v1/namespaces", {"metadata": metadata})
        self._namespaces.append((member, name))
        return name

    def keep(self, *pairs: tuple[str, str]) -> None:
        """Peers these consumers and providers, and no others, and leaves them peered.

        For tests that only need them to be: the next that needs the same finds it there.
        """
        if self.kept - set(pairs):
            self.clean()
        missing = [pair for pair in pairs if pair not in self.kept]
        with ThreadPoolExecutor(len(pairs)) as pool:
            list(pool.map(self._peer, missing))
        self.kept.update(missing)

    def _peer(self, pair: tuple[str, str]) -> None:
        consumer, provider = pair
        self.peer(self.members[consumer], self.members[provider])

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
        self.tidy()
        with ThreadPoolExecutor(len(NAMES)) as pool:
            list(pool.map(self._unoffload, self.members.values()))
            list(pool.map(self._end, self._peerings()))
            self.kept.clear()
            list(pool.map(self._is_as_before, self.members))

    def _unoffload(self, member: Member) -> None:
        for one in member.api.get(NAMESPACE_OFFLOADINGS)["items"]:
            if "deletionTimestamp" not in one["metadata"]:
                member.liqod("unoffload", "namespace", one["metadata"]["namespace"], "--yes")

    def _peerings(self) -> list[tuple[Member, Member]]:
        """All pairs of peers, a consumer first."""
        found: dict[frozenset[str], tuple[Member, Member]] = {}
        for member in self.members.values():
            for one in member.api.get(FOREIGN_CLUSTERS)["items"]:
                peer = self.members[one["metadata"]["name"]]
                borrows = "Provider" in one.get("status", {}).get("role", "")
                pair = (member, peer) if borrows else (peer, member)
                found.setdefault(frozenset((member.name, peer.name)), pair)
        return list(found.values())

    def _end(self, pair: tuple[Member, Member]) -> None:
        """Ends a peering from both sides.

        A namespace takes five seconds to go, so the provider begins when the consumer has cleared
        what it had there. Before that it would take away the right to do so.
        """
        consumer, provider = pair
        here = f"/api/v1/namespaces/liqo-tenant-{provider.name}"

        def cleared() -> bool:
            status, answer = consumer.api.raw("GET", here)
            return leaving.done() or status == 404 or b'"deletionTimestamp"' in answer

        with ThreadPoolExecutor(1) as pool:
            leaving = pool.submit(self._unpeer, consumer, provider.name)
            wait_until(f"{consumer.name} to leave {provider.name}", cleared, COMMAND_DEADLINE)
            self._unpeer(provider, consumer.name)
            leaving.result()

    def _unpeer(self, member: Member, peer: str) -> None:
        if member.api.exists(f"{FOREIGN_CLUSTERS}/{peer}"):
            member.liqod("unpeer", peer, "--yes")
        member.liqod("delete", "peering-user", "--consumer-cluster-id", peer, "--yes")

    def _is_as_before(self, name: str) -> None:
        try:
            inventory.wait_for(self.members[name].api, self.before[name], CLEAN_DEADLINE)
        except TestbedError as difference:
            raise TestbedError(f"{name} after unpeering: {difference}") from None
