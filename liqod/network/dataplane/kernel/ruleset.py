"""Reads and seals the content of an nftables table by netlink, without a process.

The kernel does not return the text of a table as it was written. So its form in the kernel is read
right after the write, and a digest of that is kept in the table, with one of the text: the seal, a
set without elements that carries both as its comment. As long as they match, the table has the
content of the text; any addition, removal or exchange breaks the seal, but for values that change
by themselves: counters, and elements of sets that packets fill.
"""

import errno
import hashlib
import struct
from collections.abc import Iterable, Iterator

from liqod.netlink import (
    ACK,
    CREATE,
    Netlink,
    NetlinkRefused,
    attribute,
    attributes,
    pairs,
    read_text,
    text,
)

FAMILIES = {"inet": 1, "ip": 2, "arp": 3, "netdev": 5, "bridge": 7, "ip6": 10}
_NUMBERS = {number: name for name, number in FAMILIES.items()}
SEAL = "liqod-seal"

SUBSYSTEM = 10
_BEGIN, _END = 0x10, 0x11
_GET_TABLE, _DELETE_TABLE = 1, 2
_GET_CHAIN, _GET_RULE, _NEW_SET, _GET_SET, _GET_ELEMENTS, _GET_OBJECT = 4, 7, 9, 10, 13, 19

_NAME_OF_TABLE, _FLAGS, _USE, _USER_DATA = 1, 2, 3, 6
_TABLE, _NAME = 1, 2
_SET_NAME, _SET_FLAGS, _SET_KEY, _SET_LENGTH, _SET_ID, _SET_USER_DATA = 2, 3, 4, 5, 10, 13
_FILLED_BY_PACKETS = 0x10
_MARK = 19
_COMMENT_OF_TABLE, _COMMENT_OF_SET = 0, 7

# Attributes of each object in the digest: its identity and its function, not its counts.
_OF_CHAIN = (1, 2, 3, 4, 5, 7, 10)
_OF_SET = (2, 3, 4, 5, 6, 7, 9, 11, 12, 14, 16)
_OF_OBJECT = (2, 3, 6)
_CHAIN_OF_RULE, _HANDLE_OF_RULE, _EXPRESSIONS = 2, 3, 4
_EXPRESSION_NAME, _EXPRESSION_DATA = 1, 2
_ELEMENTS = 3
_NAME_OF_CHAIN, _HOOK_OF_CHAIN, _POLICY_OF_CHAIN, _NUMBER_OF_HOOK = 3, 4, 5, 1
_FORWARD, _DROP = b"\0\0\0\2", b"\0\0\0\0"
_OBJECT_TYPE, _OBJECT_DATA, _COUNTER = 3, 4, 1
_BYTES, _PACKETS = 1, 2
_OF_ELEMENT = (1, 2, 3, 9, 10)
_COUNT = (b"counter", b"quota", b"limit", b"last", b"connlimit")


def tables(netlink: Netlink) -> dict[str, str]:
    """The comment of every table, by family and name."""
    found = {}
    for answer in netlink.dump(_kind(_GET_TABLE), _head(0)):
        said = attributes(answer, 4)
        name = f"{family(answer)} {read_text(said.get(_NAME_OF_TABLE))}"
        found[name] = _comment(said.get(_USER_DATA), _COMMENT_OF_TABLE)
    return found


def family(body: bytes) -> str:
    """The family that a message is about."""
    return _NUMBERS.get(body[0], "?")


def is_sealed(netlink: Netlink, table: str, written: str, chains: Iterable[str]) -> bool:
    """True if the table still has the content that this text gave it."""
    number, name = _split(table)
    body = _head(number) + text(_TABLE, name) + text(_NAME, SEAL)
    try:
        seal = attributes(netlink.get(_kind(_GET_SET), body), 4).get(_SET_USER_DATA)
        return _comment(seal, _COMMENT_OF_SET) == _seal(netlink, table, written, chains)
    except NetlinkRefused as error:
        if error.errno == errno.ENOENT:
            return False
        raise


def seal(netlink: Netlink, table: str, written: str, chains: Iterable[str]) -> None:
    """Seals a table that was written this moment."""
    number, name = _split(table)
    comment = _seal(netlink, table, written, chains).encode() + b"\0"
    body = _head(number) + text(_TABLE, name) + text(_SET_NAME, SEAL)
    body += _big(_SET_FLAGS, 0) + _big(_SET_KEY, _MARK) + _big(_SET_LENGTH, 4) + _big(_SET_ID, 1)
    body += attribute(_SET_USER_DATA, bytes([_COMMENT_OF_SET, len(comment)]) + comment)
    _change(netlink, _NEW_SET, CREATE, body)


def counter(netlink: Netlink, table: str, name: str) -> tuple[int, int]:
    """Packets and bytes that a named counter of a table has; none where there is no such counter.

    One object is requested: nothing is dumped.
    """
    number, of = _split(table)
    body = _head(number) + text(_TABLE, of) + text(_NAME, name) + _big(_OBJECT_TYPE, _COUNTER)
    try:
        said = attributes(netlink.get(_kind(_GET_OBJECT), body), 4)
    except NetlinkRefused as error:
        if error.errno == errno.ENOENT:
            return 0, 0
        raise
    data = attributes(said.get(_OBJECT_DATA, b""))
    packets, counted = data.get(_PACKETS, b""), data.get(_BYTES, b"")
    return int.from_bytes(packets, "big"), int.from_bytes(counted, "big")


