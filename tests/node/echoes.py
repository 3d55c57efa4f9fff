"""Pods that answer, one in each of two joined clusters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from tests.testbed.api import wait_until
from tests.testbed.federation import Member
from tests.testbed.node import node_pod

PINGING = "/tmp/pinging"
"""Where the process that pings writes its number."""
AFTER = 2
"""Seconds for which it goes on after what it is to outlive."""
LATEST = 10
"""Requests, those of the last second of these, whose answers a busy machine may not have read."""
LONGEST = 300.0
"""Seconds that one may ping."""


def have_echoes(*members: Member) -> None:
    """A local pod in each cluster, which another test of this file may have made."""
    for member in members:
        if "echo" not in member.pods("default"):
            member.create("/api/v1/namespaces/default/pods", node_pod("echo"))
    for member in members:
        wait_until("a pod", lambda member=member: "echo" in member.ready_pods("default"), 30)


def answers(member: Member, address: str) -> bool:
    """True if an address answers the pod of a cluster."""
    ping = ("exec", "echo", "--", "busybox", "ping", "-c", "1", "-W", "1", address)
    return " 0% packet loss" in member.plane.kubectl(*ping, check=False)


def alias(member: Member, peer: str, real: str) -> str:
    """The address under which a cluster sees a pod of a peer."""
    shown = member.liqod("network", "status", peer, "-o", "json").stdout
    seen = json.loads(shown)[0]["aliases"][0]
    return ".".join([*seen.split(".")[:2], *real.split(".")[2:]])


def seen_by(member: Member, peer: str, other: Member) -> str:
    """The address under which a cluster sees the echo of a peer."""
    return alias(member, peer, str(other.pods("default")["echo"]["status"]["podIP"]))


@dataclass
class Pinged:
    """Echo requests that were sent, and the numbers of those that were answered."""

    sent: int = 0
    answered: frozenset[int] = frozenset()

    @property
    def missed(self) -> list[int]:
        """Those without an answer; the last ones may not have had the time."""
        return sorted(set(range(self.sent - LATEST)) - self.answered)

    @property
    def lost(self) -> int:
        """The number of those without an answer."""
        return len(self.missed)


@contextmanager
def pinging(member: Member, address: str) -> Iterator[Pinged]:
    """Ten echo requests a second from a cluster's pod, until a moment after the end."""
    begun = f"echo $$ > {PINGING}; exec busybox ping -i 0.1 -W 2 {address}"
    end = f"busybox sleep {AFTER}; kill -INT $(cat {PINGING}); rm {PINGING}"
    found = Pinged()
    ping = ("exec", "echo", "--", "sh", "-c")
    member.plane.kubectl(*ping, f"rm -f {PINGING}")
    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(member.plane.kubectl, *ping, begun, check=False, within=LONGEST)
        wait_until("a ping", lambda: _is_begun(member), 10)
        try:
            yield found
        finally:
            member.plane.kubectl(*ping, end)
    counted = re.search(r"(\d+) packets transmitted", said.result())
    assert counted, said.result()
    found.sent = int(counted[1])
    found.answered = frozenset(map(int, re.findall(r" seq=(\d+) ", said.result())))


def _is_begun(member: Member) -> bool:
    """True once a pod has begun to ping."""
    return bool(member.plane.kubectl("exec", "echo", "--", "cat", PINGING, check=False).strip())
