"""Pods that answer, one in each of two joined clusters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from tests.testbed.api import wait_until
from tests.testbed.federation import Member
from tests.testbed.node import node_pod


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


@contextmanager
def pinging(member: Member, address: str, count: int) -> Iterator[list[int]]:
    """Ten echo requests a second from a cluster's pod; how many were answered comes at the end."""
    ping = ("busybox", "ping", "-i", "0.1", "-c", str(count), "-W", "2", address)
    found: list[int] = []
    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(member.plane.kubectl, "exec", "echo", "--", *ping, check=False)
        yield found
    counted = re.search(r"(\d+) packets received", said.result())
    assert counted, said.result()
    found.append(int(counted[1]))
