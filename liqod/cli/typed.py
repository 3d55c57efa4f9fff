"""Checks input of people before anything is done: each mistake is one sentence with what to do,
and exit status 2.
"""

import codecs
import re
import sys
from collections.abc import Iterable, Mapping
from typing import BinaryIO, Final

from liqod.errors import ConfigError, Misuse
from liqod.handshake.protocol import invitationtokens
from liqod.handshake.protocol.invitationtokens import InvitationToken
from liqod.model import endpoints, ids
from liqod.model.objects.quantities import is_quantity

BLANK: Final = 64
"""Blank lines that may stand before an invitation."""
NOTHING: Final = "there is no invitation on standard input: give it the line of `liqod invite`"
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SPAN: Final = re.compile(r"([0-9]{1,9})([smhd])", re.ASCII)
_QUOTES: Final = ("''", '""', "``", "‘’", "“”", "<>")
"""Pairs of characters that mail programs and documents put around a line."""
_KEY: Final = re.compile("[0-9a-f]{64}")
_RESOURCE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
"""The part of a resource's name after its domain (``IsQualifiedName`` of Kubernetes)."""


def quantities(cpu: str, memory: str, pods: str, others: Iterable[str]) -> dict[str, str]:
    """Amounts by resource name.

    Args:
        cpu, memory, pods: of each; empty where nothing was said.
        others: of other resources, as ``name=quantity``.

    Raises:
        Misuse: a quantity is none, a name is none, or one was said twice.
    """
    said = {"cpu": cpu, "memory": memory, "pods": pods}
    asked = {name: text for name, text in said.items() if text}
    for item in others:
        name, equals, text = item.partition("=")
        if not (equals and text and _is_resource(name)):
            raise Misuse(f"--resource {item[:80]!r}: write name=quantity, such as nvidia.com/gpu=1")
        if name in asked:
            raise Misuse(f"{name} is said twice: say it once")
        asked[name] = text
    for name, text in asked.items():
        if not is_quantity(text) or text.startswith("-"):
            raise Misuse(f"{text[:80]!r} is no quantity for {name}; write 4, 500m or 8Gi")
    return asked


def _is_resource(name: str) -> bool:
    domain, slash, rest = name.rpartition("/")
    return _RESOURCE.fullmatch(rest) is not None and (not slash or ids.is_dns_subdomain(domain))


def seconds(text: str) -> float:
    """Seconds of a span such as ``30m``. Raises Misuse where it is none."""
    match = _SPAN.fullmatch(text)
    if match is None or not int(match[1]):
        raise Misuse(f"{text[:80]!r} is no span of time; write 30m, 1h or 7d")
    return float(int(match[1]) * _UNITS[match[2]])


def cluster(text: str, option: str = "") -> str:
    """A cluster's id as it was typed; an option's may be empty. Raises Misuse where it is none."""
    if option and not text:
        return text
    problem = ids.cluster_id_problem(text)
    if problem:
        raise Misuse(f"{option}: {problem}" if option else problem)  # may be an invitation: no more
    return text


def slice_name(name: str) -> str:
    """The name; an empty one is the provider's. Raises Misuse where it is none for a slice."""
    problem = ids.slice_name_problem(name) if name else None
    if problem is not None:
        raise Misuse(f"--resource-slice: {problem}; write one such as milan-gpus")
    return name


def key(text: str, option: str) -> str:
    """A key's SHA-256, empty for none. Raises Misuse where it is none.

    Colons and capital letters, which other programs write, are taken as well.
    """
    found = text.replace(":", "").lower()
    if text and not _KEY.fullmatch(found):
        raise Misuse(
            f"{option} {text[:80]!r} is no key: write the 64 hexadecimal digits of its SHA-256,"
            " as `liqod discover CLUSTER` shows them"
        )
    return found


def domain(text: str) -> str:
    """A domain of DNS. Raises Misuse where it is none."""
    found = text.lower().rstrip(".")
    if not endpoints.is_host(found) or ":" in found:
        raise Misuse(f"--dns-records {text[:80]!r} is no domain: write one such as example.org")
    return found


def addresses(given: Iterable[str]) -> list[str]:
    """The addresses of ``--address``. Raises Misuse where one is none, or there are too many."""
    found = list(dict.fromkeys(given))
    for each in found:
        problem = invitationtokens.address_problem(each)
        if problem:
            raise Misuse(f"--address: {problem}")
    if len(found) > invitationtokens.ADDRESSES:
        raise Misuse(
            f"--address: {len(found)} are too many; "
            f"an invitation names {invitationtokens.ADDRESSES}"
        )
    return found


def only_for(what: str, given: Mapping[str, object]) -> None:
    """Refuse options that would change nothing.

    Args:
        what: they are for.
        given: what was said, by option; what is empty or false was not.

    Raises:
        Misuse: one was.
    """
    for option, said in given.items():
        if said:
            raise Misuse(f"{option} is for {what}, and changes nothing here: leave it out")


def is_line(text: str) -> bool:
    """True if it is meant as an invitation."""
    return text.lower().startswith(invitationtokens.SCHEME)


def token(line: str) -> InvitationToken:
    """The contents of an invitation. Raises Misuse where it is none; nothing of it is shown."""
    try:
        return invitationtokens.parse_token(line)
    except ConfigError as error:
        raise Misuse(f"{error}") from None


def bare(text: str) -> str:
    """A line without what surrounds it where it is copied: blanks, a byte order mark, quotes."""
    found = text.strip("\ufeff \t\r\n")
    for first, last in _QUOTES:
        if len(found) > 1 and found[0] == first and found[-1] == last:
            return found[1:-1].strip()
    return found


def from_input() -> str:
    """The invitation on standard input: its first line that is not blank.

    Raises:
        Misuse: there is none, or what is there is no text.
    """
    stream: BinaryIO = sys.stdin.buffer
    for _ in range(BLANK):
        data = stream.readline(invitationtokens.LINE_LIMIT + 2)
        if not data:
            break
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return _of_utf16(data + stream.read(2 * (invitationtokens.LINE_LIMIT + BLANK)))
        line = bare(_text(data, "utf-8"))
        if line:
            return line
    raise Misuse(NOTHING)


def _of_utf16(data: bytes) -> str:
    """The first line of what PowerShell writes into a file."""
    lines = _text(data[: len(data) // 2 * 2], "utf-16").splitlines()
    found = next(filter(None, map(bare, lines)), "")
    if not found:
        raise Misuse(NOTHING)
    return found


def _text(data: bytes, encoding: str) -> str:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise Misuse("standard input is no text: give it the one line of `liqod invite`")
    return text
