"""Notifications to systemd, by its own protocol: datagrams to a socket."""

import socket

import pytest
import trio

from liqod.runtime import sdnotify


@pytest.fixture
def listener(tmp_path, monkeypatch):
    """The socket of a service manager."""
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(path))
        sock.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(path))
        yield sock


def test_assignments_go_in_one_datagram(listener):
    sdnotify.notify("READY=1", "STATUS=leading")
    assert listener.recv(4096) == b"READY=1\nSTATUS=leading"


def test_a_reload_says_when_it_began(listener):
    sdnotify.reloading()
    first, second = listener.recv(4096).decode().splitlines()
    assert first == "RELOADING=1"
    assert second.startswith("MONOTONIC_USEC=")


def test_nothing_happens_without_a_manager_or_with_one_that_is_gone(monkeypatch, tmp_path):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    sdnotify.notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    sdnotify.notify("READY=1")


async def test_the_watchdog_is_fed_twice_a_period(listener, monkeypatch, autojump_clock):
    monkeypatch.setenv("WATCHDOG_USEC", "2000000")
    with trio.move_on_after(2.5):
        await sdnotify.watchdog()
    assert [listener.recv(4096) for _ in range(3)] == [b"WATCHDOG=1"] * 3
    with pytest.raises(BlockingIOError):
        listener.recv(4096)


async def test_without_a_watchdog_nothing_is_sent(listener, monkeypatch, autojump_clock):
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    with trio.move_on_after(100):
        await sdnotify.watchdog()
    with pytest.raises(BlockingIOError):
        listener.recv(4096)


def test_the_unit_of_a_service_is_known(tmp_path, monkeypatch):
    groups = tmp_path / "cgroup"
    groups.write_text("0::/system.slice/liqod@rome.service\n")
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert sdnotify.unit(groups) == ""
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/systemd/notify")
    assert sdnotify.unit(groups) == "liqod@rome.service"
    groups.write_text("0::/user.slice/session-1.scope\n")
    assert sdnotify.unit(groups) == ""
    groups.unlink()
    assert sdnotify.unit(groups) == ""
