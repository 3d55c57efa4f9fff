"""Makes invitations, redeems them, and deletes them when they are over.

The secret is in the line that ``liqod invite`` prints and nowhere else; here is its hash. Its
bearer is noted in one write over the version that was read, so that an invitation which is good for
one is used by one, however many bring it at the same instant. A bearer that comes again with the
same request and key, interrupted before its request was written down, has used it already; from
then on that record alone says what becomes of it. Times are this cluster's own.
"""

import secrets as random
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.cluster.context import ClusterContext
from liqod.errors import ConfigError, Conflict, NotFound
from liqod.handshake.protocol.invitationtokens import (
    SECRET,
    InvitationToken,
    format_token,
    same_secret,
    secret_hash,
)
from liqod.handshake.protocol.messages import Refused
from liqod.kube import times
from liqod.kube.client import Client
from liqod.kube.controller import Controller
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched, by_name
from liqod.model import ids
from liqod.model.objects.conditions import set_condition
from liqod.resources import INVITATIONS, Invitation
from liqod.resources.peering import VALID, Use

KEPT: Final = 24 * 3600.0
"""Seconds for which an invitation that is over is kept, so that its bearer gets that answer."""
LONGEST: Final = 366 * 24 * 3600.0
"""Seconds for which one may be good."""
APART: Final = 5.0
"""Seconds by which the inviter's clock may differ from the cluster's."""
TRIES: Final = 20
"""How often redeeming is tried where others redeem the same one at the same time."""


