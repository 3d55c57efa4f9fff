"""Names are looked up beside each other: one without an answer delays no other."""

import socket
import threading

import pytest
import trio

from liqod.kube.http.resolver import AT_ONCE, HostResolver
from tests.testbed.held import held

FOUND = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 443))]


@pytest.fixture
def zones(monkeypatch):
    """Names without an answer until the event is set, and the names looked up in a thread."""
    answer, asked = threading.Event(), []

    def look(host, port, family=0, type=0, proto=0, flags=0):
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "no number")
        asked.append(host)
        if host.startswith(b"dead"):
            answer.wait(10)
        return FOUND

    monkeypatch.setattr(socket, "getaddrinfo", look)
    yield asked, answer
    answer.set()


async def give_up(host):
    with trio.move_on_after(0.05):
        await trio.socket.getaddrinfo(host, 443)


async def test_a_name_without_an_answer_delays_no_other(zones):
    asked, answer = zones
    resolver = HostResolver()
    trio.socket.set_custom_hostname_resolver(resolver)
    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(give_up, f"dead-{number % 2}.example")
    with trio.fail_after(5):
        assert await trio.socket.getaddrinfo("rome.example", 443) == FOUND
    assert len(asked) == 2 * AT_ONCE + 1
    answer.set()
    with trio.fail_after(5):
        for number in range(2):
            assert await trio.socket.getaddrinfo(f"dead-{number}.example", 443) == FOUND


async def test_nothing_is_kept_of_names_that_were_answered(zones):
    resolver = HostResolver()
    for number in range(10):
        assert await resolver.getaddrinfo(f"peer-{number}.example".encode(), 443) == FOUND
    assert held(resolver, trio.CapacityLimiter) == []
