"""Flows that began before two networks were joined: they go on as those that began afterwards."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from liqod.network.dataplane.kernel import flows
from liqod.network.dataplane.kernel.namespaces import enter
from tests.netns import lab as labs
from tests.netns.lab import Lab, echo
from tests.testbed.errors import Unavailable
from tests.testbed.fixtures import give_up

pytestmark = [pytest.mark.netns, pytest.mark.network]
PORT = 8000


@pytest.fixture
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two clusters that are not joined yet."""
    if lacking := labs.possible():
        give_up(Unavailable(lacking))
    made = Lab(tmp_path_factory.mktemp("cni"), f"flows{os.getpid()}")
    try:
        yield made
    finally:
        made.close()


def test_a_flow_from_before_the_join_goes_on_in_its_own_name(apart: Lab) -> None:
    for cluster in (apart.rome, apart.milan):
        cluster.make()
    ours, theirs = apart.rome.pod("pod", 5), apart.milan.pod("pod", 7)
    with enter(ours.namespace, opened) as sock, enter(ours.namespace, opened) as other:
        # Out as any packet to the world, in the node's name.
        sock.sendto(b"?", ("10.71.0.7", PORT))
        other.sendto(b"?", (labs.LAN_HOST, PORT))
        apart.join_made()
        with echo(theirs.namespace, PORT, "udp"):
            sock.sendto(b"?", ("10.71.0.7", PORT))
            assert sock.recv(100).decode() == "10.71.0.5"
        # What goes elsewhere was left alone, and so is what goes as it is to.
        assert enter(apart.rome.node, lambda: flows.forget(["10.71.0.0/16"])) == 0
        assert enter(apart.rome.node, lambda: flows.forget([f"{labs.LAN_HOST}/32"])) == 1
        # There may be none of a family, or of a kernel's.
        assert enter(apart.rome.node, lambda: flows.forget(["fd00:10:71::/64"])) == 0


def opened() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.settimeout(3)
    return made
