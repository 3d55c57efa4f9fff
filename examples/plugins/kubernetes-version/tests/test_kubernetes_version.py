"""The contract of checks, and what this one finds."""

from typing import ClassVar

import msgspec
from liqod_kubernetes_version.plugin import CHECK, Settings, look

from liqod.plugins.diagnosis import ClusterFacts, PeerFacts
from simulator.suites import CheckContract

LENDS = PeerFacts(now=1.0, peer="milan", cluster=ClusterFacts(now=1.0), lends=True)


class TestKubernetesVersion(CheckContract):
    check = CHECK
    facts = (LENDS,)
    answers: ClassVar[dict[str, bytes]] = {"/version": b'{"major": "1", "minor": "34"}'}


def test_an_old_peer_fails() -> None:
    found = look(msgspec.structs.replace(LENDS, probed="1.29", settings=Settings()))
    assert found is not None
    assert found.verdict == "failing"
