"""The two joined clusters in namespaces that several files have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.netns import lab as labs
from tests.netns.lab import Lab
from tests.testbed.errors import Unavailable
from tests.testbed.fixtures import give_up


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two clusters with their gateways, for the tests of one file."""
    lacking = labs.possible()
    if lacking:
        give_up(Unavailable(lacking))
    with labs.lab(tmp_path_factory.mktemp("cni")) as made:
        yield made
