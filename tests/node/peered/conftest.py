"""The clusters of all files of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.node.peered.second import says
from tests.node.shop import Shop
from tests.testbed.agent import Agent
from tests.testbed.api import wait_until
from tests.testbed.errors import Unavailable
from tests.testbed.fixtures import give_up
from tests.testbed.joined import SETTINGS, Joined
from tests.testbed.node import node_pod
from tests.testbed.worker import Worker
from tests.testbed.workloads import core


@pytest.fixture(scope="package")
def clusters() -> Iterator[Joined]:
    """rome and milan, both with the same ranges of both families, peered and joined."""
    try:
        more = {"network": {"in_band": ["rome"]}, "services": {"enabled": True}}
        made = Joined("rome", "milan", settings={**SETTINGS, **more})
    except Unavailable as reason:
        give_up(reason)
    made.start()
    try:
        for member in made.members.values():
            member.liqod("install", "--services")
        made.before = {name: member.inventory() for name, member in made.members.items()}
        made.peer(made.members["rome"], made.members["milan"])
        yield made
    finally:
        made.destroy()


@pytest.fixture(scope="package")
def shop(clusters: Joined) -> Shop:
    """An offloaded namespace with pods on each side, and Services over both."""
    made = Shop(clusters)
    made.open()
    return made


@pytest.fixture(scope="package")
def worker(clusters: Joined) -> Worker:
    """rome's second node, which comes when the networks are joined already."""
    return clusters.add_worker("rome")


@pytest.fixture(scope="package")
def agent(clusters: Joined, worker: Worker) -> Agent:
    """`liqod node` on it."""
    made = clusters.add_agent("rome", worker)
    rome = clusters.members["rome"]
    wait_until("applied", lambda: says(rome, worker.name, "Applied"), 30)
    return made


@pytest.fixture(scope="package")
def pods(clusters: Joined, agent: Agent) -> dict[str, str]:
    """A pod on each of rome's nodes and one at milan: the addresses in their own clusters."""
    found = {}
    for node in ("rome", "rome-2", "milan"):
        member = clusters.members[node.removesuffix("-2")]
        made = node_pod(f"echo-{node}")
        made["spec"]["nodeName"] = node
        member.create(core("default", "pods"), made)
    for node in ("rome", "rome-2", "milan"):
        member = clusters.members[node.removesuffix("-2")]
        name = f"echo-{node}"
        wait_until(name, lambda m=member, n=name: n in m.ready_pods("default"), 60)
        found[node] = str(member.pods("default")[name]["status"]["podIP"])
    return found