class InvitationParameters(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of an invitation that is to be made.

    Attributes:
        addresses: where this cluster's daemon is reached, as ``HOST:PORT``.
        key: SHA-256 of this cluster's public key, hexadecimal.
        lifetime: seconds.
        uses: how many clusters may use it.
        resources: what is granted to each, by resource name; or, to borrow, asked of each.
        borrow: whether it is for clusters that are to lend to this one.
        cluster_id: the only cluster that may use it; empty for any.
        for_key: SHA-256 of the only key that may; empty for any.
    """

    addresses: Sequence[str]
    key: str
    lifetime: float
    uses: int = 1
    resources: dict[str, str] = {}
    borrow: bool = False
    cluster_id: str = ""
    for_key: str = ""


async def invite(
    client: Client, namespace: str, wanted: InvitationParameters
) -> tuple[InvitationToken, str]:
    """Make an invitation; returns the line to hand over, and when it ends.

    Args:
        client: an administrator's.
        namespace: liqod's own.
        wanted: what it is to be.

    Raises:
        ConfigError: it is to last for too long, is for what is no cluster, or an address is none.
    """
    if not 1 <= wanted.lifetime <= LONGEST:
        raise ConfigError("an invitation is good for a second at the least, and a year at the most")
    if wanted.cluster_id:
        ids.check_cluster_id(wanted.cluster_id)
    secret = random.token_bytes(SECRET)
    name = f"invitation-{random.token_hex(4)}"
    now = times.seconds(times.now())
    expires = times.of(now + wanted.lifetime)
    made = {
        "metadata": {"name": name, "labels": {labels.MANAGED: labels.TRUE}},
        "spec": {
            "secretHash": secret_hash(secret),
            "expires": expires,
            "uses": wanted.uses,
            "resources": dict(wanted.resources),
            **({"borrow": True} if wanted.borrow else {}),
            **({"clusterID": wanted.cluster_id} if wanted.cluster_id else {}),
            **({"key": wanted.for_key} if wanted.for_key else {}),
        },
    }
    token = InvitationToken(
        addresses=tuple(wanted.addresses),
        id=name,
        secret=secret,
        key=wanted.key,
        borrow=wanted.borrow,
    )
    format_token(token)  # what cannot be handed over is not made
    live = await client.create(INVITATIONS, made, namespace)
    there = times.seconds(live.metadata.creation_timestamp or times.now())
    if abs(there - now) > APART:
        # This is no machine of the cluster's, and its clock is another: that of the cluster counts.
        expires = times.of(there + wanted.lifetime)
        await client.patch(INVITATIONS, name, {"spec": {"expires": expires}}, namespace)
    return token, expires


class Bearer(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster that brings an invitation.

    Attributes:
        name: of the invitation.
        secret: that was brought.
        cluster_id, key: of the bearer, which has proved the key.
        request: what the bearer calls its request.
        lends: whether it offers to lend, and does not ask to borrow.
    """

    name: str
    secret: bytes
    cluster_id: str
    key: str
    request: str
    lends: bool = False

    def __repr__(self) -> str:
        return f"Bearer({self.name!r}, {self.cluster_id!r})"


async def redeem(client: Client, namespace: str, bearer: Bearer) -> dict[str, int | str] | Refused:
    """Notes the use of an invitation, and returns what it grants to, or requests of, its bearer.

    Returns Refused where it cannot be used.

    One that is not there and one whose secret is another are the same answer.
    """
    for _ in range(TRIES):
        found = await client.find(INVITATIONS, bearer.name, namespace, decode=Invitation)
        refused = problem(found, bearer, times.now())
        if refused is not None:
            return refused
        assert found is not None
        if _has_used(found, bearer):
            return dict(found.spec.resources)
        use = Use(bearer.cluster_id, bearer.key, bearer.request, times.now())
        uses = (*found.status.used_by, use)
        patch = {
            "metadata": {"resourceVersion": found.metadata.resource_version},
            "status": {"used": len(uses), "usedBy": msgspec.to_builtins(uses)},
        }
        try:
            await client.patch(INVITATIONS, bearer.name, patch, namespace, subresource="status")
        except (Conflict, NotFound):
            continue  # somebody else was faster: look again
        return dict(found.spec.resources)
    return Refused(code="busy", reason="too many bring this invitation at once", again=1)


async def mark_entered(client: Client, namespace: str, bearer: Bearer) -> None:
    """Note that the request of a bearer was written down, so that it is let in by that alone."""
    for _ in range(TRIES):
        found = await client.find(INVITATIONS, bearer.name, namespace, decode=Invitation)
        if found is None:
            return
        uses = [
            msgspec.structs.replace(use, entered=True) if _is_use_of(use, bearer) else use
            for use in found.status.used_by
        ]
        patch = {
            "metadata": {"resourceVersion": found.metadata.resource_version},
            "status": {"usedBy": msgspec.to_builtins(uses)},
        }
        with suppress(Conflict, NotFound):
            await client.patch(INVITATIONS, bearer.name, patch, namespace, subresource="status")
            return


def problem(found: Invitation | None, bearer: Bearer, now: str) -> Refused | None:
    """Why an invitation is not valid for its bearer, at a time (RFC 3339). Pure."""
    if found is None or found.leaving or not same_secret(found.spec.secret_hash, bearer.secret):
        return Refused(
            code="invitation-unknown",
            reason="there is no such invitation, or it was withdrawn: ask for another one",
        )
    spec = found.spec
    if spec.borrow != bearer.lends:
        meant = "lend to this cluster" if spec.borrow else "borrow from this cluster"
        return Refused(code="invitation-other", reason=f"the invitation is for who is to {meant}")
    if _has_used(found, bearer):
        return None
    if over(found, now) == "Expired":
        return Refused(
            code="invitation-expired", reason="the invitation has expired: ask for another one"
        )
    if over(found, now) == "Used":
        return Refused(
            code="invitation-used", reason="the invitation has been used: ask for another one"
        )
    if (spec.cluster_id or bearer.cluster_id) != bearer.cluster_id or (
        spec.key or bearer.key
    ) != bearer.key:
        return Refused(
            code="invitation-other", reason="the invitation is for another cluster than this one"
        )
    return None


def over(found: Invitation, now: str) -> str:
    """Why an invitation lets nobody more in: ``Expired`` or ``Used``; empty while it does. Pure."""
    try:
        if times.seconds(found.spec.expires) <= times.seconds(now):
            return "Expired"
    except ValueError:
        return "Expired"  # whoever wrote it by hand wrote no time
    return "Used" if len(found.status.used_by) >= found.spec.uses else ""


def _has_used(found: Invitation, bearer: Bearer) -> bool:
    """True if this very request has used it, and was interrupted before it was written down."""
    return any(_is_use_of(use, bearer) and not use.entered for use in found.status.used_by)


def _is_use_of(use: Use, bearer: Bearer) -> bool:
    mine = (bearer.cluster_id, bearer.key, bearer.request)
    return (use.cluster_id, use.key, use.request) == mine


class Invitations(Controller[str]):
    """Keeps the condition of each invitation that shows if it is valid, and deletes old ones."""

    def __init__(self, context: ClusterContext) -> None:
        self._client = context.client
        self._namespace = context.namespace
        self._invitations = Watched(INVITATIONS, by_name, Selection(context.namespace))
        super().__init__(context, "invitations", self._invitations)

    async def reconcile(self, name: str) -> float | None:
        """Write the condition where it has changed, or delete an invitation that is long over."""
        found = self._invitations.store.decode((self._namespace, name), Invitation)
        if found is None or found.leaving:
            return None
        now = times.now()
        try:
            left = times.seconds(found.spec.expires) - times.seconds(now)
        except ValueError:
            left = 0.0
        if left < -KEPT:
            await self._client.delete(INVITATIONS, name, self._namespace, uid=found.metadata.uid)
            return None
        reason = over(found, now)
        before = msgspec.to_builtins(found.status.conditions)
        after = set_condition(
            before, VALID, "False" if reason else "True", now=now, reason=reason or "Open"
        )
        if after != before:
            patch = {"status": {"conditions": after}}
            await self._client.patch(
                INVITATIONS, name, patch, self._namespace, subresource="status"
            )
        return max(left, 0.0) + 0.5 if left > 0 else left + KEPT + 1.0
