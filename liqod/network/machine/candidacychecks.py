"""Checks the daemon's messages about candidates before sockets and tunnels are given any. Pure.

Others write the Lease, too: a part of it that cannot be counts as absent, and the sound ones stay.
The machine as a candidate is the daemon's own word: there one part spoils it.
"""

import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

from msgspec.structs import replace

from liqod.model.crossing.addresses import parse
from liqod.network.orders.candidacy import LeaseFound, LeaseRecord, LocalCandidate

MOST: Final = 4096
"""Peers of which it is said where they were observed, and candidates."""
MOST_TEXT: Final = 253
"""Characters of a name."""
MOST_KEY: Final = 256
"""Bytes of the candidates' key."""
MOST_PORT: Final = 65535
_HOST: Final = re.compile(r"[^\s\x00-\x1f\x7f]{1,253}")
"""An address or a name by configuration, which is told to people and peers and not used here."""
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")


def candidate(me: LocalCandidate) -> None:
    """Check this machine as a candidate.

    Raises:
        ValueError: it cannot be one; no value is named that may be a key.
    """
    if not _is_address(me.address):
        raise ValueError(f"{me.address[:80]!r} is no address of a candidate")
    if not 1 <= me.port <= MOST_PORT:
        raise ValueError(f"the port {me.port} of candidates is not from 1 to {MOST_PORT}")
    if not 1 <= len(me.key) <= MOST_KEY:
        raise ValueError(f"the candidates' key has not 1 to {MOST_KEY} bytes")
    if len(me.name) > MOST_TEXT or not (_HOST.fullmatch(me.reached) or not me.reached):
        raise ValueError("the name of a candidate, or where it is reached, cannot be")


def sound(found: LeaseFound) -> LeaseFound:
    """The Lease without the parts that cannot be."""
    record = found.record
    return found if record is None else replace(found, record=_sound(record))


def _sound(record: LeaseRecord) -> LeaseRecord:
    claim = record.claim
    others = tuple(each for each in claim.others[:MOST] if len(each) <= MOST_TEXT)
    return LeaseRecord(
        replace(claim, holder=claim.holder[:MOST_TEXT], others=others),
        record.address if _is_address(record.address) else "",
        _of_sound(record.reached, _is_host),
        _of_sound(record.endpoints, _is_endpoint),
    )


def _of_sound(texts: Mapping[str, str], is_sound: Callable[[str], bool]) -> dict[str, str]:
    found = islice(texts.items(), MOST)
    return {name: text for name, text in found if len(name) <= MOST_TEXT and is_sound(text)}


def _is_address(text: str) -> bool:
    return parse(text) is not None and "%" not in text  # a zone is any text


def _is_host(text: str) -> bool:
    return _HOST.fullmatch(text) is not None


def _is_endpoint(text: str) -> bool:
    """True for ``address:port`` and ``[v6]:port``."""
    host, _, port = text.rpartition(":")
    is_v6 = host.startswith("[") and host.endswith("]")
    address = host[1:-1] if is_v6 else host
    is_port = _PORT.fullmatch(port) is not None and int(port) <= MOST_PORT
    return is_port and _is_address(address) and (":" in address) is is_v6
