"""Meeting another cluster by the daemons of both, as ``liqod peer`` asks for it and waits.

The daemon does it; here the request is made, the words are compared where nothing else proves who
is there, and the result is shown. Lending instead is in :mod:`liqod.cli.lend`.
"""

import sys
from typing import Any

import typer

from liqod.cli import presence, terminal, typed
from liqod.cli.frame import Frame
from liqod.kube.client import Client
from liqod.procedures import overcommit, peeringrequest
from liqod.procedures.peeringrequest import PeeringRequest
from liqod.procedures.resourcerequest import ResourceRequest
from liqod.resources import OutgoingPeering


def asked_of(
    whom: str, asked: ResourceRequest, *, replace: bool, networking: bool, words: str = ""
) -> PeeringRequest:
    """The request that a command line means.

    Raises:
        Misuse: the invitation is none, or is damaged, and no part of it is shown; nothing was given
            on standard input, or no text; or the id is none.
    """
    whom = typed.from_input() if whom == "-" else typed.bare(whom)
    more: dict[str, Any] = {"resources": asked.resources, "slice": asked.name, "replace": replace}
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
        from liqod.cli.lend import lend  # brings keys, which who borrows does without

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
        made = await peeringrequest.ask(client, namespace, request)
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
    result = {
        "clusterID": status.cluster_id,
        "node": request.slice or status.cluster_id,
        "granted": dict(status.granted),
        "words": status.words,
        "key": status.key,
        "withoutNetwork": peeringrequest.without_network(done),
    }
    if not frame.show(result):
        node = request.slice or status.cluster_id
        alone = f"; without a network, since {result['withoutNetwork']}"
        network = alone if result["withoutNetwork"] else ""
        frame.say(f"peered: {status.cluster_id} is the node {node} here{network}")
    if beyond:
        terminal.note(f"warning: {beyond}")


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
