"""Observes a cluster's second node, and its pods' connections to a peer."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tests.testbed.federation import Member
from tests.testbed.joined import Joined

GROUP = "/apis/networking.liqo.io/v1beta1"
INTERNAL = f"{GROUP}/internalnodes"
FABRIC = f"{GROUP}/namespaces/liqo/internalfabrics/gateway"
PING_EVERY = 0.05
"""Seconds between two echo requests of a flow."""


def says(member: Member, node: str, condition: str) -> bool:
    """True if the InternalNode of a node has a condition with the status True."""
    path = f"{INTERNAL}/{node}"
    if not member.api.exists(path):
        return False
    told = member.api.get(path).get("status", {}).get("conditions", [])
    return any((each["type"], each["status"]) == (condition, "True") for each in told)


def aliased(clusters: Joined, here: str, there: str, pods: Mapping[str, str]) -> str:
    """The address under which a cluster sees the pod of a node of another one."""
    peer = there.removesuffix("-2")
    path = f"{GROUP}/namespaces/liqo-tenant-{peer}/configurations/{peer}"
    seen = clusters.members[here].api.get(path)["status"]["remote"]["cidr"]
    return ".".join([*seen["pod"][0].split(".")[:2], *pods[there].split(".")[2:]])


class Flow:
    """Echo requests from a pod to an address, all the while.

    Args:
        member: the pod's cluster.
        pod: its name, in the namespace `default`.
        target: the address.
    """

    def __init__(self, member: Member, pod: str, target: str) -> None:
        self._member, self._pod, self._target = member, pod, target
        self._file = f"/tmp/flow-{target}"

    def _say(self, script: str) -> str:
        return self._member.plane.kubectl("exec", self._pod, "--", "sh", "-c", script)

    def start(self) -> None:
        """Begins."""
        ping = f"busybox ping -i {PING_EVERY} -W 2 {self._target}"
        self._say(f"{ping} > {self._file} 2>&1 & echo $! > {self._file}.pid")

    def end(self) -> Gone:
        """Ends it, and returns what was lost."""
        script = f"kill -INT $(cat {self._file}.pid); busybox sleep 0.3; cat {self._file}"
        said = self._say(script)
        [sent] = re.findall(r"(\d+) packets transmitted", said)
        # The last one may have been on its way.
        return gone(int(sent) - 1, {int(each) for each in re.findall(r"seq=(\d+)", said)})


class Gone:
    """The echo requests of a flow that were not answered.

    Attributes:
        sent: number of echo requests.
        lost: how many of them.
        gap: the longest time without an answer, in seconds.
    """

    def __init__(self, sent: int, lost: int, gap: float) -> None:
        self.sent, self.lost, self.gap = sent, lost, gap

    def __repr__(self) -> str:
        return f"{self.lost} of {self.sent} lost, {self.gap * 1000:.0f} ms at a stretch"


def gone(sent: int, heard: set[int]) -> Gone:
    """Counts the numbers missing among the first `sent`, and the longest gap."""
    missing = sorted(set(range(sent)) - heard)
    longest = run = 0
    for number, before in zip(missing, (-2, *missing), strict=False):
        run = run + 1 if number == before + 1 else 1
        longest = max(longest, run)
    return Gone(sent, len(missing), longest * PING_EVERY)
