"""``peering.liqod.io``: who asks to peer with whom, who may unasked, and what came of it.

All three are in liqod's own namespace of one cluster and cross to no other: what crosses is the
handshake (docs/background/handshake.md). The objects of a peering afterwards are in
:mod:`liqod.resources.authentication`.
"""

from typing import Annotated, ClassVar

from msgspec import field

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import Kind
from liqod.resources.base import (
    AGE,
    ID_PATTERN,
    MAX_QUANTITIES,
    Base,
    ClusterID,
    Column,
    Definition,
    Int32,
    Quantities,
    Resource,
    Time,
    immutable,
    one_of,
    schema,
)

GROUP = "peering.liqod.io"
VERSION = "v1alpha1"

INVITATIONS = Kind(GROUP, VERSION, "Invitation", "invitations")
OUTGOING_PEERINGS = Kind(GROUP, VERSION, "OutgoingPeering", "outgoingpeerings")
INCOMING_PEERINGS = Kind(GROUP, VERSION, "IncomingPeering", "incomingpeerings")

ACCEPT = "Accept"
DENY = "Deny"
UNDECIDED = ""

VALID = "Valid"
REACHED = "Reached"
IDENTIFIED = "Identified"
ASKED = "Asked"
ACCEPTED = "Accepted"
APPROVED = "Approved"
EXCHANGED = "Exchanged"
PEERED = "Peered"
NOTED = "Noted"
JOINED = "NetworkJoined"
NOT_SEEN = "NotSeen"
"""Reason of Reached where nobody says where the cluster is."""

HASH_PATTERN = "^[0-9a-f]{64}$"
MAX_ADDRESSES = 16
"""Addresses of one cluster; an invitation's line has a few."""
MAX_LABELS = 64
"""Labels that a cluster may tell of itself."""
MAX_USES = 1000
"""Uses of one invitation, each of which is noted in its status."""

Digest = Annotated[str, schema(pattern=HASH_PATTERN)]
OptionalDigest = Annotated[str, schema(pattern=f"{HASH_PATTERN}|^$")]


PHASES = (
    *("", "Waiting", "Accepted", "Denied", "Refused"),
    *("Expired", "Cancelled", "Done", "Failed"),
)
"""How a request stands (docs/background/handshake.md); empty before it has crossed."""


class StepCondition(Base, frozen=True, omit_defaults=True, rename="camel"):
    """How one step fares."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Time = ""


class InvitationSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The clusters that an invitation lets in, and until when.

    Attributes:
        secret_hash: SHA-256 of its secret, hexadecimal; the secret itself is kept nowhere here.
        expires: when it ends, by this cluster's clock.
        uses: how many clusters may use it.
        resources: what is granted to each of them without a person, by resource name; or, where
            this cluster borrows, what it asks of each.
        borrow: whether it is for clusters that lend to this one, and not for those that borrow.
        cluster_id: the only cluster that may use it; empty for any.
        key: SHA-256 of the only public key that may, hexadecimal; empty for any.
    """

    secret_hash: Annotated[Digest, schema(**immutable("an invitation keeps its secret"))]
    expires: Time
    uses: Annotated[Int32, schema(minimum=1, maximum=MAX_USES, default=1)] = 1
    resources: Annotated[Quantities, schema(maxProperties=MAX_QUANTITIES)] = {}
    borrow: Annotated[bool, schema(**immutable("an invitation is for one or the other"))] = False
    cluster_id: str = field(name="clusterID", default="")
    key: OptionalDigest = ""


class Use(Base, frozen=True, omit_defaults=True, rename="camel"):
    """A use of an invitation: by whom, with which key and request, and when.

    Attributes:
        cluster_id, key, request: who, and for what.
        at: when.
        entered: whether what it asks was written down here: from then on that record says what
            becomes of it, and not this one.
    """

    cluster_id: str = field(name="clusterID")
    key: str
    request: str
    at: Time = ""
    entered: bool = False


class InvitationStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The uses of an invitation, and its validity.

    Attributes:
        used: how often it has been used.
        used_by: by whom.
        conditions: whether it is valid still.
    """

    used: Int32 = 0
    used_by: Annotated[tuple[Use, ...], schema(maxItems=MAX_USES)] = ()
    conditions: tuple[StepCondition, ...] = ()


class Invitation(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """Lets the holder of its secret borrow from this cluster, or lend to it; `liqod invite` makes
    it."""

    KIND: ClassVar[Kind] = INVITATIONS
    spec: InvitationSpec = InvitationSpec("", "")
    status: InvitationStatus = InvitationStatus()


class OutgoingPeeringSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The cluster that this one asks, and for what.

    Attributes:
        addresses: where it listens, as host:port, the first that answers.
        cluster_id: the id that it must have; empty where only its key is known.
        key: SHA-256 of the public key that it must have, hexadecimal; while it is empty a person
            has to compare the words, and who has done so writes the key of the status here. The
            daemon writes the key here that the configuration names in ``[[peers]]``.
        invitation_secret: name of the Secret, in the same namespace, with the id and the secret of
            an invitation; it is deleted when it has been used.
        lend: whether this cluster offers to lend to the other one, and does not ask it. The
            IncomingPeering that comes of it decides what is lent.
        awaited: whether the other side dials this cluster, which waits for it.
        resources: what is asked for, by resource name; nothing where this cluster lends.
        slice: name of the slice and of its virtual node; empty for the provider's id.
        networking: whether the networks are to be joined, too.
        replace: the operator's word that a provider which is known by its id has another key, or is
            elsewhere now.
        expires: when this is given up if nobody has answered; empty for a week after it was made.
    """

    addresses: Annotated[tuple[str, ...], schema(maxItems=MAX_ADDRESSES)] = ()
    cluster_id: Annotated[str, schema(pattern=f"{ID_PATTERN}|^$")] = field(
        name="clusterID", default=""
    )
    key: OptionalDigest = ""
    invitation_secret: str = ""
    lend: Annotated[bool, schema(**immutable("a request is for one or the other"))] = False
    awaited: Annotated[bool, schema(**immutable("a request is for one or the other"))] = False
    resources: Annotated[Quantities, schema(maxProperties=MAX_QUANTITIES)] = {}
    slice: str = ""
    networking: bool = False
    replace: bool = False
    expires: str = ""


class OutgoingPeeringStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """How far it has come.

    Attributes:
        cluster_id: the id that the other side has proved to be known by.
        key: SHA-256 of the public key that it has proved to have, hexadecimal.
        words: what both sides show, for two people to compare.
        granted: what the other side grants, by resource name.
        address: the address that answered.
        phase: how the request stands.
        next_try: when it is tried again; empty while it is being tried, and when all is done.
        message: what is waited for, or why it does not go on.
        conditions: Reached, Identified, Asked, Accepted, Exchanged, Peered, Noted, and where the
            networks were to be joined NetworkJoined.
    """

    cluster_id: str = field(name="clusterID", default="")
    key: str = ""
    words: str = ""
    granted: Quantities = {}
    address: str = ""
    phase: Annotated[str, one_of(*PHASES)] = ""
    next_try: str = ""
    message: str = ""
    conditions: tuple[StepCondition, ...] = ()


