"""Replaces a consumer's key by its next one, on the consumer's own statement. Pure.

The statement comes in the consumer's standing Renew, beside the requests of the next key. It is
followed from the present key, and from no other: a repetition changes nothing, and of
two statements about one key the second is refused. The statement followed is kept on the Tenant,
where it can be verified again: a certificate of the former key proves that the next one was let in,
too.

Until the consumer has all that it needs for its next key, it has its rights under the names with
the former one as well (:data:`liqod.apimachinery.labels.FORMER_KEY` on its tenant namespace).
"""

import binascii
from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.meta import Partial
from liqod.cluster.ownid import PublicKeys
from liqod.cluster.tenancy import former_of
from liqod.errors import ProtocolError
from liqod.identity import certificaterequests, keys, successions
from liqod.identity.successions import Succession
from liqod.kube import times
from liqod.model import ids
from liqod.resources import Renew, Tenant
from liqod.resources.authentication import CONTROL_PLANE

LIMIT: Final = 16_384
"""Characters of a consumer's statement on its next key; of RSA keys of 4096 bits it has 9,000."""


class NextKey(msgspec.Struct, frozen=True):
    """A consumer's statement of its next key, with the requests of that key.

    Attributes:
        statement: the text.
        what: its content, signed by both keys.
        plain, keyed: requests of the next key, PEM: as Liqo's, and with the key in the name.
    """

    statement: str
    what: Succession
    plain: bytes
    keyed: bytes


def next_key(tenant: Tenant, renews: Iterable[Renew]) -> NextKey | str | None:
    """The next key of a consumer, or the reason that it is not followed; None for none.

    Args:
        tenant: an accepted one.
        renews: of the same consumer.
    """
    texts = (
        each.metadata.annotations.get(labels.SUCCESSION, "")
        for each in renews
        if each.spec.identity_type == CONTROL_PLANE
    )
    text = next(filter(None, texts), "")
    if not text or _statement(text) == tenant.metadata.annotations.get(labels.SUCCESSION):
        return None
    try:
        return _read(text, tenant)
    except ProtocolError as error:
        return f"another key of {tenant.spec.cluster_id} is not followed: {error}"


def decoded(text: str) -> bytes:
    """The bytes of a text in base64; empty where it is none."""
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _statement(text: str) -> str:
    return text.partition(" ")[0]


def _read(text: str, tenant: Tenant) -> NextKey:
    parts = text.split(" ")
    if len(text) > LIMIT or len(parts) != 3:
        raise ProtocolError("it is no statement with two requests")
    peer = tenant.spec.cluster_id
    what = successions.verify_for(parts[0], peer, keys.print_of(tenant.spec.public_key))
    found = NextKey(parts[0], what, decoded(parts[1]), decoded(parts[2]))
    for csr, user in ((found.plain, peer), (found.keyed, ids.keyed(peer, what.next))):
        group = labels.CONTROL_PLANE_GROUP
        certificaterequests.check(csr, common_name=user, organization=group, public_key=what.public)
    return found


def problem(offer: NextKey, known: str) -> str:
    """The reason why a key is not followed though its statement holds; empty where it is. Pure.

    Args:
        offer: the statement.
        known: SHA-256 of the key that is noted on the tenant namespace; empty for none.
    """
    if known in ("", offer.what.former, offer.what.next):
        return ""
    return (
        f"another key ({known[:16]}…) has followed {offer.what.former[:16]}… already, and"
        f" {offer.what.next[:16]}… does not: whoever states it has the former key, too"
    )


def has_followed(tenant: Tenant, former: str) -> bool:
    """True if the Tenant's key follows that one (SHA-256, hexadecimal) by its annotation."""
    text = tenant.metadata.annotations.get(labels.SUCCESSION, "")
    if not text:
        return False
    try:
        found = successions.verify_for(text, tenant.spec.cluster_id, former)
        return found.next == keys.print_of(tenant.spec.public_key)
    except ProtocolError:
        return False


def former_in(namespace: bytes | None) -> str:
    """SHA-256 of the key before, of a tenant namespace that is given as JSON; empty for none."""
    if namespace is None:
        return ""
    return former_of(msgspec.json.decode(namespace, type=Partial).metadata.annotations)


def until(marks: Mapping[str, str]) -> float | None:
    """The epoch second at which the former names lose their rights; None while that is open."""
    at = marks.get(labels.FORMER_KEY, "").partition(" ")[2]
    try:
        return times.seconds(at) if at else None
    except ValueError:
        return 0.0


def key_notes(renew: Renew, tenant: Tenant, own: PublicKeys) -> dict[str, str | None]:
    """The annotations that a Renew lacks that show a consumer the keys recorded here.

    They name the key that identifies the consumer, so that its next one would be followed, and the
    key this cluster has.

    Args:
        renew: the consumer's.
        tenant: the consumer's, whose key identifies it.
        own: this cluster's keys.
    """
    try:
        known = keys.print_of(tenant.spec.public_key)
    except ProtocolError:
        return {}
    told = own.data.succession.decode(errors="replace")
    wanted = {labels.KNOWN_KEY: known, labels.PROVIDER_SUCCESSION: told or None}
    said = renew.metadata.annotations
    return {key: text for key, text in wanted.items() if said.get(key) != text}
