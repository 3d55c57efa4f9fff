"""Lends to the maker of an invitation to borrow: shows what is asked, and lets somebody agree.

The daemon dials and asks its inbox, as for anybody who asks; here the entry of that inbox is
decided, by the same procedure as ``liqod inbox accept``. The request shown bounds what is lent.
"""

from contextlib import suppress
from typing import Final

from liqod.cli import presence
from liqod.cli.frame import Frame
from liqod.errors import Conflict, LiqodError, Misuse
from liqod.kube.client import Client
from liqod.model.objects import quantities
from liqod.procedures import answering, peeringrequest
from liqod.procedures.peeringrequest import PeeringRequest
from liqod.resources import IncomingPeering, OutgoingPeering

WAITS: Final = "Waiting"


async def lend(
    frame: Frame, request: PeeringRequest, most: dict[str, str], *, yes: bool, namespace: str
) -> None:
    """Have the daemon offer, decide about the request, and wait for the result.

    Args:
        frame: of the command.
        request: the offer.
        most: what is lent at the most, by resource name; of what is not named, what is asked.
        yes: whether nobody is to be asked.
        namespace: liqod's own.

    Raises:
        ConfigError: it has come to another end.
        Misuse: nobody can be asked, and nobody said ``--yes``; the request waits in the inbox.
    """
    where = ", ".join(request.addresses)
    async with (
        frame.client() as client,
        presence.daemon(client, namespace, frame.progress, frame.timings),
    ):
        frame.progress(f"have this cluster's daemon dial who wants to borrow ({where})")
        await peeringrequest.ask(client, namespace, request)
        frame.goes_on = peeringrequest.going_on(namespace, request.name)
        lender = OfferConfirmation(frame, client, namespace, most, yes=yes)
        done = await peeringrequest.wait(
            client, namespace, request.name, frame.progress, lender.shown
        )
    status = done.status
    granted = {name: f"{amount}" for name, amount in status.granted.items()}
    result = {"clusterID": status.cluster_id, "granted": granted, "words": status.words}
    if not frame.show({**result, "key": status.key}):
        amounts = ", ".join(f"{name} {n}" for name, n in granted.items())
        frame.say(f"{status.cluster_id} borrows from this cluster: {amounts}")


class OfferConfirmation:
    """Has somebody say yes to an offer to lend, the first time that it is known what is asked.

    Args:
        frame: asks the one who runs the command.
        client: of this cluster.
        namespace: of this cluster's daemon.
        most: the most of each resource that is lent.
        yes: whether it is confirmed already.
    """

    def __init__(
        self, frame: Frame, client: Client, namespace: str, most: dict[str, str], *, yes: bool
    ) -> None:
        self._frame, self._client, self._namespace = frame, client, namespace
        self._most, self._yes, self._asked = most, yes, False

    async def shown(self, found: OutgoingPeering) -> None:
        """Look at the offer once more.

        Raises:
            SystemExit: it was denied.
            Misuse: nobody is there who could be asked.
        """
        if self._asked or found.status.phase != WAITS:
            return
        entry = await self._entry(found)
        if entry is None:
            return
        self._asked = True
        asked = {name: f"{amount}" for name, amount in entry.spec.resources.items()}
        bound = {**asked, **_less(asked, self._most)}
        try:
            self._frame.confirm(_sentence(entry, bound), yes=self._yes)
        except SystemExit:
            with suppress(LiqodError):
                await answering.decide(self._client, self._namespace, entry, answering.denial())
            raise
        except Misuse as error:
            raise Misuse(f"{error}; or `liqod inbox accept {entry.name}`") from None
        try:
            decision = answering.acceptance(entry, bound)
            await answering.decide(self._client, self._namespace, entry, decision)
        except Conflict:
            self._asked = False  # it is another question now, such as one with other words

    async def _entry(self, found: OutgoingPeering) -> IncomingPeering | None:
        """The request of the cluster that was dialled, while it waits to be decided."""
        for each in await answering.entries(self._client, self._namespace):
            same = (each.spec.cluster_id, each.status.words) == (
                found.status.cluster_id,
                found.status.words,
            )
            if same and each.status.phase == WAITS:
                return each
        return None


def _less(asked: dict[str, str], most: dict[str, str]) -> dict[str, str]:
    """The most that is lent, where that is less than was asked."""
    return {
        name: text
        for name, text in most.items()
        if name not in asked or quantities.parse(text) < quantities.parse(asked[name])
    }


def _sentence(entry: IncomingPeering, bound: dict[str, str]) -> str:
    amounts = ", ".join(f"{name} {amount}" for name, amount in bound.items())
    rest = "what this cluster grants by default" if not amounts else "the default of the rest"
    who = entry.spec.cluster_id
    return (
        f"lends to {who}, whose pods run here then: {amounts}{' and ' if amounts else ''}{rest}. "
        f"{who} shows the words {entry.status.words}"
    )
