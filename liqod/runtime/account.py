"""Budget of files, places and memory for callers, by face and by source.

A face is an endpoint to which others can open connections. Half of the process's files and half of
its memory are kept for the daemon's own work: its watches, its requests, its peers. Of the rest
each face has a part (:data:`SHARES`) that no other can take, so that a caller that fills one blocks
no client of the others. It is derived at the start, by the limits that the process really has.
:mod:`liqod.runtime.connectionlimit` selects the connection to close where a face is full.
"""

import logging
import os
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from liqod.runtime.connectionlimit import ConnectionLimiter

log = logging.getLogger(__name__)

PARTS: Final = 32
"""Number of parts of the budget for callers: half of all files, and half of all memory."""
MOST_FILES: Final = 1 << 20
"""Most files to request. Some started programs look at each number up to the limit."""
FEW_FILES: Final = 4096
"""With fewer the faces are so small that a warning is logged."""
KIB: Final = 1 << 10
MIB: Final = 1 << 20


class PortShare(msgspec.Struct, frozen=True):
    """A face's part of the budget for callers.

    Attributes:
        face: the endpoint, in words.
        who: the clients that have a place, in words.
        parts: of :data:`PARTS`.
        most: places at the most, with any budget.
        of_one: places of one source at the most, and ...
        divided: ... no more than one in so many of all places.
        files: of one place.
        memory: bytes of one place in ordinary use.
        source: the kind of one source.
        buffered: bytes of unanswered requests that are kept together; None: not counted.
        stays: of sources that have as many, those that came first stay; else the others do.
    """

    face: str
    who: str
    parts: int
    most: int
    of_one: int
    divided: int = 1
    files: int = 1
    memory: int = 48 * KIB
    source: str = "address"
    buffered: int | None = None
    stays: bool = False


PROBES: Final = "probes"
WEBHOOK_STRANGERS: Final = "webhook-strangers"
WEBHOOK: Final = "webhook"
KUBELET_STRANGERS: Final = "kubelet-strangers"
KUBELET: Final = "kubelet"
UNPROVED: Final = "unproved"
STRANGERS: Final = "strangers"
WAITING: Final = "waiting"
TENANTS: Final = "tenants"
STREAMS: Final = "streams"
SHARED: Final = "shared"
CALLERS: Final = "callers"
PROXY: Final = "proxy"
LOCAL: Final = "inspector-local"
REMOTE: Final = "inspector-remote"
CLIENTS: Final = "inspector-clients"

SHARES: Final[dict[str, PortShare]] = {
    PROBES: PortShare("health and metrics", "anybody", 1, 64, 64, buffered=1 * MIB),
    WEBHOOK_STRANGERS: PortShare(
        "webhook", "who has had no answer yet", 1, 64, 64, buffered=4 * MIB
    ),
    WEBHOOK: PortShare("webhook", "who was answered", 1, 96, 96, buffered=4 * MIB),
    KUBELET_STRANGERS: PortShare(
        "kubelet API", "who has not logged in yet", 1, 64, 64, buffered=4 * MIB
    ),
    KUBELET: PortShare(
        *("kubelet API", "streams, logs, scrapers", 7, 1024, 1024),
        files=2,
        memory=80 * KIB,
        buffered=4 * MIB,
    ),
    UNPROVED: PortShare("handshake", "who has proved no key yet", 2, 128, 32, 4),
    STRANGERS: PortShare("handshake", "who has proved a key that is no tenant's", 2, 256, 16, 4),
    WAITING: PortShare(
        "handshake", "who waits, with an entry in the inbox", 2, 256, 16, 4, stays=True
    ),
    TENANTS: PortShare(
        *("handshake", "tenants' channels", 4, 1024, 4),
        memory=64 * KIB,
        source="key",
        stays=True,
    ),
    STREAMS: PortShare(
        *("handshake", "streams of tenants", 6, 4096, 512, 2), memory=24 * KIB, source="key"
    ),
    SHARED: PortShare(
        "shared port 443", "who has called no name yet", 2, 512, 128, 4, memory=16 * KIB
    ),
    LOCAL: PortShare("inspector's socket", "who shakes hands", 1, 32, 32, source="machine"),
    REMOTE: PortShare("inspector, by network", "who shakes hands", 1, 32, 32),
    CLIENTS: PortShare("inspector", "viewers", 1, 32, 32, source="machine"),
}
"""The faces of the daemon."""

