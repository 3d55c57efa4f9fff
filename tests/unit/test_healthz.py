"""What probes get of a daemon: readiness as it is, and liveness whoever else is gone."""

import http.client
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio

from liqod.config import HealthSettings
from liqod.healthz import HealthServer
from liqod.install import Options, daemon_manifests
from liqod.kube.http.httpserver import HttpRequest
from liqod.runtime.connectionlimit import ConnectionLimiter


async def ask(health: HealthServer, path: str) -> tuple[int, str]:
    answer = await health.answer(HttpRequest("GET", path, {}, {}))
    assert isinstance(answer.body, bytes)
    return answer.status, answer.body.decode()


async def test_it_lives_whatever_it_waits_for():
    health = HealthServer()
    assert await ask(health, "/healthz") == (200, "starting\n")
    assert await ask(health, "/readyz") == (503, "starting\n")
    health.become("waiting: no API server", ready=False)
    assert await ask(health, "/healthz") == (200, "waiting: no API server\n")
    assert await ask(health, "/readyz") == (503, "waiting: no API server\n")
    health.become("standing by", ready=True)
    assert await ask(health, "/readyz") == (200, "standing by\n")


async def test_a_hindrance_is_told_with_the_state_and_ends_no_daemon():
    health = HealthServer()
    hindrance = "no certificate"
    health.hindrance = lambda: hindrance
    assert await ask(health, "/readyz") == (503, "starting\n")
    health.become("leading", ready=True)
    assert await ask(health, "/readyz") == (503, "leading; no certificate\n")
    assert (await ask(health, "/healthz"))[0] == 200
    hindrance = ""
    assert await ask(health, "/readyz") == (200, "leading\n")


@contextmanager
def serving() -> Iterator[tuple[int, Callable[[float], None]]]:
    """A loop in a thread of its own: the port of its health, and what blocks it for a time."""
    ports: queue.SimpleQueue[int] = queue.SimpleQueue()
    tokens: list[trio.lowlevel.TrioToken] = []
    scope = trio.CancelScope()

    async def main() -> None:
        tokens.append(trio.lowlevel.current_trio_token())
        with scope:
            async with trio.open_nursery() as nursery:
                serve = HealthServer().serve
                port: int = await nursery.start(serve, HealthSettings(port=0), ConnectionLimiter(4))
                ports.put(port)

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    port = ports.get(timeout=10)
    try:
        yield port, lambda seconds: tokens[0].run_sync_soon(time.sleep, seconds)
    finally:
        tokens[0].run_sync_soon(scope.cancel)
        thread.join(20)


def answers(port: int, patience: float) -> bool:
    """True if a probe gets its answer in time."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except TimeoutError:
        return False
    finally:
        connection.close()


def container_of(name: str) -> dict[str, Any]:
    """That of a workload."""
    [made] = [
        each
        for each in daemon_manifests(Options(cluster_id="rome"))
        if each["metadata"]["name"] == name and each["kind"] in ("Deployment", "DaemonSet")
    ]
    [container] = made["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = container
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", ["liqod", "liqod-node"])
def test_only_a_loop_that_stays_blocked_is_begun_anew(name: str):
    """By the liveness of its pod: a loop that is late answers in time."""
    live = container_of(name)["livenessProbe"]
    patience = live["timeoutSeconds"]
    assert live["httpGet"]["path"] == "/healthz"
    with serving() as (port, block):
        assert answers(port, patience)
        block(patience - 2)
        assert answers(port, patience)
        block(patience + 3)
        assert not answers(port, patience)
