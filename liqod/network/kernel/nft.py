"""nftables: tables written as text by ``nft``, all of one namespace in one transaction.

Writing a table replaces the whole of it at once: no packet sees half. ``nft`` is started only where
something differs (:mod:`.ruleset`).
"""

import re
import subprocess
from collections.abc import Iterable

from liqod.errors import NetworkError
from liqod.network.kernel import ruleset
from liqod.network.kernel.netlink import NETFILTER, Netlink

PROGRAM = "nft"
DEADLINE = 30.0
"""Seconds within which ``nft`` writes a table, on a machine that is busy."""
LINES = 3
"""Lines of its complaint that are passed on."""

_CHAIN = re.compile(r"^\s*chain\s+(\S+)\s*\{", re.MULTILINE)


def differing(want: dict[str, str], mark: str) -> list[str]:
    """The tables that do not hold what their texts say.

    Raises:
        NetworkError: one of them is another daemon's, or the kernel cannot be asked.
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
    """Replaces tables by what their texts say, all of them or none.

    Raises:
        NetworkError: ``nft`` cannot be run, or refuses them.
    """
    parts = []
    for table, content in want.items():
        # The first line is for the table that is not there, which could not be deleted.
        parts.append(f"table {table}\ndelete table {table}\n")
        parts.append(f'table {table} {{\ncomment "{mark}"\n{content}\n}}\n')
    try:
        answer = subprocess.run(
            [PROGRAM, "-f", "-"],
            input="".join(parts),
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NetworkError(f"cannot run {PROGRAM}: {error}") from error
    if answer.returncode != 0:
        complaint = "; ".join(answer.stderr.strip().splitlines()[:LINES])
        raise NetworkError(f"{PROGRAM} refuses {', '.join(want)}: {complaint}")
    with Netlink(NETFILTER) as netlink:
        for table, content in want.items():
            ruleset.seal(netlink, table, content, _chains(content))


def present(names: Iterable[str], mark: str) -> list[str]:
    """Those of the tables that are there and carry the mark."""
    with Netlink(NETFILTER) as netlink:
        there = ruleset.tables(netlink)
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
    """Whether this is the mark of another owner, and not a word of an administrator's."""
    return found != mark and found.partition(" ")[0] == mark.partition(" ")[0]


def _chains(content: str) -> list[str]:
    return _CHAIN.findall(content)
