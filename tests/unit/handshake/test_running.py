"""Where a daemon says that it is met, if it is met nowhere."""

from types import SimpleNamespace
from typing import Any

import pytest

from liqod.errors import Forbidden, Unreachable
from liqod.handshake.running import AGAIN, Handshake
from liqod.identity import keys
from liqod.model import labels


class Client:
    """An API server that fails some times first."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.patches: list[Any] = []

    async def patch(self, kind: Any, name: str, patch: Any, namespace: str) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.patches.append(patch)


async def test_it_is_taken_back_at_last_and_said_while_it_is_not(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture
):
    client = Client(Unreachable("nobody answers"), Forbidden("no such right"))
    config = SimpleNamespace(handshake=SimpleNamespace(proxy=""))
    home: Any = SimpleNamespace(cluster_id="milan", client=client, namespace="liqo", config=config)
    room = Handshake(home, keys.generate())
    began = autojump_clock.current_time()
    await room._be_unmet()
    assert [each["metadata"]["annotations"] for each in client.patches] == [{labels.MET_AT: None}]
    assert autojump_clock.current_time() - began == pytest.approx(2 * AGAIN)
    said = [each.getMessage() for each in caplog.records]
    assert "nobody answers" in said[0]
    assert "no such right" in said[1]
