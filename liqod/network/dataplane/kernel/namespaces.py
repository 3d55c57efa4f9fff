"""Network namespaces: made under a name, found, entered, deleted.

A name is a file in ``/run/netns``, as ``ip netns`` has it, so that a namespace outlives the process
that made it. The mark of its owner is the alias of its loopback device, which is set before it gets
its name: there is no namespace of ours without one. That device's alternative names record which
backends have made a tunnel in it. In a pod names are its container's, and gone with that, and so
are the namespaces.
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import trio

from liqod.errors import NetworkError
from liqod.netlink import Netlink, NetlinkRefused
from liqod.network.dataplane.kernel import kernellinks, mounts
from liqod.network.dataplane.kernel.mounts import call, mount
from liqod.plugins.network import rtnetlink

T = TypeVar("T")

FOLDER = Path("/run/netns")
OWN = Path("/proc/self/ns/net")
AT_ONCE = 16
"""Threads at once: mostly they wait for the kernel's one lock, or for a run of ``nft`` that takes
the tables of many along."""

CLONE_NEWNET = 0x40000000
BACKEND = "liqod-backend-"
"""How the record of a backend begins."""

_limit: trio.CapacityLimiter | None = None


async def inside(name: str | None, work: Callable[[], T]) -> T:
    """Runs `work` in a thread that is in the namespace; the process's own for None.

    Threads and programs that `work` starts are in it, too, and sockets stay in it.

    Raises:
        NetworkError: there is no such namespace, or it may not be entered.
    """
    global _limit
    _limit = _limit or trio.CapacityLimiter(AT_ONCE)
    return await trio.to_thread.run_sync(partial(enter, name, work), limiter=_limit)


def enter(name: str | None, work: Callable[[], T]) -> T:
    """As :func:`inside`, for a thread that may block."""
    return work() if name is None else enter_path(path(name), work)


def enter_path(place: Path, work: Callable[[], T]) -> T:
    """As :func:`enter`, for a namespace by its file."""

    def entering() -> T:
        _enter(place)
        return work()

    return _apart(entering)


def path(name: str | None) -> Path:
    """The file of a namespace; of the process's own for None."""
    return OWN if name is None else FOLDER / name


async def make(name: str, mark: str) -> bool:
    """Makes the namespace, with its loopback device up; returns whether it was not there.

    Raises:
        NetworkError: it cannot be made; the message says why.
    """
    return await inside(None, partial(_make, name, mark))


async def delete(name: str) -> bool:
    """Takes the name away, and with it all that is inside; returns whether it was there.

    Interfaces go a little later, when the kernel gets to it.
    """
    return await inside(None, partial(_delete, name))


def names(prefix: str) -> list[str]:
    """The namespaces that there are, by the beginning of their names."""
    if not FOLDER.is_dir():
        return []
    return sorted(path.name for path in FOLDER.iterdir() if path.name.startswith(prefix))


def exists(name: str) -> bool:
    """True if there is such a namespace, and not just the empty file that a crash left."""
    return _is_namespace(FOLDER / name)


async def mark(name: str) -> str:
    """The mark of its maker; empty for one without."""

    def look() -> str:
        with Netlink() as netlink:
            found = rtnetlink.find_by(netlink, "lo")
            return found.alias if found is not None else ""

    return await inside(name, look)


async def note_backend(name: str, backend: str) -> None:
    """Records that a backend makes a tunnel in the namespace.

    Linux before 5.5 keeps no such record.
    """

    def note() -> None:
        with Netlink() as netlink:
            found = rtnetlink.find_by(netlink, "lo")
            if found is not None and BACKEND + backend not in found.alternative_names:
                with suppress(NetlinkRefused):
                    kernellinks.add_name(netlink, found.index, BACKEND + backend)

    await inside(name, note)


async def backends(name: str) -> frozenset[str] | None:
    """The backends that have made a tunnel in the namespace, if there is one.

    Returns:
        None where there is a namespace without a record.
    """

    def look() -> frozenset[str] | None:
        with Netlink() as netlink:
            found = rtnetlink.find_by(netlink, "lo")
        every = found.alternative_names if found is not None else ()
        noted = (each.removeprefix(BACKEND) for each in every if each.startswith(BACKEND))
        return frozenset(noted) or None

    return await inside(name, look) if exists(name) else frozenset()


def _make(name: str, mark: str) -> bool:
    path = FOLDER / name
    if _is_namespace(path):
        return False
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
        _share(FOLDER)
        path.touch(mode=0o444)
        _apart(partial(_name, path, mark))
    except OSError as error:
        path.unlink(missing_ok=True)
        raise NetworkError(f"cannot make the network namespace {name}: {error}") from error
    return True


def _name(path: Path, mark: str) -> None:
    """Leaves this thread's namespace for a new one and gives that a name."""
    call("unshare", CLONE_NEWNET)
    with Netlink() as netlink:
        kernellinks.set_up(netlink, kernellinks.index(netlink, "lo"), alias=mark)
    # Not /proc/self: that is the process's first thread, which is where it was.
    mount("/proc/thread-self/ns/net", path, mounts.BIND)


def _delete(name: str) -> bool:
    path = FOLDER / name
    there = _is_namespace(path)
    try:
        if there:
            call("umount2", os.fsencode(path), mounts.DETACH)
        path.unlink(missing_ok=True)
    except OSError as error:
        raise NetworkError(f"cannot delete the network namespace {name}: {error}") from error
    return there


def _apart(work: Callable[[], T]) -> T:
    """Runs `work` in a thread that ends with it.

    A thread that has changed its namespace must not go back to Trio's, which would run the next
    caller's work there; and the change back may fail.
    """
    outcome: list[T] = []
    failure: list[BaseException] = []

    def body() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=body, name="liqod-network")
    thread.start()
    thread.join()
    if failure:
        try:
            raise failure[0]
        finally:
            # The error's traceback holds this frame, which would hold the error.
            failure.clear()
    return outcome[0]


def _enter(path: Path) -> None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            call("setns", file, CLONE_NEWNET)
        finally:
            os.close(file)
    except OSError as error:
        raise NetworkError(f"cannot enter the network namespace {path.name}: {error}") from error


def _is_namespace(path: Path) -> bool:
    try:
        return path.stat().st_dev == OWN.stat().st_dev
    except OSError:
        return False


def _share(folder: Path) -> None:
    """Shares mounts in the folder with the other mount namespaces of this machine."""
    try:
        mount("", folder, mounts.SHARED | mounts.RECURSIVE)
    except OSError:
        # Only a mount can be shared, so the folder becomes one.
        mount(os.fspath(folder), folder, mounts.BIND | mounts.RECURSIVE)
        mount("", folder, mounts.SHARED | mounts.RECURSIVE)
