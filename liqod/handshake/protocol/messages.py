"""The messages of two daemons that meet: JSON, one text message of a websocket each.

Each message is a struct tagged by ``type``. All input is hostile until it is decoded: every length
and count has a bound that is stated here, names hold no control character, ids, keys,
quantities and encodings are checked. Fields that are not known are ignored, so that a newer daemon
can say more to an older one. No time of day crosses, only seconds from now: clocks may differ.
``docs/background/handshake.md`` tells in which order. Pure.
"""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from liqod.errors import ConfigError, ProtocolError
from liqod.handshake.protocol.encoding import unpack
from liqod.handshake.protocol.invitationtokens import address_problem
from liqod.identity import keys
from liqod.model import ids
from liqod.model.objects import quantities
from liqod.model.text import is_fit, printable

MAX_MESSAGE: Final = 64 * 1024
"""Bytes of one message."""
KUBECONFIG_LIMIT: Final = 30_000
"""Characters of a kubeconfig: with every line feed escaped, it still fits a message."""
PEM_LIMIT: Final = 1_000
"""Characters of a public key; RSA of 4096 bits has 800."""
REASON_LIMIT: Final = 1_000
LONGEST: Final = 366 * 24 * 3600
"""Seconds that a request may wait, and the most that a peer is asked to wait."""
SAID: Final = 300
"""Characters of what is said of a message that is none: some of it may be in it."""
PEM_BEGINS: Final = "-----BEGIN PUBLIC KEY-----"

