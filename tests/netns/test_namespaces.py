"""Network namespaces are made, found, entered and deleted, and no thread stays in one."""

from __future__ import annotations

import os
import secrets
from functools import partial
from pathlib import Path

import pytest
import trio

from liqod.errors import NetworkError
from liqod.network.dataplane.kernel import namespaces
from tests.testbed.netns import Networks, inside

pytestmark = [pytest.mark.netns, pytest.mark.network]
MARK = "liqod rome/milan"


def where() -> int:
    """The namespace of this thread."""
    return Path("/proc/thread-self/ns/net").stat().st_ino


async def test_is_made_once_with_its_mark_and_deleted(networks: Networks) -> None:
    name = networks.adopt(f"liqod-{secrets.token_hex(4)}")
    assert await namespaces.make(name, MARK)
    assert not await namespaces.make(name, "liqod turin/milan")
    assert await namespaces.mark(name) == MARK
    assert namespaces.exists(name)
    assert name in namespaces.names("liqod-")
    assert "UP" in inside(name, "ip link show lo")
    assert await namespaces.delete(name)
    assert not await namespaces.delete(name)
    assert name not in namespaces.names("liqod-")


async def test_records_the_backends_that_have_made_a_tunnel_in_it(networks: Networks) -> None:
    name = networks.adopt(f"liqod-{secrets.token_hex(4)}")
    assert await namespaces.backends(name) == frozenset(), "none can, where it is not there"
    assert await namespaces.make(name, MARK)
    assert await namespaces.backends(name) is None, "somebody else's record is not known"
    for backend in ("wireguard", "rope", "wireguard"):
        await namespaces.note_backend(name, backend)
    assert await namespaces.backends(name) == frozenset({"wireguard", "rope"})
    assert await namespaces.mark(name) == MARK
    # One that the kernel does not take is not recorded: no tunnel waits for that.
    await namespaces.note_backend(name, "a" * 200)
    assert await namespaces.backends(name) == frozenset({"wireguard", "rope"})
    assert await namespaces.delete(name)
    assert await namespaces.backends(name) == frozenset()


async def test_a_file_that_a_crash_left_becomes_a_namespace(networks: Networks) -> None:
    name = networks.adopt(f"liqod-{secrets.token_hex(4)}")
    (namespaces.FOLDER / name).touch()
    assert not namespaces.exists(name)
    with pytest.raises(NetworkError, match=f"cannot enter the network namespace {name}"):
        await namespaces.inside(name, where)
    assert await namespaces.make(name, MARK)
    assert await namespaces.mark(name) == MARK


async def test_no_thread_comes_back_from_another_namespace(networks: Networks) -> None:
    names = [networks.make(f"n{number}") for number in range(4)]
    own = where()
    seen: dict[str | None, set[int]] = {name: set() for name in [None, *names]}

    async def look(name: str | None) -> None:
        seen[name].add(await namespaces.inside(name, where))
        # Trio's threads, which others' work is done in.
        assert await trio.to_thread.run_sync(where) == own

    async with trio.open_nursery() as nursery:
        for _ in range(25):
            for name in seen:
                nursery.start_soon(look, name)
    assert seen.pop(None) == {own}
    assert all(len(found) == 1 for found in seen.values())
    assert len(set.union(*seen.values())) == len(names)
    assert where() == own


async def test_what_fails_inside_is_raised_outside(networks: Networks) -> None:
    name = networks.make("one")
    with pytest.raises(ZeroDivisionError):
        await namespaces.inside(name, lambda: 1 // 0)
    with pytest.raises(NetworkError, match="cannot enter the network namespace nowhere"):
        await namespaces.inside("nowhere", where)


async def test_without_the_right_it_says_so(networks: Networks) -> None:
    name = networks.make("one")

    def unprivileged() -> None:
        with pytest.raises(NetworkError, match=r"cannot enter.*Operation not permitted"):
            namespaces.enter(name, where)

    # In a process of its own: rights that were given away do not come back.
    child = os.fork()
    if child == 0:
        try:
            os.setresuid(65534, 65534, 65534)
            unprivileged()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = await trio.to_thread.run_sync(partial(os.waitpid, child, 0))
    assert status == 0
