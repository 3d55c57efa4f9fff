"""Meeting another cluster by the daemons of both, as ``liqod peer`` asks for it and waits.

The daemon does it; here the request is made, the words are compared where nothing else proves who
is there, and the result is shown. For an invitation to borrow it is this cluster that lends: the
entry of its daemon's inbox is decided, by the same procedure as ``liqod inbox accept``, and the
request shown bounds what is lent.
"""

import sys
from contextlib import suppress
from typing import Any, Final

import typer

from liqod.cli import presence, terminal, typed
from liqod.cli.frame import Frame
from liqod.errors import Conflict, LiqodError, Misuse
from liqod.kube.client import Client
from liqod.model.objects import quantities
from liqod.procedures import overcommit, peeringrequest, slicenodes, spreadwarning
from liqod.procedures.peeringrequest import PeeringRequest
from liqod.procedures.resourcerequest import ResourceRequest
from liqod.resources import IncomingPeering, OutgoingPeering


def request_of(
    whom: str, asked: ResourceRequest, *, replace: bool, networking: bool, words: str = ""
) -> PeeringRequest:
    """The request that a command line means.

    Raises:
        Misuse: the invitation is none, or is damaged, and no part of it is shown; nothing was given
            on standard input, or no text; or the id is none.
    """
    whom = typed.from_input() if whom == "-" else typed.bare(whom)
    more: dict[str, Any] = {"resources": asked.resources, "slice": asked.name, "replace": replace}
    more["virtual_nodes"] = asked.virtual_nodes
    if typed.is_line(whom):
        token = typed.token(whom)
        met: dict[str, Any] = {"name": token.id, "addresses": token.addresses, "key": token.key}
        met["invitation"] = (token.id, token.secret)
        if token.borrow:
            return PeeringRequest(**met, lend=True)
        return PeeringRequest(**met, networking=networking, **more)
    typed.cluster(whom)
    confirms = bool(words)
    return PeeringRequest(
        name=whom, cluster_id=whom, networking=networking, confirms=confirms, **more
    )


async def have_met(
    frame: Frame,
    request: PeeringRequest,
    asked: ResourceRequest,
    words: str,
    namespace: str,
    *,
    yes: bool,
) -> None:
    """Have this cluster's daemon meet the other one, to borrow or to lend."""
    if request.lend:
        from liqod.cli.meet import lend  # brings keys, which who borrows does without

        await lend(frame, request, asked.resources, yes=yes, namespace=namespace)
    else:
        await _meet(frame, request, words, namespace)


async def _meet(frame: Frame, request: PeeringRequest, words: str, namespace: str) -> None:
    """Have the daemon ask, and wait for the result."""
    async with (
        frame.client() as client,
        presence.daemon(client, namespace, frame.progress, frame.timings),
    ):
        frame.progress("ask this cluster's daemon to meet the other one")
        made = await peeringrequest.ensure_request(client, namespace, request)
        frame.goes_on = peeringrequest.going_on(namespace, request.name)
        person = _Person(frame, client, namespace, request, words)
        try:
            done = await peeringrequest.wait(
                client, namespace, request.name, frame.progress, person.shown
            )
        except peeringrequest.NotSeen:
            if made:
                await peeringrequest.take_back(client, namespace, request.name)
            raise
        beyond = await overcommit.beyond_there(client, done.status.cluster_id, request.slice)
        status = done.status
        node = request.slice or status.cluster_id
        nodes = await slicenodes.nodes_of(client, status.cluster_id, node)
        hurt = await spreadwarning.hurt(client, *nodes)
    result = {
        "clusterID": status.cluster_id,
        "node": node,
        "granted": dict(status.granted),
        "words": status.words,
        "key": status.key,
        "withoutNetwork": peeringrequest.without_network(done),
    }
    if not frame.show(result):
        alone = f"; without a network, since {result['withoutNetwork']}"
        network = alone if result["withoutNetwork"] else ""
        frame.print_text(f"peered: {status.cluster_id} is {slicenodes.named(nodes)} here{network}")
    for each in filter(None, (beyond, hurt)):
        terminal.note(f"warning: {each}")


class _Person:
    """Has somebody compare the words, where nothing else proves who is there."""

    def __init__(
        self, frame: Frame, client: Client, namespace: str, request: PeeringRequest, words: str
    ) -> None:
        self._frame, self._client, self._namespace = frame, client, namespace
        self._name, self._words, self._asked = request.name, words, False

    async def shown(self, found: OutgoingPeering) -> None:
        """Look at a request once more; the first time that it has words, they are compared."""
        status = found.status
        if found.spec.key or not status.words or self._asked:
            return
        self._asked = True
        words = self._words
        if not words and sys.stdin.isatty():
            self._frame.progress.done()
            # Holds the event loop up, in which nothing but this command's own tasks wait.
            same = typer.confirm(
                f"{status.cluster_id} shows here: {status.words}. Does its operator see the same?",
                err=True,
            )
            if not same:
                self._frame.die("somebody may stand between: nothing was agreed")
            words = status.words
            self._frame.allow(self._frame.timeout)
        if words:
            await peeringrequest.confirm(self._client, self._namespace, self._name, words)


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
        await peeringrequest.ensure_request(client, namespace, request)
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
        frame.print_text(f"{status.cluster_id} borrows from this cluster: {amounts}")


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
        # It brings cryptography, which no other `liqod peer` needs.
        from liqod.procedures import answering

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
        from liqod.procedures import answering

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
