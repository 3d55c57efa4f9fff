"""The program of the tunnels with an attacker in it: it starts as ever, and then tries things.

``python -I takenover.py REPOSITORY SOCKET``. Each answer about a tunnel carries the outcome of each
attempt, ``done`` or the name of the error.
"""

import ctypes
import errno
import fcntl
import json
import os
import platform
import resource
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import trio

LIBC = ctypes.CDLL(None, use_errno=True)
NEW_USER, NEW_NET = 0x10000000, 0x40000000
CALLS = {
    "x86_64": {
        "mount": 165, "pivot_root": 155, "chroot": 161, "bpf": 321, "keyctl": 250,
        "io_uring_setup": 425, "userfaultfd": 323, "perf_event_open": 298, "execve": 59,
        "process_vm_readv": 310, "open_by_handle_at": 304, "setns": 308, "pidfd_getfd": 438,
        "clone3": 435, "execveat": 322, "pidfd_open": 434, "fsopen": 430,
        "socketpair": 53, "bind": 49, "listen": 50, "init_module": 175,
    },
    "aarch64": {
        "mount": 40, "pivot_root": 41, "chroot": 51, "bpf": 280, "keyctl": 219,
        "io_uring_setup": 425, "userfaultfd": 282, "perf_event_open": 241, "execve": 221,
        "process_vm_readv": 270, "open_by_handle_at": 265, "setns": 268, "pidfd_getfd": 438,
        "clone3": 435, "execveat": 281, "pidfd_open": 434, "fsopen": 430,
        "socketpair": 199, "bind": 200, "listen": 201, "init_module": 105,
    },
}  # fmt: skip
KEY = Path("/run/liqod-attacked.key")
"""A file of root's alone, which the test makes."""


def attempts() -> dict[str, str]:
    """The outcome of each attempt."""
    parent = os.getppid()
    tries: dict[str, Callable[[], object]] = {
        "user namespace": lambda: _call(LIBC.unshare, NEW_USER),
        "network namespace": lambda: _call(LIBC.unshare, NEW_NET),
        "raw socket": partial(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1),
        "frames": partial(socket.socket, socket.AF_PACKET, socket.SOCK_RAW, 0),
        "echoes": partial(socket.socket, socket.AF_INET, socket.SOCK_DGRAM, 1),
        "netlink": partial(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW, 0),
        "local socket": partial(socket.socket, socket.AF_UNIX, socket.SOCK_STREAM),
        "vsock": partial(socket.socket, socket.AF_VSOCK, socket.SOCK_STREAM),
        "connection": partial(socket.socket, socket.AF_INET, socket.SOCK_STREAM),
        "mark": _marked,
        "lingering close": _lingering,
        "trace": lambda: _call(LIBC.ptrace, 16, parent, 0, 0),
        "parent's memory": lambda: os.open(f"/proc/{parent}/mem", os.O_RDONLY),
        "parent's environment": lambda: os.open(f"/proc/{parent}/environ", os.O_RDONLY),
        "parent's limits": lambda: resource.prlimit(parent, resource.RLIMIT_NOFILE),
        "parent's files": lambda: os.listdir(f"/proc/{parent}/fd"),
        "parent's network": lambda: os.open(f"/proc/{parent}/ns/net", os.O_RDONLY),
        "key": lambda: os.open(KEY, os.O_RDONLY),
        "file": lambda: os.open("/tmp/liqod-attacker", os.O_WRONLY | os.O_CREAT),
        "device": lambda: os.open("/dev/net/tun", os.O_RDWR),
        "other interface": _retuned,
        "program": lambda: os.execv("/bin/true", ["true"]),
        "process": os.fork,
        "root": lambda: os.setresuid(0, 0, 0),
        "groups": lambda: os.setgroups([0]),
        "signal": lambda: os.kill(parent, signal.SIGCONT),
        "signal to a thread": lambda: _call(LIBC.tgkill, parent, parent, signal.SIGCONT),
    }
    for name, number in CALLS.get(platform.machine(), {}).items():
        tries[name] = partial(_call, LIBC.syscall, number, 0, 0, 0, 0, 0)
    return {name: _outcome(attempt) for name, attempt in tries.items()}


def _outcome(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "done"


def _call(function: Any, *arguments: int) -> None:
    if function(*map(ctypes.c_long, arguments)) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _marked() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 1)


def _lingering() -> None:
    """Of a TCP connection that lingers, whoever closes it last waits: its parent, say."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes(8))


def _retuned() -> None:
    """Ask one of its own TUN devices to be another interface."""
    for file in range(256):
        try:
            fcntl.ioctl(file, 0x400454CA, bytes(40))
        except OSError as error:
            if error.errno in (errno.EBADF, errno.ENOTTY):
                continue
            raise
        return


def main() -> None:
    """As ``liqod.tunnel``, with an attacker in what it answers."""
    sys.path.insert(0, sys.argv[1])
    from liqod.tunnel import __main__ as program
    from liqod.tunnel.tunnel import CarriedTunnel

    honest = CarriedTunnel.status

    def status(self: CarriedTunnel) -> Any:
        return msgspec.structs.replace(honest(self), why=json.dumps(attempts()))

    CarriedTunnel.status = status  # type: ignore[method-assign]
    _lie()
    program.main(sys.argv[2:])


def _lie() -> None:
    """Have the probes call every tunnel alive, with the outcome of what their socket is for."""
    from liqod.tunnel.probes import attendance
    from liqod.tunnel.probes.messages import ProbeResult
    from liqod.tunnel.probes.prober import PeerProber

    class Liar(PeerProber):
        """Probes nothing."""

        def __init__(self, *known: Any) -> None:
            super().__init__(*known)
            self.sockets, self.tell = known[4:6]

        async def run(self) -> NoReturn:
            probes = await self.sockets.probes()
            tries: dict[str, Callable[[], object]] = {
                "mark": partial(probes.setsockopt, socket.SOL_SOCKET, socket.SO_MARK, 1),
                "namespace": lambda: os.open("/proc/1/ns/net", os.O_RDONLY),
            }
            outcomes = {name: _outcome(attempt) for name, attempt in tries.items()}
            self.tell(ProbeResult(True, why=json.dumps(outcomes)))
            await trio.sleep_forever()
            raise AssertionError

    vars(attendance)["PeerProber"] = Liar


if __name__ == "__main__":
    main()
