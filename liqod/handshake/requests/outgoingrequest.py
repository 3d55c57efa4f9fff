"""The record of one request of this cluster's, as its pursuit reads and writes it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from liqod.apimachinery.kinds import SECRETS
from liqod.cluster.context import ClusterContext
from liqod.errors import ProtocolError
from liqod.handshake.protocol.encoding import pack
from liqod.handshake.protocol.messages import Invited
from liqod.handshake.protocol.requestphase import FINAL_PHASES, RequestEvent, next_phase
from liqod.handshake.requests import outgoingrecord
from liqod.handshake.transport.interfaces import SessionOver
from liqod.model.objects.partial import Secret
from liqod.model.text import printable
from liqod.resources import OUTGOING_PEERINGS, OutgoingPeering
from liqod.resources.peering import ACCEPTED
from liqod.runtime.backoff import Backoff

YES: Final = ("True", "")
HARD: Final = frozenset(("same-id", "itself", "version", "denied", "expired", "cancelled"))
"""Codes after which only another request does better, beside those of invitations. A wrong key is
none: whoever stands on the way would end a request by it."""


class OutgoingRequest(ABC):
    """One OutgoingPeering, and how it is pursued.

    Args:
        name: of the OutgoingPeering.

    Attributes:
        pauses: between tries to reach, or to be peered with, whoever does not answer.
    """

    pauses: Backoff

    def __init__(self, context: ClusterContext, name: str) -> None:
        self._context, self._name = context, name
        self._client = context.client

    def reload(self, context: ClusterContext) -> None:
        """Go by another configuration from now on."""
        self._context = context

    @abstractmethod
    async def run(self) -> bool:
        """One try: whether all is over. Raises LiqodError where it is to be tried after a pause."""

    @abstractmethod
    async def withdraw(self, uid: str) -> None:
        """Notify the other side that a request is withdrawn, if it is there."""

    async def _read(self) -> OutgoingPeering | None:
        """The request as it is; where it expects no key yet, the one that the operator named."""
        name, namespace = self._name, self._context.namespace
        found = await self._client.find(OUTGOING_PEERINGS, name, namespace, decode=OutgoingPeering)
        if found is None or found.spec.key or not found.spec.cluster_id:
            return found
        key = self._context.config.peer(found.spec.cluster_id).key
        if not key:
            return found
        await self._client.patch(OUTGOING_PEERINGS, name, {"spec": {"key": key}}, namespace)
        return await self._client.find(OUTGOING_PEERINGS, name, namespace, decode=OutgoingPeering)

    async def _write(
        self,
        event: RequestEvent | None,
        changes: Mapping[str, Any],
        steps: Mapping[str, tuple[str, ...]] = {},  # only read
    ) -> OutgoingPeering:
        """Write what has happened; the resource as it is then. Raises NotFound where it went."""
        name, namespace = self._name, self._context.namespace
        before = await self._client.get(OUTGOING_PEERINGS, name, namespace, decode=OutgoingPeering)
        wanted = dict(changes)
        if event is not None:
            wanted["phase"] = next_phase("consumer", before.status.phase, event)  # type: ignore[arg-type]
        patch = outgoingrecord.status_patch(before, wanted, steps)
        current = msgspec.to_builtins(before.status)
        if any(current.get(key) != value for key, value in patch["status"].items()):
            await self._client.patch(
                OUTGOING_PEERINGS, name, patch, namespace, subresource="status"
            )
        return await self._client.get(OUTGOING_PEERINGS, name, namespace, decode=OutgoingPeering)

    async def _set_message(self, message: str) -> None:
        await self._write(None, {"message": message})

    async def _refused(self, error: SessionOver) -> bool:
        """Write why the meeting is over; whether that is an end of the request."""
        closed = error.closed
        if closed.code not in HARD and not closed.code.startswith("invitation-"):
            return False
        await self._give_up(
            "expired" if closed.code == "expired" else "refused", closed.reason or closed.code
        )
        return True

    async def _give_up(self, ending: RequestEvent, reason: str) -> None:
        """Write the end of a request that was refused or has expired, and why."""
        why = printable(reason)
        await self._write("asked", {"message": why}, {ACCEPTED: ("False", why)})
        request = await self._write(ending, {"message": why})
        await self._forget_invitation(request)

    async def _invited(self, request: OutgoingPeering) -> Invited | None:
        """The invitation that the request brings. Raises ProtocolError where it is damaged."""
        if not request.spec.invitation_secret:
            return None
        name, namespace = request.spec.invitation_secret, self._context.namespace
        secret = await self._client.find(SECRETS, name, namespace, decode=Secret)
        if secret is None:
            return None  # it was used before: the request is known over there
        data = secret.data or {}
        try:
            return Invited(
                id=data[outgoingrecord.INVITATION_ID].decode(),
                secret=pack(data[outgoingrecord.INVITATION_SECRET]),
            )
        except (KeyError, UnicodeDecodeError) as error:
            raise ProtocolError(f"the Secret {name} holds no invitation") from error

    async def _forget_invitation(self, request: OutgoingPeering) -> None:
        name = request.spec.invitation_secret
        if name:
            await self._client.delete(SECRETS, name, self._context.namespace)


def is_over(request: OutgoingPeering) -> bool:
    """True if nothing is to be done about a request any more.

    A finished peering is still to be reported to the other side; and a lender's work never ends.
    """
    if request.status.phase == "Done" and not request.leaving:
        return not (request.spec.lend or outgoingrecord.is_untold(request))
    return request.leaving or request.status.phase in FINAL_PHASES