NODE_SHARES: Final[dict[str, PortShare]] = {
    PROBES: SHARES[PROBES],
    PROXY: PortShare(
        *("proxy at 8118", "peers that run Liqo", 1, 1024, 512, 2),
        files=2,
        memory=16 * KIB,
        source="peer",
    ),
}
"""The faces of `liqod node`; its limits are its own."""

TUNNEL_SHARES: Final[dict[str, PortShare]] = {
    SHARED: SHARES[SHARED],
    CALLERS: PortShare("port 443 of a tunnel", "who is to prove itself", 4, 128, 32, 4),
}
"""The faces of the tunnels' process; its limits are its own."""


def places_of(share: PortShare, files: int, memory: int) -> tuple[int, int]:
    """The number of places of a face, and of one source at it.

    Args:
        share: the face's.
        files: that the process may have open.
        memory: bytes that it may use.
    """
    by_files = files // 2 * share.parts // PARTS // share.files
    by_memory = memory // 2 * share.parts // PARTS // share.memory
    places = max(1, min(share.most, by_files, by_memory))
    return places, max(1, min(share.of_one, places // share.divided))


class Account:
    """The budget for the callers of this process.

    Args:
        files: that the process may have open.
        memory: bytes that it may use.
        shares: of its faces.
    """

    def __init__(
        self,
        files: int = MOST_FILES,
        memory: int = 1 << 40,
        shares: Mapping[str, PortShare] = SHARES,
    ) -> None:
        self.files, self.memory = files, memory
        self._shares = shares
        self._places: dict[str, ConnectionLimiter] = {}

    def __getitem__(self, face: str) -> ConnectionLimiter:
        """The places of a face, the same object for all callers."""
        if face not in self._places:
            share = self._shares[face]
            most, of_one = places_of(share, self.files, self.memory)
            name = f"{share.face}, {share.who}"
            self._places[face] = ConnectionLimiter(most, of_one, share.buffered, share.stays, name)
        return self._places[face]

    def faces(self) -> Iterator[tuple[str, PortShare, ConnectionLimiter]]:
        """Each face with its places."""
        for face, share in self._shares.items():
            yield face, share, self[face]


def derived(shares: Mapping[str, PortShare] = SHARES) -> Account:
    """The account of this process, by its limits; its limit of files is raised first."""
    account = Account(raise_files(), memory_limit(), shares)
    if account.files < FEW_FILES:
        extra = {"files": account.files, "better": FEW_FILES}
        log.warning("few files may be open, so callers have few places (LimitNOFILE=)", extra=extra)
    return account


def raise_files() -> int:
    """Raise the soft limit of open files to the hard one; the limit from then on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft == resource.RLIM_INFINITY:
        return MOST_FILES
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as error:  # the kernel allows no more (fs.nr_open)
            log.warning("no more files may be open: %s", error, extra={"files": soft})
            return soft
    return min(max(soft, wanted), MOST_FILES)


def memory_limit(root: Path = Path("/")) -> int:
    """Bytes that this process may use: the least of its cgroups' limits and the machine's memory.

    Args:
        root: of the files that are read.
    """
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    try:
        mine = (root / "proc/self/cgroup").read_text()
    except OSError:
        mine = ""
    own = next((line[3:] for line in mine.splitlines() if line.startswith("0::")), "/")
    top = root / "sys/fs/cgroup"
    folder = top / own.strip("/")
    for each in (folder, *folder.parents):
        if not each.is_relative_to(top):
            break
        try:
            text = (each / "memory.max").read_text().strip()
        except OSError:  # no such limit
            continue
        if text.isdecimal():
            found.append(int(text))
    return min(found)