Versions = Annotated[tuple[Annotated[int, Meta(ge=1, le=65535)], ...], Meta(max_length=16)]
Capability = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9./-]{0,62}\Z")]
Capabilities = Annotated[tuple[Capability, ...], Meta(max_length=64)]
ClusterId = Annotated[str, Meta(max_length=ids.ID_LIMIT)]
PublicKey = Annotated[str, Meta(max_length=PEM_LIMIT)]
Digest = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{43}\Z")]
"""32 bytes, base64url without padding."""
Signature = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{64,1400}\Z")]
"""64 bytes of Ed25519 to 1,024 of RSA, base64url without padding."""
Seconds = Annotated[int, Meta(ge=0, le=LONGEST)]
RequestId = Annotated[
    str, Meta(pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")
]
Reason = Annotated[str, Meta(max_length=REASON_LIMIT)]
Code = Annotated[str, Meta(pattern=r"^[a-z][a-z-]{0,39}\Z")]
Quantities = Annotated[
    dict[Annotated[str, Meta(max_length=253)], Annotated[str, Meta(max_length=64)]],
    Meta(max_length=32),
]
Labels = Annotated[
    dict[Annotated[str, Meta(max_length=317)], Annotated[str, Meta(max_length=63)]],
    Meta(max_length=32),
]
Addresses = Annotated[tuple[Annotated[str, Meta(max_length=262)], ...], Meta(max_length=16)]

_RESOURCE = re.compile(
    r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
)


class PeerMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """Base class of all messages."""


class Hello(PeerMessage, frozen=True, kw_only=True, tag="hello"):
    """The first message of the dialler.

    Attributes:
        versions: of the protocol that it speaks.
        capabilities: what it can do beyond; unknown ones are ignored.
        cluster_id: its cluster.
        public_key: of its cluster, PEM.
        commitment: SHA-256 of its nonce.
    """

    versions: Versions
    capabilities: Capabilities = ()
    cluster_id: ClusterId
    public_key: PublicKey
    commitment: Digest


class Welcome(PeerMessage, frozen=True, kw_only=True, tag="welcome"):
    """The listener's answer.

    Attributes:
        version: the highest that both speak.
        versions: all that it speaks: the dialler checks the choice.
        nonce: 32 bytes.
    """

    version: Annotated[int, Meta(ge=1, le=65535)]
    versions: Versions
    capabilities: Capabilities = ()
    cluster_id: ClusterId
    public_key: PublicKey
    nonce: Digest


class Prove(PeerMessage, frozen=True, kw_only=True, tag="prove"):
    """The dialler's nonce, and its signature over the meeting."""

    nonce: Digest
    signature: Signature


class Proved(PeerMessage, frozen=True, kw_only=True, tag="proved"):
    """The listener's signature over the meeting."""

    signature: Signature


class Invited(msgspec.Struct, frozen=True, kw_only=True):
    """The proof of an invitation that its bearer shows.

    Attributes:
        id: name of the Invitation.
        secret: 16 bytes, base64url without padding.
    """

    id: Annotated[str, Meta(max_length=63)]
    secret: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{22}\Z")]

    def __repr__(self) -> str:
        return f"Invited({self.id!r})"


class Ask(PeerMessage, frozen=True, kw_only=True, tag="ask"):
    """A consumer's request for a peering; the same one may be sent again after a reconnect.

    Attributes:
        request: uid of the OutgoingPeering.
        resources: quantities by resource name; those of a slice.
        slice: name of the ResourceSlice, empty for none.
        invitation: what it was invited by.
        labels: of its cluster, for the provider's policies; nothing vouches for them.
        networking: whether the networks are to be joined.
        lifetime: seconds from now after which the request is no longer meant.
    """

    request: RequestId
    resources: Quantities = {}
    slice: Annotated[str, Meta(max_length=ids.SLICE_LIMIT)] = ""
    invitation: Invited | None = None
    labels: Labels = {}
    networking: bool = True
    lifetime: Seconds


class Offer(PeerMessage, frozen=True, kw_only=True, tag="offer"):
    """A dialler offers to lend: the listener may ask and attach, and the dialler answers.

    Attributes:
        request: uid of its OutgoingPeering.
        invitation: what it was invited by; None where the listener knows it already.
    """

    request: RequestId
    invitation: Invited | None = None


class Attach(PeerMessage, frozen=True, kw_only=True, tag="attach"):
    """A tenant opens the channel that is kept."""


class Attached(PeerMessage, frozen=True, kw_only=True, tag="attached"):
    """It is open."""


class Pending(PeerMessage, frozen=True, kw_only=True, tag="pending"):
    """The request is not decided yet; may come again.

    Attributes:
        lifetime: seconds from now after which the request ends by itself.
    """

    lifetime: Seconds


class Accepted(PeerMessage, frozen=True, kw_only=True, tag="accepted"):
    """The provider agrees.

    Attributes:
        granted: quantities by resource name: all that the provider lends, whether it was named in
            the request or is the provider's own default.
        kubeconfig: of a peering user, good for an hour at most. It is another's text: read it as
            ``credentials.from_other_side`` does, which runs no program and opens no file of ours.
        addresses: ``HOST:PORT`` under which the provider's API server may be reached directly.
        networking: whether the networks are joined.
        namespace: of the tenant at the provider, empty for the default.
    """

    granted: Quantities = {}
    kubeconfig: Annotated[str, Meta(min_length=1, max_length=KUBECONFIG_LIMIT)]
    addresses: Addresses = ()
    networking: bool = True
    namespace: Annotated[str, Meta(max_length=ids.LABEL_LIMIT)] = ""

    def __repr__(self) -> str:
        return f"Accepted(granted={self.granted!r}, namespace={self.namespace!r})"


class Denied(PeerMessage, frozen=True, kw_only=True, tag="denied"):
    """The provider does not agree: a person or a policy decided so."""

    reason: Reason = ""


class Refused(PeerMessage, frozen=True, kw_only=True, tag="refused"):
    """Either side ends the meeting; see ``statemachine`` for the codes.

    Attributes:
        code: what is the matter, for programs; unknown codes are shown as they are.
        reason: the same for people, with what to do next.
        again: seconds after which another try may do better, None if it will not by itself.
    """

    code: Code
    reason: Reason = ""
    again: Seconds | None = None


class Cancel(PeerMessage, frozen=True, kw_only=True, tag="cancel"):
    """The consumer takes the request back; at any time until it has sent :class:`Done`."""

    request: RequestId


class Done(PeerMessage, frozen=True, kw_only=True, tag="done"):
    """The consumer has made the objects of the peering."""

    request: RequestId


class Failed(PeerMessage, frozen=True, kw_only=True, tag="failed"):
    """The consumer could not, though it was accepted."""

    request: RequestId
    reason: Reason = ""


class Noted(PeerMessage, frozen=True, kw_only=True, tag="noted"):
    """The provider keeps in mind what was said of a request (:class:`Cancel`, :class:`Done`,
    :class:`Failed`); until then the consumer says it again whenever they meet."""

    request: RequestId


FromBorrower = Ask | Attach | Cancel | Done | Failed
FromLender = Pending | Accepted | Denied | Attached | Noted
AnyMessage = Hello | Welcome | Prove | Proved | Offer | FromBorrower | FromLender | Refused
Report = Cancel | Done | Failed

_decoder: Final = msgspec.json.Decoder(
    Hello
    | Prove
    | Offer
    | Ask
    | Attach
    | Cancel
    | Done
    | Failed
    | Refused
    | Welcome
    | Proved
    | Pending
    | Accepted
    | Denied
    | Attached
    | Noted
)


def encode(message: AnyMessage) -> str:
    """A message as it crosses.

    Raises:
        ProtocolError: it has more than :data:`MAX_MESSAGE` bytes.
    """
    raw = msgspec.json.encode(message)
    if len(raw) > MAX_MESSAGE:
        raise ProtocolError(f"the message has {len(raw)} bytes, more than {MAX_MESSAGE}")
    return raw.decode()


def decode(text: str) -> AnyMessage:
    """The message that a text is.

    Raises:
        ProtocolError: it is none, is too large, or holds what no message may hold. Nothing else is
            raised, whatever the text.
    """
    try:
        raw = text.encode()
        if len(raw) > MAX_MESSAGE:
            raise ProtocolError(f"the message has {len(raw)} bytes, more than {MAX_MESSAGE}")
        message: AnyMessage = _decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ProtocolError(f"this is no message: {printable(str(error))[:SAID]}") from None
    if problem := _problem(message):
        raise ProtocolError(f"{message.__struct_config__.tag}: {printable(problem)[:SAID]}")
    return message


def _problem(message: AnyMessage) -> str:
    """The problem of a message that its types do not catch; empty where there is none."""
    check = _CHECKS.get(type(message))
    return check(message) if check is not None else ""


def _check_cluster(message: Hello | Welcome) -> str:
    if problem := ids.cluster_id_problem(message.cluster_id):
        return problem
    if not message.versions:
        return "it names no version"
    if not message.public_key.startswith(PEM_BEGINS):
        return "its public key is not in PEM"
    try:
        keys.load_public(message.public_key.encode())
    except ProtocolError as error:
        return str(error)
    return _encodings(message.nonce if isinstance(message, Welcome) else message.commitment)


def _encodings(*texts: str) -> str:
    try:
        for text in texts:
            unpack(text)
    except ProtocolError as error:
        return str(error)
    return ""


def _check_ask(ask: Ask) -> str:
    if problem := quantities_problem(ask.resources):
        return problem
    if ask.slice and (problem := ids.slice_name_problem(ask.slice) or ""):
        return problem
    if not all(map(is_fit, (*ask.labels, *ask.labels.values()))):
        return "a label holds what does not show itself"
    return _check_invited(ask)


def _check_invited(message: Ask | Offer) -> str:
    if message.invitation is None:
        return ""
    if not ids.is_dns_subdomain(message.invitation.id):
        return "the invitation's id is no name"
    return _encodings(message.invitation.secret)


def _check_accepted(accepted: Accepted) -> str:
    if problem := quantities_problem(accepted.granted):
        return problem
    if accepted.namespace and (problem := ids.namespace_problem(accepted.namespace) or ""):
        return problem
    return next(filter(None, map(address_problem, accepted.addresses)), "")


def quantities_problem(amounts: Mapping[str, str]) -> str:
    """Why these are no amounts of resources, or nothing."""
    for name, amount in amounts.items():
        if not _RESOURCE.fullmatch(name):
            return f"{name[:80]!r} names no resource"
        try:
            if quantities.parse(amount) < 0:
                return f"{name} is less than nothing"
        except ConfigError as error:
            return str(error)
    return ""


def _check_reason(message: Denied | Refused | Failed) -> str:
    return "" if is_fit(message.reason) else "the reason holds what does not show itself"


_CHECKS: Final[dict[type, Callable[[Any], str]]] = {
    Hello: _check_cluster,
    Welcome: _check_cluster,
    Prove: lambda prove: _encodings(prove.nonce, prove.signature),
    Proved: lambda proved: _encodings(proved.signature),
    Offer: _check_invited,
    Ask: _check_ask,
    Accepted: _check_accepted,
    Denied: _check_reason,
    Refused: _check_reason,
    Failed: _check_reason,
}