def forward_drops(netlink: Netlink) -> list[str]:
    """Chains for forwarded packets whose policy is to drop.

    Those of iptables are among them, where it is the one that writes nftables.
    """
    found = []
    for answer in netlink.dump(_kind(_GET_CHAIN), _head(0)):
        said = attributes(answer, 4)
        hook = attributes(said.get(_HOOK_OF_CHAIN, b"")).get(_NUMBER_OF_HOOK, b"")
        place = (family(answer) in ("inet", "ip", "ip6"), hook, said.get(_POLICY_OF_CHAIN))
        if place == (True, _FORWARD, _DROP):
            table, chain = read_text(said.get(_TABLE)), read_text(said.get(_NAME_OF_CHAIN))
            found.append(f"{family(answer)} {table} {chain}")
    return found


def delete(netlink: Netlink, table: str) -> None:
    """Takes a table away with all that is in it."""
    number, name = _split(table)
    _change(netlink, _DELETE_TABLE, 0, _head(number) + text(_NAME_OF_TABLE, name))


def _seal(netlink: Netlink, table: str, written: str, chains: Iterable[str]) -> str:
    text_digest = hashlib.sha256(written.encode()).hexdigest()[:16]
    content = hashlib.sha256()
    for part in _content(netlink, table, chains):
        content.update(len(part).to_bytes(4, "big") + part)
    return f"{text_digest} {content.hexdigest()[:32]}"


def _content(netlink: Netlink, table: str, chains: Iterable[str]) -> Iterator[bytes]:
    """The content of a table in the kernel, in a stable order.

    Chains are requested one by one: the kernel gives all those of a family or none, and a node may
    have thousands. An added one shows in the number of the table's objects.
    """
    number, name = _split(table)
    of_table = _head(number) + text(_TABLE, name)
    head = attributes(netlink.get(_kind(_GET_TABLE), of_table), 4)
    sets = [attributes(found, 4) for found in netlink.dump(_kind(_GET_SET), of_table)]
    names = [said[_SET_NAME] for said in sets]
    # The seal is not there yet when it is made.
    use = int.from_bytes(head.get(_USE, b""), "big") - (SEAL.encode() + b"\0" in names)
    yield use.to_bytes(4, "big") + head.get(_FLAGS, b"")
    for chain in chains:
        answer = netlink.get(_kind(_GET_CHAIN), of_table + text(3, chain))
        yield _chosen(attributes(answer, 4), _OF_CHAIN)
    for rule in netlink.dump(_kind(_GET_RULE), of_table):
        said = attributes(rule, 4)
        yield said[_CHAIN_OF_RULE] + said[_HANDLE_OF_RULE] + _expressions(said)
    for said in sets:
        if read_text(said[_SET_NAME]) != SEAL:
            yield _chosen(said, _OF_SET)
            if not int.from_bytes(said.get(_SET_FLAGS, b""), "big") & _FILLED_BY_PACKETS:
                yield from _elements(netlink, of_table, said[_SET_NAME])
    for found in netlink.dump(_kind(_GET_OBJECT), of_table):
        yield _chosen(attributes(found, 4), _OF_OBJECT)


def _elements(netlink: Netlink, of_table: bytes, name: bytes) -> list[bytes]:
    found = []
    for answer in netlink.dump(_kind(_GET_ELEMENTS), of_table + attribute(_SET_NAME, name)):
        for _, element in pairs(attributes(answer, 4).get(_ELEMENTS, b"")):
            found.append(_chosen(attributes(element), _OF_ELEMENT))
    return sorted(found)


def _expressions(rule: dict[int, bytes]) -> bytes:
    found = []
    for _, expression in pairs(rule.get(_EXPRESSIONS, b"")):
        said = attributes(expression)
        name = said.get(_EXPRESSION_NAME, b"")
        found.append(name)
        if name.rstrip(b"\0") not in _COUNT:
            found.append(said.get(_EXPRESSION_DATA, b""))
    return b"".join(found)


def _chosen(said: dict[int, bytes], kinds: Iterable[int]) -> bytes:
    return b"".join(attribute(kind, said[kind]) for kind in kinds if kind in said)


def _change(netlink: Netlink, kind: int, flags: int, body: bytes) -> None:
    bound = struct.pack(">BBH", 0, 0, SUBSYSTEM)
    netlink.batch(
        [(_BEGIN, 0, bound), (_kind(kind), flags | ACK, body), (_END, 0, bound)],
    )
    netlink.acknowledged()


def _kind(kind: int) -> int:
    return SUBSYSTEM << 8 | kind


def _head(family: int) -> bytes:
    return struct.pack(">BBH", family, 0, 0)


def _big(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack(">I", value))


def _split(table: str) -> tuple[int, str]:
    family, _, name = table.partition(" ")
    return FAMILIES[family], name


def _comment(data: bytes | None, wanted: int) -> str:
    """One of the notes that programs leave at an object: kind and length of a byte each."""
    data, at = data or b"", 0
    while at + 2 <= len(data):
        kind, size = data[at], data[at + 1]
        if kind == wanted:
            return read_text(data[at + 2 : at + 2 + size])
        at += 2 + size
    return ""
