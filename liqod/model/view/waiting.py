"""Requests of the hand-shake that wait for a person, or have failed: what ``status`` says. Pure."""

from collections.abc import Iterable
from typing import Final

import msgspec

from liqod.model.view.figures import counted
from liqod.model.view.request import Request

NAMED: Final = 5
"""Clusters that wait for an answer and are told one by one: anybody may ask, and many may."""
BEGUN: Final = ("", "Waiting", "Accepted")
ENDED_BADLY: Final = ("Refused", "Failed")


class Told(msgspec.Struct, frozen=True):
    """What is said of a request.

    Attributes:
        peer: the other cluster's id, as far as it is known.
        what: how the request stands.
        remedy: what to do.
        failed: it does not go on by itself.
    """

    peer: str
    what: str
    remedy: str
    failed: bool = False


def told(incoming: Iterable[Request], outgoing: Iterable[Request]) -> Iterable[Told]:
    """What the requests of both directions want of a person."""
    waiting = [each for each in incoming if each.state == "Waiting"]
    waiting.sort(key=lambda each: each.name)
    for entry in waiting[:NAMED]:
        yield _asks(entry)
    if len(waiting) > NAMED:
        what = f"{counted(len(waiting) - NAMED, 'more cluster')} may ask to borrow from this one"
        yield Told("", what, "`liqod inbox` shows all")
    for request in outgoing:
        if request.lends:
            yield from _offered(request)
        elif request.state in (*ENDED_BADLY, *BEGUN):
            yield _asked(request)


def _asks(entry: Request) -> Told:
    asked = ", ".join(f"{name} {amount}" for name, amount in sorted(entry.asked.items()))
    what = f"asks to borrow {asked or 'what is granted by default'}{_words(entry)}"
    return Told(entry.cluster_id, what, f"`liqod inbox accept {entry.name}`, or deny")


def _asked(request: Request) -> Told:
    said = request.reason or "nothing was heard yet"
    if request.state in ENDED_BADLY:
        what = f"the request {request.name} to borrow has failed: {said}"
        again = f"`liqod peer {request.name}` with the same options again"
        if request.by == "invitation":
            again = "give `liqod peer` another invitation (`liqod invite` there)"
        return Told(request.cluster_id, what, f"mend that, and {again}", failed=True)
    words = "" if request.words in said else _words(request)
    what = f"is asked to lend: {said}{words}"
    return Told(request.cluster_id, what, "`liqod inbox` there shows the request")


def _offered(request: Request) -> Iterable[Told]:
    """Of whom this cluster dials to lend to it."""
    said = request.reason or "nothing was heard yet"
    if request.state in ENDED_BADLY:
        what = f"the offer {request.name} to lend has failed: {said}"
        yield Told(request.cluster_id, what, "`liqod peer` with another invitation", failed=True)
    elif request.state in BEGUN:
        what = f"is dialled to lend to it: {said}{_words(request)}"
        yield Told(request.cluster_id, what, "`liqod inbox` shows what it asks")
    elif request.state == "Done" and request.reason:
        # What runs here for it goes on; it sees nothing of that meanwhile.
        what = f"borrows by a connection that this cluster dials, and that is not there: {said}"
        yield Told(request.cluster_id, what, "let it be reached; it is dialled again and again")


def _words(request: Request) -> str:
    return f"; words: {request.words}" if request.words else ""
