"""The accepting daemon is killed at each message of a handshake, begun anew, and all ends well.

``unread``: the message has come, and nobody has read it. ``unsaid``: what it tells is written, and
it was not sent. ``said``: it was sent, and nothing after it is done.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio

from liqod.apimachinery.kinds import NODES
from liqod.errors import ConfigError, Conflict
from liqod.handshake.transport import websockets
from liqod.kube.http.wire import Wire
from liqod.procedures import answering
from liqod.resources import INCOMING_PEERINGS, OUTGOING_PEERINGS
from liqod.websocket import Websocket
from tests.simulated.borrower import eventually
from tests.simulated.channels import DEAD
from tests.simulated.meeting import address_of, ask, entries, key_of, meeting, peered
from tests.simulated.members import Member

ACCEPT = websockets.accept


class Mortal:
    """A listener's websocket, at one message of which the daemon is killed."""

    def __init__(self, socket: Websocket, moment: "Moment") -> None:
        self._socket, self._moment = socket, moment

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    async def receive(self) -> str | bytes:
        message = await self._socket.receive()
        await self._moment.at(kind_of(message), "unread")
        return message

    async def send(self, message: str | bytes) -> None:
        await self._moment.at(kind_of(message), "unsaid")
        await self._socket.send(message)
        await self._moment.at(kind_of(message), "said")


class Moment:
    """When a daemon is killed: at a message, the first time that it is so far.

    Args:
        message: what it says it is.
        how: how far it is.
        passed: how many of these pass before.
    """

    def __init__(self, message: str, how: str, passed: int = 0) -> None:
        self._when, self._passed = (message, how), passed
        self.victim: Member
        self.killed = trio.Event()
        self._wires: list[Wire] = []

    async def at(self, message: str, how: str) -> None:
        """Kill it if this is the moment; then this does not return."""
        if (message, how) != self._when or self.killed.is_set():
            return
        if self._passed:
            self._passed -= 1
            return
        self.killed.set()
        for wire in self._wires:
            wire.close()  # nobody says goodbye
        assert self.victim.running is not None
        self.victim.running.cancel()
        await trio.sleep_forever()

    async def accept(self, nursery: trio.Nursery, wire: Wire) -> Mortal:
        """Accepts a websocket, as :func:`websockets.accept` does."""
        self._wires.append(wire)
        return Mortal(await ACCEPT(nursery, wire), self)


def kind_of(message: str | bytes) -> str:
    """Returns a message's type; ``stream`` where it is none of the handshake's."""
    if isinstance(message, bytes):
        return "stream"
    kind: str = msgspec.json.decode(message)["type"]
    return kind


async def answer(host: Member, decision: str) -> None:
    """An operator, who answers when somebody asks."""

    async def look() -> bool:
        for entry in await entries(host):
            if entry.status.phase == "Waiting" and not entry.spec.decision:
                try:
                    wanted = {"decision": decision}
                    await answering.decide(host.admin, "liqo", entry, wanted)
                except Conflict:
                    return False
                return True
        return False

    await eventually(look)


async def begin_anew(host: Member, moment: Moment) -> None:
    """Start a daemon again when it was killed, at the port where it was."""
    port = address_of(host).rpartition(":")[2]
    with trio.fail_after(60):
        await moment.killed.wait()
    await host.stop()
    host.settings = host.settings.replace("port = 0", f"port = {port}")
    await host.start()


@asynccontextmanager
async def killed(moment: Moment, decision: str) -> AsyncIterator[list[Member]]:
    """Rome asks milan, whose operator decides and whose daemon is killed at that moment."""
    async with meeting("rome", "milan", advertise=DEAD) as [rome, milan]:
        before = rome.everything(), milan.everything()
        moment.victim = milan
        async with trio.open_nursery() as nursery:
            nursery.start_soon(begin_anew, milan, moment)
            if decision:
                nursery.start_soon(answer, milan, decision)
            await ask(rome, milan, key=await key_of(milan), resources={"cpu": "2"})
            yield [rome, milan]
        await eventually(lambda: is_as_before((rome, milan), before))


