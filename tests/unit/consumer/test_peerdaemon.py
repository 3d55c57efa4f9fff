"""The times in which a peer's daemon was seen to run, in which its words surely came."""

import json

import trio
from trio.testing import MockClock

from liqod.consumer.peerdaemon import PeerDaemon

AT = 1_800_000_000
"""The clock of its API server when the test begins."""


def look(daemon: PeerDaemon, renewed: int) -> None:
    """Read the Lease as it was renewed so many seconds after the start."""
    stamp = f"2027-01-15T08:{renewed // 60:02}:{renewed % 60:02}.000000Z"
    spec = {"holderIdentity": "milan-1", "renewTime": stamp, "leaseDurationSeconds": 12}
    body = json.dumps({"metadata": {"creationTimestamp": stamp}, "spec": spec}).encode()
    daemon.saw(200, body, lambda _: None, AT + trio.current_time())


async def test_they_begin_anew_with_each_silence_and_each_loss_of_its_server(
    autojump_clock: MockClock,
) -> None:
    daemon = PeerDaemon()
    begin, never = trio.current_time(), float("-inf")
    assert daemon.heard[1] == never
    look(daemon, 0)
    assert daemon.heard[0] == float("inf")  # it is not known to move yet
    await trio.sleep(10)
    look(daemon, 9)
    assert daemon.heard == (begin + 10, begin + 9)
    await trio.sleep(30)
    look(daemon, 39)
    assert daemon.heard == (begin + 10, begin + 39)
    await trio.sleep(30)
    look(daemon, 39)
    assert daemon.verdict.state == "silent"
    assert daemon.heard[0] == float("inf")
    await trio.sleep(30)
    look(daemon, 99)
    assert daemon.heard == (begin + 100, begin + 99)
    daemon.lose()
    assert daemon.heard == (float("inf"), never)


async def test_of_one_that_does_not_show_its_lease_they_are_taken_to_come(
    autojump_clock: MockClock,
) -> None:
    daemon = PeerDaemon()
    daemon.saw(404, b"", lambda _: None)
    await trio.sleep(50)
    assert daemon.heard == (float("-inf"), trio.current_time())
    look(daemon, 49)
    await trio.sleep(10)
    look(daemon, 59)
    assert daemon.heard == (60, 59)
    daemon.saw(404, b"", lambda _: None)  # nobody leads for a while
    await trio.sleep(40)
    for _ in range(2):
        look(daemon, int(trio.current_time()) - 1)
        await trio.sleep(10)
    assert daemon.heard == (110, 109)
