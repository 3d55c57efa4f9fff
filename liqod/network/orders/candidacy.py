"""Messages of the election of the gateway: the daemon has the Lease, the machine the verdict.

The daemon sends :class:`Candidacy` whenever a part of it changes, and :class:`LeaseFound` whenever
it reads the Lease. The machine sends a numbered request for each read and write of the Lease; one
whose answer does not come has failed. All of it may be repeated, to a side that has begun anew.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

PATIENCE: Final = 1.0
"""Seconds for a request, at the machine and at the daemon."""


class Claim(msgspec.Struct, frozen=True):
    """The Lease, as read.

    Attributes:
        holder: name of the candidate that has it; empty for nobody.
        epoch: counts the holders.
        version: of the object.
        others: names of the standbys that the holder knew when it wrote.
    """

    holder: str
    epoch: int
    version: str
    others: tuple[str, ...] = ()


class LeaseRecord(msgspec.Struct, frozen=True):
    """The Lease with its annotations.

    Attributes:
        claim: whose it is.
        address: of the holder, on the nodes' network.
        reached: where peers reach candidates, by their names.
        endpoints: where peers were observed last, by their ids.
    """

    claim: Claim
    address: str = ""
    reached: Mapping[str, str] = {}
    endpoints: Mapping[str, str] = {}


class LocalCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """The machine as a candidate.

    Attributes:
        name: of its Node.
        address: on the nodes' network.
        key: of the cluster's candidates.
        port: where candidates listen.
        reached: where peers reach it; empty for the same.
        eligible: whether it may be the gateway; one that may not only follows who is.
    """

    name: str
    address: str
    key: bytes
    port: int
    reached: str = ""
    eligible: bool = True

    def __repr__(self) -> str:
        return f"LocalCandidate({self.name}, {self.address}:{self.port})"


class GatewayState(msgspec.Struct, frozen=True):
    """The gateway, as the election has found it.

    Attributes:
        active: whether this machine is; None while that is not known, and all stays as it is.
        mark: firewall mark of the tunnels' packets; 0 for none.
        endpoints: where peers were last observed by the gateway, ``address:port`` by their ids.
        addresses: where peers reach this cluster, the gateway first and then those that stand by.
    """

    active: bool | None = True
    mark: int = 0
    endpoints: Mapping[str, str] = {}
    addresses: tuple[str, ...] = ()


# From the daemon.


class Candidacy(msgspec.Struct, frozen=True, tag=True):
    """Makes the machine a candidate, with the state of the cluster that its verdicts depend on.

    Attributes:
        me: the machine; a changed one begins anew.
        leads: whether the daemon leads: the leader's machine makes a missing Lease at once, others
            after a while.
        cordoned: names of the Nodes that are cordoned.
    """

    me: LocalCandidate
    leads: bool
    cordoned: frozenset[str]


class LeaseFound(msgspec.Struct, frozen=True, tag=True):
    """The Lease was read, or its watch reported it.

    Attributes:
        record: its content; None where there is none.
    """

    record: LeaseRecord | None


class LeaseAnswer(msgspec.Struct, frozen=True, tag=True):
    """The answer to one request of the machine.

    Attributes:
        number: of the request.
        version: of the Lease after a write; empty where the write met another version, which was
            sent before this, and for a read.
        error: why the request failed; it may have been carried out all the same.
    """

    number: int
    version: str = ""
    error: str = ""


class LetGo(msgspec.Struct, frozen=True, tag=True):
    """Ends the time of the daemon: a gateway whose Node is cordoned lets the Lease go at once."""


# From the machine.


class ReadLease(msgspec.Struct, frozen=True, tag=True):
    """Requests a read of the Lease: others know another version than its watch.

    Attributes:
        number: repeated in the answer.
    """

    number: int


class WriteLease(msgspec.Struct, frozen=True, tag=True):
    """Requests a write of the Lease over the version that its claim names; none there makes it.

    Attributes:
        number: repeated in the answer.
        record: its content.
        taken: whether the holder changes.
    """

    number: int
    record: LeaseRecord
    taken: bool


class LetGoDone(msgspec.Struct, frozen=True, tag=True):
    """Answers :class:`LetGo`: the Lease was let go, or is kept."""


CandidacyOrder = Candidacy | LeaseFound | LeaseAnswer | LetGo


class RoleReport(msgspec.Struct, frozen=True, tag=True):
    """The machine's role, sent whenever it changes and for each :class:`Candidacy`.

    Attributes:
        state: whether it is the gateway.
        gateway: name of the node that is; empty while that is not known.
        standbys: names of the others.
    """

    state: GatewayState
    gateway: str
    standbys: tuple[str, ...]


CandidacyReport = ReadLease | WriteLease | LetGoDone | RoleReport
