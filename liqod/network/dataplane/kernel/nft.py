"""nftables: tables written as text by ``nft``, all of one namespace in one transaction.

Writing a table replaces the whole of it at once: no packet sees half. ``nft`` is started only where
something differs (:mod:`.ruleset`).
"""

import os
import re
import subprocess
import threading
from collections.abc import Iterable
from functools import partial
from weakref import WeakValueDictionary

from liqod.errors import NetworkError
from liqod.netlink import NETFILTER, Netlink
from liqod.network.dataplane.kernel import ruleset

PROGRAM = "nft"
DEADLINE = 30.0
"""Seconds within which ``nft`` writes a table, on a machine that is busy."""
LINES = 3
"""Lines of its complaint that are passed on."""

_CHAIN = re.compile(r"^\s*chain\s+(\S+)\s*\{", re.MULTILINE)
_COUNTER = re.compile(r"^(\s*counter\s+(\S+)\s*\{)\s*\}", re.MULTILINE)


def differing(want: dict[str, str], mark: str) -> list[str]:
    """The tables whose content differs from their texts.

    Raises:
        NetworkError: one of them is another daemon's, or the kernel does not answer.
    """
    if not want:
        return []
    with Netlink(NETFILTER) as netlink:
        there = ruleset.tables(netlink)
        for table in want:
            if is_anothers(there.get(table, ""), mark):
                raise NetworkError(f"the table {table} is of {there[table]}")
        return [
            table
            for table, content in want.items()
            if there.get(table) != mark
            or not ruleset.is_sealed(netlink, table, content, _chains(content))
        ]


def write(want: dict[str, str], mark: str) -> None:
    """Replaces tables by the content of their texts, all of them or none.

    Named counters go on from their values: the refusals so far are not forgotten.

    Raises:
        NetworkError: ``nft`` cannot be run, or refuses them.
    """
    job = _Job(", ".join(want), _replacing(_counted(want), mark))
    _queue_of_this_namespace().write(job)
    if job.error is not None:
        raise job.error
    with Netlink(NETFILTER) as netlink:
        for table, content in want.items():
            ruleset.seal(netlink, table, content, _chains(content))


class _Job:
    """Tables of one owner that are to be written in one transaction."""

    def __init__(self, names: str, text: str) -> None:
        self.names = names
        self.text = text
        self.done = False
        self.error: NetworkError | None = None


class _Queue:
    """The queue of writes to one namespace: all that wait go by one run of ``nft``.

    Before it does anything ``nft`` reads all tables of the namespace, others' too, and begins anew
    where one of them changes meanwhile: many at once would keep each other from ending.
    """

    def __init__(self) -> None:
        self._writing = threading.Lock()
        self._changing = threading.Lock()
        self._waiting: list[_Job] = []

    def write(self, job: _Job) -> None:
        """Returns when the job is done, by this thread or by another that took it along."""
        with self._changing:
            self._waiting.append(job)
        with self._writing:
            if job.done:
                return
            # A job added from here on is in the next list. One that was added to this one
            # while it is read would be taken for done.
            with self._changing:
                jobs, self._waiting = self._waiting, []
            try:
                run("".join(each.text for each in jobs), job.names)
            except NetworkError as error:
                # One owner's mistake is no other's.
                for each in jobs:
                    each.error = _alone(each) if len(jobs) > 1 else error
            for each in jobs:
                each.done = True


_queues: WeakValueDictionary[int, _Queue] = WeakValueDictionary()
_finding = threading.Lock()


def _queue_of_this_namespace() -> _Queue:
    number = os.stat("/proc/thread-self/ns/net").st_ino
    with _finding:
        queue = _queues.get(number)
        if queue is None:
            _queues[number] = queue = _Queue()
        return queue


def _alone(job: _Job) -> NetworkError | None:
    try:
        run(job.text, job.names)
    except NetworkError as error:
        return error
    return None


def _replacing(want: dict[str, str], mark: str) -> str:
    parts = []
    for table, content in want.items():
        # The first line is for the table that is not there, which could not be deleted.
        parts.append(f"table {table}\ndelete table {table}\n")
        parts.append(f'table {table} {{\ncomment "{mark}"\n{content}\n}}\n')
    return "".join(parts)


def _counted(want: dict[str, str]) -> dict[str, str]:
    """The same texts, with the counters' values of the tables that are there."""
    with Netlink(NETFILTER) as netlink:

        def begun(table: str, found: re.Match[str]) -> str:
            packets, size = ruleset.counter(netlink, table, found[2])
            return f"{found[1]} packets {packets} bytes {size} }}" if packets else found[0]

        return {
            table: _COUNTER.sub(partial(begun, table), content) for table, content in want.items()
        }


def run(text: str, names: str, *, deadline: float = DEADLINE) -> None:
    """Gives ``nft`` a text, in the calling thread's namespace; blocks.

    Args:
        text: one transaction.
        names: the tables, for the message.
        deadline: seconds within which it has to be done.

    Raises:
        NetworkError: ``nft`` cannot be run, or refuses it.
    """
    try:
        answer = subprocess.run(
            [PROGRAM, "-f", "-"],
            input=text,
            capture_output=True,
            text=True,
            timeout=deadline,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NetworkError(f"cannot run {PROGRAM}: {error}") from error
    if answer.returncode != 0:
        complaint = "; ".join(answer.stderr.strip().splitlines()[:LINES])
        raise NetworkError(f"{PROGRAM} refuses {names}: {complaint}")


def present(names: Iterable[str], mark: str) -> list[str]:
    """Those of the tables that are there and carry the mark."""
    there = marks()
    return [name for name in names if there.get(name) == mark]


def marks() -> dict[str, str]:
    """The mark, or another comment, of every table that there is."""
    with Netlink(NETFILTER) as netlink:
        return ruleset.tables(netlink)


def delete(table: str) -> None:
    """Takes a table away."""
    with Netlink(NETFILTER) as netlink:
        ruleset.delete(netlink, table)


def is_anothers(found: str, mark: str) -> bool:
    """True if this is the mark of another owner, and not a word of an administrator's."""
    return found != mark and found.partition(" ")[0] == mark.partition(" ")[0]


def _chains(content: str) -> list[str]:
    return _CHAIN.findall(content)