class OutgoingPeering(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """Asks another cluster to lend to this one, or offers to lend to it; `liqod peer` makes it, and
    the daemon goes on."""

    KIND: ClassVar[Kind] = OUTGOING_PEERINGS
    spec: OutgoingPeeringSpec = OutgoingPeeringSpec()
    status: OutgoingPeeringStatus = OutgoingPeeringStatus()

    @property
    def is_written(self) -> bool:
        """True if neither a command nor the daemon made it: it declares a peering to borrow."""
        made = {labels.MANAGED, labels.CONFIGURED} & self.metadata.labels.keys()
        return not (made or self.spec.lend or self.spec.awaited)


class IncomingPeeringSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The cluster that asks, its request, and the decision of an operator.

    Attributes:
        cluster_id: the id by which it asks to be known.
        public_key: PEM of the key that it has proved to have.
        request: what it calls this request, by which it asks again after an interruption.
        resources: what it asks for, by resource name.
        labels: what it says of itself; nobody has checked it.
        source: the address that it came from.
        networking: whether it asks for the networks to be joined.
        invitation: name of the Invitation that it brought; empty for none.
        decision: Accept or Deny; empty while nobody has decided.
        granted: what is granted, by resource name; what is not named is granted as it was asked
            for, at the most.
        always: whether the decision is good for later requests of the same cluster and key, too.
        replace: the operator's word that a consumer which is known by its id has another key now.
    """

    cluster_id: Annotated[
        ClusterID, schema(**immutable("whoever asks is somebody else under another id"))
    ] = field(name="clusterID", default="")
    public_key: str = ""
    request: str = ""
    resources: Annotated[Quantities, schema(maxProperties=MAX_QUANTITIES)] = {}
    labels: Annotated[dict[str, str], schema(maxProperties=MAX_LABELS)] = {}
    source: str = ""
    networking: bool = False
    invitation: str = ""
    decision: Annotated[str, one_of(UNDECIDED, ACCEPT, DENY, default=UNDECIDED)] = UNDECIDED
    granted: Annotated[Quantities, schema(maxProperties=MAX_QUANTITIES)] = {}
    always: bool = False
    replace: bool = False


class IncomingPeeringStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """How far it has come.

    Attributes:
        phase: how the request stands.
        request: the one that this status is about.
        words: what both sides show, for two people to compare.
        reason: who or what has decided, or why the answer is no.
        expires: when it is forgotten if nothing comes of it.
        granted: what its slices may be granted together, while it is accepted.
        conditions: Identified, Approved, Exchanged, Peered.
    """

    phase: Annotated[str, one_of(*PHASES)] = ""
    request: str = ""
    words: str = ""
    reason: str = ""
    expires: str = ""
    granted: Quantities = {}
    conditions: tuple[StepCondition, ...] = ()


class IncomingPeering(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """Another cluster asks to borrow from this one; `liqod inbox` lists and decides it."""

    KIND: ClassVar[Kind] = INCOMING_PEERINGS
    spec: IncomingPeeringSpec = IncomingPeeringSpec()
    status: IncomingPeeringStatus = IncomingPeeringStatus()


def _shown(step: str) -> str:
    return f'.status.conditions[?(@.type=="{step}")].status'


DEFINITIONS = (
    Definition(
        Invitation,
        ("inv",),
        (
            Column("Valid", _shown(VALID)),
            Column("Used", ".status.used", "integer"),
            Column("Uses", ".spec.uses", "integer"),
            Column("Expires", ".spec.expires"),
            Column("For", ".spec.clusterID"),
            Column("Borrow", ".spec.borrow", "boolean", priority=1),
            Column("CPU", ".spec.resources.cpu", priority=1),
            Column("Memory", ".spec.resources.memory", priority=1),
            AGE,
        ),
        required=("spec",),
    ),
    Definition(
        OutgoingPeering,
        ("outp",),
        (
            Column("Cluster", ".status.clusterID"),
            Column("Words", ".status.words"),
            Column("Phase", ".status.phase"),
            Column("Peered", _shown(PEERED)),
            Column("Message", ".status.message"),
            Column("Address", ".status.address", priority=1),
            Column("Lend", ".spec.lend", "boolean", priority=1),
            AGE,
        ),
    ),
    Definition(
        IncomingPeering,
        ("inp",),
        (
            Column("Cluster", ".spec.clusterID"),
            Column("Words", ".status.words"),
            Column("CPU", ".spec.resources.cpu"),
            Column("Memory", ".spec.resources.memory"),
            Column("Decision", ".spec.decision"),
            Column("Phase", ".status.phase"),
            Column("Peered", _shown(PEERED), priority=1),
            Column("Source", ".spec.source", priority=1),
            AGE,
        ),
    ),
)
