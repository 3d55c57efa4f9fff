"""The second try of a failed test that is not fast (pytest-rerunfailures): it starts from nothing,
and costs those that pass no wait.
"""

from __future__ import annotations

import socket

import pytest

BESIDE_OTHERS = ("cluster", "node", "netns", "viewer", "long")
"""Marks of tests in which programs of others take part, or beside which those of real clusters take
the processors and the kernel's memory."""


def leave_to_real_tier(items: list[pytest.Item]) -> None:
    """Leave the second try to the tests that are not fast: a fast one that fails has failed."""
    for item in items:
        if not any(item.get_closest_marker(mark) for mark in BESIDE_OTHERS):
            item.add_marker(pytest.mark.flaky(reruns=0))


def ask_at_once(config: pytest.Config) -> None:
    """Have a worker's questions to the first process sent at once.

    For each test a worker tells it something and, before the next one, asks it something, each a
    few bytes over TCP. The kernel holds the question back until what was told is acknowledged
    (Nagle's algorithm), and the other side acknowledges late, as it has nothing to say: 40 ms for
    each test.
    """
    told = getattr(getattr(config, "failures_db", None), "sock", None)
    if told is not None and hasattr(config, "workerinput"):
        told.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def start_from_nothing(item: pytest.Item) -> None:
    """End everything that a failed test shares with others; its second try has new clusters.

    Garbage of the first try, or objects that it has removed, make neither the second one nor a
    later test fail.
    """
    # With no next item nothing is kept, what the whole run shares neither: it is made again by the
    # first test that asks for it.
    item.session._setupstate.teardown_exact(None)