async def are(host: Member, *phases: str) -> bool:
    """True if these are the phases of the host's requests."""
    return tuple(entry.status.phase for entry in await entries(host)) == phases


async def is_as_before(both: tuple[Member, ...], before: tuple[Any, ...]) -> bool:
    """True if nothing is left of it in either cluster."""
    return tuple(each.everything() for each in both) == before


EVERY_RUN = (("done", "unread"),)
"""Moments that are tried also where nothing of the handshake has changed."""
LONG = [pytest.mark.long, pytest.mark.handshake]
SOON = 20.0
"""Seconds, of virtual time, for a peering and one daemon's second start."""
MOMENTS = [
    *[(message, "unread") for message in ("hello", "prove", "ask", "stream", "done", "attach")],
    *[(message, "unsaid") for message in ("welcome", "proved", "pending", "accepted", "noted")],
    *[(message, "said") for message in ("pending", "accepted", "noted", "attached")],
    ("attached", "unsaid"),
]
PASSED = 6, 10, 12, 14, 20, 30
"""Messages of streams: each is some step of what an agreement is followed by. At the twelfth rome
waits for what the daemon does that is killed."""


@pytest.mark.parametrize(
    ("message", "how"),
    [
        pytest.param(*each, marks=pytest.mark.long if each in EVERY_RUN else LONG)
        for each in MOMENTS
    ],
)
async def test_killed_at_a_message_it_comes_to_one_peering(
    message: str, how: str, monkeypatch: pytest.MonkeyPatch
):
    await comes_to_one_peering(Moment(message, how), monkeypatch)


@pytest.mark.long
@pytest.mark.handshake
@pytest.mark.parametrize("passed", PASSED)
async def test_killed_while_the_peering_is_made_it_is_made_soon(
    passed: int, monkeypatch: pytest.MonkeyPatch
):
    await comes_to_one_peering(Moment("stream", "unread", passed), monkeypatch)


async def comes_to_one_peering(moment: Moment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever it was killed, there is one peering soon, and nothing of it afterwards."""
    monkeypatch.setattr(websockets, "accept", moment.accept)
    began = trio.current_time()
    async with killed(moment, "Accept") as [rome, milan]:
        done = await peered(rome, "milan")
        assert trio.current_time() - began < SOON
        assert done.status.granted["cpu"] == "2"
        assert await rome.admin.find(NODES, "milan") is not None
        await moment.killed.wait()
        await eventually(lambda: are(milan, "Done"))
        await rome.unpeer(milan)
        await milan.unpeer(rome)


@pytest.mark.long
@pytest.mark.handshake
@pytest.mark.parametrize("how", ["unsaid", "said"])
async def test_killed_when_it_denies_that_is_denied_still(
    how: str, monkeypatch: pytest.MonkeyPatch
):
    moment = Moment("denied", how)
    monkeypatch.setattr(websockets, "accept", moment.accept)
    async with killed(moment, "Deny") as [rome, milan]:
        with pytest.raises(ConfigError, match="its operator says no"):
            await peered(rome, "milan")
        assert await are(milan, "Denied")
        [entry] = await entries(milan)
        await milan.admin.delete(INCOMING_PEERINGS, entry.name, "liqo")
        await rome.admin.delete(OUTGOING_PEERINGS, "milan", "liqo")


@pytest.mark.long
@pytest.mark.handshake
async def test_killed_before_it_hears_of_a_cancel_it_lets_nobody_in(
    monkeypatch: pytest.MonkeyPatch,
):
    moment = Moment("cancel", "unread")
    monkeypatch.setattr(websockets, "accept", moment.accept)
    async with killed(moment, "") as [rome, milan]:
        await eventually(lambda: are(milan, "Waiting"))
        await rome.admin.delete(OUTGOING_PEERINGS, "milan", "liqo")
        await moment.killed.wait()
        # Its operator accepts what nobody asks for any more.
        await answer(milan, "Accept")
        await eventually(lambda: are(milan, "Accepted"))
        [entry] = await entries(milan)
        await milan.admin.delete(INCOMING_PEERINGS, entry.name, "liqo")
