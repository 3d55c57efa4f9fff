"""The confinement of the tunnels' process: no user's rights, no capability, few system calls.

It reads what strangers send, so that it may be taken over some day. From then on an attacker has
what :func:`confine` has left: the descriptors that it was handed, queries to name servers, and
files that anybody may read. It starts no program, opens no file to write, makes no socket but those
of DNS, and enters or makes no namespace; nothing gives a right back.
"""

import ctypes
import os
import platform
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

USER: Final = 65533
"""Id of the user and the group that it runs as, which nothing else uses."""
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_SET_DUMPABLE, _SET_SECCOMP, _BOUNDING_DROP, _NO_NEW_PRIVILEGES, _AMBIENT = 4, 22, 24, 38, 47
_AMBIENT_CLEAR: Final = 4
_FILTER: Final = 2
_LAST_CAPABILITY: Final = 63
_CAPABILITIES_3: Final = 0x20080522
"""``_LINUX_CAPABILITY_VERSION_3``."""


def confine() -> None:
    """Give up every right of this process for good; called in its one thread.

    Raises:
        OSError: the kernel does not let it.
    """
    _prctl(_NO_NEW_PRIVILEGES, 1)
    if os.geteuid() == 0:
        for capability in range(_LAST_CAPABILITY + 1):
            # What is not dropped here is gone with the user, and no program is started any more.
            with suppress(OSError):
                _prctl(_BOUNDING_DROP, capability)
        os.setgroups([])
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
    _prctl(_AMBIENT, _AMBIENT_CLEAR)
    _drop_capabilities()
    _prctl(_SET_DUMPABLE, 0)
    program = _program(os.getpid())
    if program:
        _install(program)


@contextmanager
def own_files_visible() -> Iterator[None]:
    """Have this process's own files below ``/proc/self`` be its own for a moment.

    They are root's otherwise, so that no other process of the user reads or traces it.
    """
    _prctl(_SET_DUMPABLE, 1)
    try:
        yield
    finally:
        _prctl(_SET_DUMPABLE, 0)


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, ctypes.c_ulong(value), *(ctypes.c_ulong(0),) * 3) != 0:
        raise _error()


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


def _drop_capabilities() -> None:
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITIES_3, 0))
    if _LIBC.capset(header, ctypes.create_string_buffer(24)) != 0:
        raise _error()


class _Filter(ctypes.Structure):
    """``struct sock_fprog``."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _install(program: bytes) -> None:
    text = ctypes.create_string_buffer(program, len(program))
    made = _Filter(len(program) // _STEP.size, ctypes.addressof(text))
    if _LIBC.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(made), 0, 0) != 0:
        raise _error()


_STEP: Final = struct.Struct("=HBBI")
"""One instruction of classic BPF: its code, two jumps, and a value."""
_LOAD, _EQUAL, _ANY_BIT, _MASK, _RETURN = 0x20, 0x15, 0x45, 0x54, 0x06
_ALLOW, _REFUSE, _UNKNOWN = 0x7FFF0000, 0x00050001, 0x00050026
"""Go on; EPERM; ENOSYS, with which the C library tries an older call."""
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16
"""Offsets in ``struct seccomp_data``."""
_MACHINES: Final = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""``AUDIT_ARCH_`` of a machine, and its column in the tables; others have no filter."""

