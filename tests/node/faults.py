"""Parts of a gateway in a cluster are killed, stopped and frozen, while packets go through it."""

from __future__ import annotations

import time

import pytest

from tests.node.echoes import answers, have_echoes, pinging, seen_by
from tests.node.replicas import EACH_NODES, restarts
from tests.testbed.api import wait_until
from tests.testbed.podded import Podded

RUN, OF_NODE, OF_TUNNELS = ALL = "liqod run", "liqod node", "liqod.tunnel"
ALL_BACK = 75.0
"""Seconds: a daemon leads within 15, and a kubelet pauses before it begins what has ended often."""
FROZEN = 4.0
"""Seconds for which a part is stopped that is not replaced."""
FAULTS = [
    pytest.param(signal, parts, most, id=f"{signal} {', '.join(parts)}")
    for signal, parts, most in (
        ("KILL", (OF_TUNNELS,), 0.0),
        ("TERM", (OF_TUNNELS,), 0.0),
        ("STOP", (OF_TUNNELS,), 0.0),
        ("STOP", (OF_NODE,), 0.0),
        ("STOP", (OF_NODE, OF_TUNNELS), 0.0),
        ("STOP", (RUN, OF_NODE), 0.0),
        ("KILL", (RUN, OF_TUNNELS), 0.0),
        ("KILL", ALL, ALL_BACK),
    )
]
"""Signals, parts, and the seconds at the most in which WireGuard's packets are lost."""


def fail(clusters: Podded, own: str, peer: str, signal: str, parts: tuple[str, ...]) -> float:
    """Sends parts of a cluster's gateway a signal, and waits until all of them are back.

    Returns:
        The seconds in which packets to the peer were lost.
    """
    one, other = clusters.members[own], clusters.members[peer]
    have_echoes(one, other)
    alias, before = seen_by(one, peer, other), _process(clusters, own, OF_TUNNELS)
    with pinging(one, alias) as pinged:
        ids = [_process(clusters, own, each) for each in parts]
        for each in ids:
            clusters.inside(own, "kill", f"-{signal}", each)
        if signal == "STOP":
            time.sleep(FROZEN)
            for part, each in zip(parts, ids, strict=True):
                if part != OF_TUNNELS:  # which is replaced
                    clusters.inside(own, "kill", "-CONT", each)
        for part in ALL:
            wait_until(part, lambda part=part: _process(clusters, own, part), 90)
        if OF_TUNNELS in parts:
            gone = ("", before)
            wait_until("another", lambda: _process(clusters, own, OF_TUNNELS) not in gone, 30)
        wait_until("an answer", lambda: answers(one, alias), 90)
    one.plane.kubectl("rollout", "status", "deployment/liqod", "--namespace", "liqo")
    return pinged.lost / 10


def _process(clusters: Podded, name: str, part: str) -> str:
    """Id of a part's process on a cluster's node; empty where it does not run."""
    looked = f"pgrep -f '[{part[0]}]{part[1:]}' || true"
    found = clusters.inside(name, "sh", "-c", looked).split()
    return found[0] if found else ""


def killed(clusters: Podded) -> None:
    """Kill `liqod node` of rome's gateway, which its kubelet begins anew."""
    rome = clusters.members["rome"]
    [before] = restarts(rome, EACH_NODES).values()
    [process] = clusters.inside("rome", "pgrep", "-f", "liqod node").split()
    clusters.inside("rome", "kill", "-KILL", process)
    wait_until("another", lambda: [*restarts(rome, EACH_NODES).values()] == [before + 1], 30)


def replaced(clusters: Podded) -> None:
    """Replace it as an upgrade does."""
    kubectl = clusters.members["rome"].plane.kubectl
    kubectl("rollout", "restart", "daemonset/liqod-node", "--namespace", "liqo-nodes")
    kubectl("rollout", "status", "daemonset/liqod-node", "--namespace", "liqo-nodes")
