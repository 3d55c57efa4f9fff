"""Parts of a gateway in a cluster are killed, stopped and frozen, while packets go through it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import permutations

import pytest

from tests.node.echoes import answers, have_echoes, pinging, seen_by
from tests.node.replicas import EACH_NODES, restarts
from tests.testbed.api import BUSY, wait_until
from tests.testbed.federation import Member
from tests.testbed.podded import Podded

RUN, OF_NODE, OF_TUNNELS = ALL = "liqod run", "liqod node", "liqod.tunnel"
DAEMON, NODES = ("liqo", "deployment/liqod"), ("liqo-nodes", "daemonset/liqod-node")
"""Namespaces and names of the workloads whose pods run these."""
APART = 0.3
"""Seconds between signals to two parts."""
FROZEN = 4.0
"""Seconds for which parts are stopped that are not replaced."""
FAULTS = [
    pytest.param(signal, parts, id=f"{signal} {', '.join(parts)}")
    for signal, parts in (
        ("KILL", (OF_TUNNELS,)),
        ("TERM", (OF_TUNNELS,)),
        ("STOP", (OF_TUNNELS,)),
        ("STOP", (OF_NODE,)),
        ("STOP", (OF_NODE, OF_TUNNELS)),
        ("KILL", (RUN, OF_TUNNELS)),
    )
]
"""Signals, and the parts that get them, of which WireGuard loses nothing."""
ORDERS = [pytest.param(order, id=", ".join(order)) for order in permutations(ALL)]
"""All three parts in each order."""
MOST = {"STOP": 0.0, "TERM": BUSY * 20.0, "KILL": BUSY * 25.0}
"""Signals, as the parts get them one after the other, and the seconds in which WireGuard's packets
are lost at the most when all three get that one: its programs run in the pod of `liqod node`, and
end with it. A daemon that was killed leads when its Lease has run out, in 15 s. That is last, for a
kubelet begins what ends a second time in a pod only after a pause of 10 s."""
IN_A_WEBSOCKET = {RUN: 0.0, OF_TUNNELS: BUSY * 5.0, OF_NODE: BUSY * 10.0}
"""Seconds in which a websocket's packets are lost at the most when that part is killed."""


def fail(
    clusters: Podded,
    own: str,
    peer: str,
    signal: str,
    parts: tuple[str, ...],
    *,
    thawed: bool = False,
) -> float:
    """Sends parts of a cluster's gateway a signal, and waits until all of them are back.

    Args:
        clusters: both.
        own: the one whose gateway it is.
        peer: the one to which packets go.
        signal: its name, without ``SIG``.
        parts: in the order in which they get it.
        thawed: continues the tunnels' process, too, which `liqod node` replaces otherwise.

    Returns:
        The seconds in which packets to the peer were lost.
    """
    one, other = clusters.members[own], clusters.members[peer]
    have_echoes(one, other)
    alias = seen_by(one, peer, other)
    _work(clusters, own, alias, {})
    before = {part: _process(clusters, own, part) for part in parts}
    with pinging(one, alias) as pinged:
        _send(clusters, own, signal, before.values())
        replaced = set(parts)
        if signal == "STOP":
            time.sleep(FROZEN)
            replaced = set() if thawed else {OF_TUNNELS}.intersection(parts)
            _send(clusters, own, "CONT", (before[each] for each in parts if each not in replaced))
        _work(clusters, own, alias, {part: before[part] for part in replaced})
    one.plane.kubectl("rollout", "status", "deployment/liqod", "--namespace", "liqo")
    print(
        f"{signal} {', '.join(parts)}: {pinged.sent} sent, {pinged.lost} lost: {pinged.missed[:9]}"
    )
    return pinged.lost / 10


def fail_in_order(
    clusters: Podded, own: str, peer: str, order: tuple[str, ...]
) -> dict[str, float]:
    """Sends all parts of a cluster's gateway each signal of `MOST`; all are back in between.

    Returns:
        The seconds in which packets to the peer were lost, by signal.
    """
    # A kubelet pauses ever longer before it begins what has ended, and not at all in a new pod.
    replace(clusters.members[own], NODES, DAEMON)
    return {
        signal: fail(clusters, own, peer, signal, order, thawed=signal == "STOP") for signal in MOST
    }


@contextmanager
def joined_by_websocket(clusters: Podded) -> Iterator[None]:
    """In place of WireGuard, by Liqo's command, which then takes that away."""
    remote = clusters.remote("milan")
    leave = ("network", "disconnect", *remote, "--wait", "--skip-confirm")
    clusters.liqoctl("rome", *leave)
    templates = [f"--gw-{each}-template-name=websocket-{each}" for each in ("server", "client")]
    port = ("--gw-server-service-port", "443")
    clusters.liqoctl("rome", "network", "connect", *remote, *templates, *port, "--wait")
    try:
        yield
    finally:
        clusters.liqoctl("rome", *leave)
        clusters.liqoctl("rome", "network", "connect", *remote, "--wait")


def _work(clusters: Podded, name: str, alias: str, gone: Mapping[str, str]) -> None:
    """Waits until all parts of a cluster's gateway run, and an address of its peer answers.

    Args:
        clusters: both.
        name: the cluster.
        alias: the address.
        gone: processes of parts that count no more.
    """
    for part in ALL:
        before = ("", gone.get(part))
        wait_until(
            part, lambda part=part, before=before: _process(clusters, name, part) not in before, 90
        )
    wait_until("an answer", lambda: answers(clusters.members[name], alias), 90)


def _send(clusters: Podded, name: str, signal: str, ids: Iterable[str]) -> None:
    """Sends processes of a cluster's node a signal, one after the other.

    The tunnels' one may have ended with `liqod node`.
    """
    pause = f"; sleep {APART}; "
    clusters.inside(name, "sh", "-c", pause.join(f"kill -{signal} {each} || true" for each in ids))


def _process(clusters: Podded, name: str, part: str) -> str:
    """Id of a part's process on a cluster's node; empty where it does not run."""
    # The newest: one that is replaced may still be about to end.
    looked = f"pgrep -n -f '[{part[0]}]{part[1:]}' || true"
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
    replace(clusters.members["rome"], NODES)


def replace(member: Member, *workloads: tuple[str, str]) -> None:
    """Replaces the pods of workloads, as an upgrade does."""
    for verb in ("restart", "status"):
        for namespace, name in workloads:
            member.plane.kubectl("rollout", verb, name, "--namespace", namespace)