_ALLOWED: Final[dict[str, tuple[int, int]]] = {
    # Packets first: each call passes those before its own.
    "read": (0, 63), "write": (1, 64), "epoll_wait": (232, -1), "recvfrom": (45, 207),
    "sendto": (44, 206), "epoll_ctl": (233, 21), "epoll_pwait": (281, 22),
    "clock_gettime": (228, 113), "futex": (202, 98), "recvmsg": (47, 212), "sendmsg": (46, 211),
    "readv": (19, 65), "writev": (20, 66),
    # Connections that are there, and those to name servers.
    "accept4": (288, 242), "close": (3, 57), "connect": (42, 203), "shutdown": (48, 210),
    "getsockname": (51, 204), "getpeername": (52, 205), "getsockopt": (55, 209),
    "recvmmsg": (299, 243), "sendmmsg": (307, 269), "poll": (7, -1),
    "ppoll": (271, 73), "select": (23, -1), "pselect6": (270, 72), "fcntl": (72, 25),
    "dup": (32, 23),
    # Files that are read.
    "pread64": (17, 67), "lseek": (8, 62), "fstat": (5, 80), "newfstatat": (262, 79),
    "statx": (332, 291), "stat": (4, -1), "lstat": (6, -1), "access": (21, -1),
    "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, -1),
    "readlinkat": (267, 78), "getdents64": (217, 61), "getcwd": (79, 17), "statfs": (137, 43),
    "fstatfs": (138, 44), "memfd_create": (319, 279),
    # Memory.
    "mmap": (9, 222), "munmap": (11, 215), "mremap": (25, 216), "mprotect": (10, 226),
    "madvise": (28, 233), "brk": (12, 214),
    # Threads, time, signals.
    "set_robust_list": (273, 99), "rseq": (334, 293), "membarrier": (324, 283),
    "sched_yield": (24, 124), "sched_getaffinity": (204, 123), "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101), "gettimeofday": (96, 169), "clock_getres": (229, 114),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132), "restart_syscall": (219, 128), "exit": (60, 93),
    "exit_group": (231, 94),
    # Itself.
    "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178), "getuid": (102, 174),
    "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177), "uname": (63, 160),
    "sysinfo": (99, 179), "getrandom": (318, 278), "getrusage": (98, 165), "getrlimit": (97, 163),
}  # fmt: skip
"""Numbers of calls with any arguments, of x86_64 and aarch64; -1 where there is none."""
_ARGUED: Final[dict[str, tuple[int, int]]] = {
    "socket": (41, 198), "clone": (56, 220), "openat": (257, 56), "ioctl": (16, 29),
    "prctl": (157, 167), "tgkill": (234, 131), "prlimit64": (302, 261), "setsockopt": (54, 208),
}  # fmt: skip
"""The same for those whose arguments decide (:func:`_arguments`)."""
_INET, _INET6, _DATAGRAM, _UDP, _KIND = 2, 10, 2, 17, 0xF
_THREAD: Final = 0x00010000
_WRITES: Final = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC
_IOCTLS: Final = (0x5421, 0x541B, 0x5401, 0x5451, 0x5450)
"""Non-blocking, bytes that wait, whether it is a terminal, and close-on-exec: of a TUN nothing."""
_NAME: Final = 15
_SOCKET_LEVEL, _LINGER = 1, 13
"""Of a socket that lingers the last holder's ``close`` blocks, and that may be another program."""


def _program(process: int) -> bytes:
    """The filter for this machine's calls; empty for a machine that has none.

    Args:
        process: id of this process.
    """
    if platform.machine() not in _MACHINES:
        return b""
    machine, column = _MACHINES[platform.machine()]
    steps = [
        _step(_LOAD, _MACHINE),
        _step(_EQUAL, machine, yes=1),
        _step(_RETURN, _UNKNOWN),
        _step(_LOAD, _NUMBER),
    ]
    # Numbers of x32 are larger than all here, and so among the unknown.
    for numbers in _ALLOWED.values():
        if numbers[column] >= 0:
            steps += [_step(_EQUAL, numbers[column], no=1), _step(_RETURN, _ALLOW)]
    for name, numbers in _ARGUED.items():
        block = _arguments(name, process)
        steps += [_step(_EQUAL, numbers[column], no=len(block)), *block]
    return b"".join([*steps, _step(_RETURN, _UNKNOWN)])


def _arguments(name: str, process: int) -> list[bytes]:
    """The steps that judge the arguments of one call, and end."""
    if name == "socket":
        return [
            *_one_of(0, (_INET, _INET6)),
            _argument(1),
            _step(_MASK, _KIND),
            *_required((_DATAGRAM,)),
            *_one_of(2, (0, _UDP)),
            _step(_RETURN, _ALLOW),
        ]
    if name == "clone":
        return [_argument(0), _step(_ANY_BIT, _THREAD, no=1), *_verdicts()]
    if name == "openat":
        return [_argument(2), _step(_ANY_BIT, _WRITES, yes=1), *_verdicts()]
    if name == "setsockopt":
        return [
            _argument(1),
            _step(_EQUAL, _SOCKET_LEVEL, no=3),
            _argument(2),
            _step(_EQUAL, _LINGER, no=1),
            _step(_RETURN, _REFUSE),
            _step(_RETURN, _ALLOW),
        ]
    wanted = {
        "ioctl": (1, _IOCTLS),
        "prctl": (0, (_SET_DUMPABLE, _NAME)),
        "tgkill": (0, (process,)),
        "prlimit64": (0, (0,)),
    }
    number, values = wanted[name]
    return [*_one_of(number, values), _step(_RETURN, _ALLOW)]


def _verdicts() -> list[bytes]:
    return [_step(_RETURN, _ALLOW), _step(_RETURN, _REFUSE)]


def _one_of(number: int, values: Sequence[int]) -> list[bytes]:
    """Refuse unless an argument, by its lower half, is one of the values."""
    return [_argument(number), *_required(values)]


def _required(values: Sequence[int]) -> list[bytes]:
    """Refuse unless what is loaded is one of the values."""
    left = range(len(values), 0, -1)
    tests = [_step(_EQUAL, value, yes=after) for value, after in zip(values, left, strict=True)]
    return [*tests, _step(_RETURN, _REFUSE)]


def _argument(number: int) -> bytes:
    return _step(_LOAD, _ARGUMENTS + 8 * number)


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return _STEP.pack(code, yes, no, value)
