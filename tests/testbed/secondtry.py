"""The second try of a failed test (pytest-rerunfailures): from nothing, and without a wait for each
that passes.
"""

from __future__ import annotations

import socket

import pytest


def ask_at_once(config: pytest.Config) -> None:
    """Have a worker's questions to the first process sent at once.

    For each test a worker tells it something and, before the next one, asks it something, each a
    few bytes over TCP. The kernel holds the question back until what was told is acknowledged
    (Nagle's algorithm), and the other side acknowledges late, as it has nothing to say: 40 ms for
    each test, a third of the time of all fast tests.
    """
    told = getattr(getattr(config, "failures_db", None), "sock", None)
    if told is not None and hasattr(config, "workerinput"):
        told.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def start_from_nothing(item: pytest.Item) -> None:
    """End the clusters that a failed test shares with its file; the second try has new ones.

    What the first try has left there, or taken away, is no reason for the second one to fail. What
    the whole run shares stays: a test keeps to namespaces of its own there.
    """
    # `nextitem` as pytest means it: what that one needs, too, is kept, and that is the run alone.
    item.session._setupstate.teardown_exact(item.session)  # type: ignore[arg-type]
