"""The websocket of a WireGuard tunnel, for where no UDP passes.

Beside WireGuard's interface there is then a second one, of :mod:`.websocket`, and the kernel
redirects packets between the two (:mod:`.redirect`): packets that WireGuard's is to send leave by
the websocket, and WireGuard's receives those that come by it. So nothing else sees the second one,
and a change from one path to the other is one change in the kernel.

The client judges: it goes over in silence, and back once WireGuard has agreed on keys, which takes
both directions, and has received from the server for a while. The server answers by the path by
which its client sends.
"""

import logging
import time
from functools import partial
from math import inf
from pathlib import Path

import msgspec
import trio

from liqod.errors import LiqodError
from liqod.plugins.network import redirect, rtnetlink
from liqod.plugins.network.device import WireGuardPeer
from liqod.plugins.network.endpointselection import SILENCE
from liqod.plugins.network.rtnetlink import Link
from liqod.plugins.network.websocket import WebsocketSettings, WebsocketTunnel
from liqod.plugins.network.websocketprogram import TunnelProcess
from liqod.plugins.providers import Place, TunnelServices, TunnelSpec, TunnelStatus

log = logging.getLogger(__name__)

SUFFIX = "w"
"""Of the second interface's name."""
AFTER = 3.0
"""Seconds of silence after which a client has a websocket."""
AGAIN = 60.0
"""Seconds until a websocket that cannot be had is tried again."""
LOOKED = 0.3
"""Seconds between two checks while either path may be the one."""
FOLLOWED = 1.5
"""Seconds without a packet by the websocket after which a server answers by UDP."""
HEARD = 3.0
"""Seconds without a packet by UDP after which that is silent: WireGuard says something each one."""
PATIENCE, PATIENCE_MOST = 2.0, 120.0
"""Seconds of UDP packets before a client goes back, at first and at most."""
HELD = 60.0
"""Seconds within which UDP that was gone back to and lost is held to come and go."""
LEFT = 60.0
"""Seconds for which a client goes by UDP again after which it has no websocket any more."""


class SecondInterface(msgspec.Struct, frozen=True):
    """The second interface, as it is.

    Attributes:
        link: the interface; None where there is none.
        leads: whether packets go by it.
        stale: whether packets go by one that is gone.
    """

    link: Link | None
    leads: bool
    stale: bool


class WebsocketFallback:
    """Has a tunnel go by a websocket where it has to.

    Args:
        settings: of the websocket.
        services: of the daemon.
        place: of WireGuard's interface.

    Attributes:
        why: why nothing goes by a websocket, where nothing comes by UDP either.
    """

    def __init__(self, settings: WebsocketSettings, services: TunnelServices, place: Place) -> None:
        self._host, self._place = services.host, place
        self._folder = Path(services.folder)
        beside = msgspec.structs.replace(place, interface=f"{place.interface}{SUFFIX}")
        self._beside = beside.interface
        self._websocket = WebsocketTunnel(settings, services, beside)
        self._judge = WayJudge()
        self._follower = ClientFollower()
        self._failed = ""
        self.why = ""
        self._ended = False
        self._former: TunnelProcess | None = TunnelProcess(
            services, place, f"{place.interface}-udp"
        )

    async def settle(
        self, spec: TunnelSpec, peer: WireGuardPeer | None, silent: float
    ) -> tuple[float, float]:
        """Direct packets to their desired path.

        A failure of it stops nothing else.

        Args:
            spec: of the tunnel.
            peer: the other side as WireGuard has it.
            silent: seconds for which nothing came by either path.

        Returns:
            Seconds for which nothing came by UDP, and until the next look.
        """
        try:
            await self._end_former()
            if not spec.websocket or spec.quiet:
                await self._have_none()
                return silent, inf
            self._ended = False
            if spec.side == "server":
                found = await self._serve(spec, silent)
            else:
                found = await self._dial(spec, peer, silent)
        except (OSError, LiqodError) as error:
            self.why = str(error)
            if self.why != self._failed:
                self._failed = self.why
                log.warning("no tunnel in a websocket can be had: %s", error)
            return silent, AGAIN
        self._failed = ""
        return found

    async def status(self) -> TunnelStatus | None:
        """How it is while packets go by it; else None."""
        if self._ended:
            return None  # each peer is looked at every second
        beside = await self._look()
        return await self._websocket.status() if beside.leads else None

    async def end(self) -> None:
        """Have none, as WireGuard's interface ends, too. Idempotent."""
        await self._end_former()
        await self._websocket.down()

    async def _serve(self, spec: TunnelSpec, silent: float) -> tuple[float, float]:
        """Answer a client by the path by which it sends."""
        await self._have(msgspec.structs.replace(spec, listen_port=spec.websocket))
        self.why = ""
        beside, said = await self._look(), await self._websocket.status()
        follows = self._follower.follows(beside, trio.current_time())
        await self._lead(beside, follows)
        stands = said is not None and said.handshake_age is not None
        return silent, LOOKED if silent or stands or follows else inf

    async def _dial(
        self, spec: TunnelSpec, peer: WireGuardPeer | None, silent: float
    ) -> tuple[float, float]:
        """Go over to a websocket in silence, and back once UDP passes."""
        beside = await self._look()
        if beside.link is None and silent < AFTER:
            await self._lead(beside, False)
            self.why = ""
            return silent, max(AFTER - silent, 0.1) if silent else inf
        said = await self._websocket.status() if beside.link is not None else None
        # By a connection of before the silence nothing comes, as it seems.
        old = said is not None and (said.handshake_age or 0.0) > silent
        endpoints = at_port(spec.endpoints, spec.websocket)
        client = msgspec.structs.replace(spec, listen_port=0, endpoints=endpoints)
        await self._have(client, silent if old else 0.0)
        beside, said = await self._look(), await self._websocket.status()
        age = said.handshake_age if said is not None else None
        self.why = said.why if said is not None and silent else ""
        return await self._choose(beside, age, peer, silent)

    async def _choose(
        self, beside: SecondInterface, age: float | None, peer: WireGuardPeer | None, silent: float
    ) -> tuple[float, float]:
        """Direct packets of a client to the path that is judged best."""
        now, judge = trio.current_time(), self._judge
        wanted = judge.wants(beside.leads, age, peer, silent, now)
        await self._lead(beside, wanted)
        if wanted:
            return judge.silent(peer, now), LOOKED
        if silent:
            return silent, LOOKED
        if judge.left(now) < LEFT:
            return silent, LEFT - judge.left(now)
        await self._have_none()
        return silent, inf

    async def _have(self, spec: TunnelSpec, silent: float = 0.0) -> None:
        """Have the second interface, and WireGuard's receive what comes by it."""
        await self._websocket.up(spec, silent=silent)
        received = partial(redirect.lead, self._beside, "received", self._place.interface)
        await self._host.within(self._place.namespace, received)

    async def _lead(self, beside: SecondInterface, wanted: bool) -> None:
        """Have packets go by the second interface, or not."""
        name = self._place.interface
        if wanted and not beside.leads:
            lead = partial(redirect.lead, name, "sent", self._beside)
            await self._host.within(self._place.namespace, lead)
        elif not wanted and (beside.leads or beside.stale):
            leave = partial(redirect.leave, name, "sent")
            await self._host.within(self._place.namespace, leave)

    async def _look(self) -> SecondInterface:
        name, beside = self._place.interface, self._beside

        def look() -> SecondInterface:
            link, to = rtnetlink.find(beside), redirect.target(name, "sent")
            leads = link is not None and to == link.index
            return SecondInterface(link, leads, to is not None and not leads)

        return await self._host.within(self._place.namespace, look)

    async def _have_none(self) -> None:
        if not self._ended:
            await self._lead(await self._look(), False)
            await self._websocket.down()
            self._judge, self._follower = WayJudge(), ClientFollower()
        self._ended, self.why = True, ""

    async def _end_former(self) -> None:
        """End what carried WireGuard's datagrams for the release before, if it is there yet."""
        if self._former is not None:
            await self._former.end()
            self._former = None
            for left in self._folder.glob(f"{self._place.interface}-udp.*"):
                left.unlink(missing_ok=True)


class WayJudge:
    """A client's judgement of its two paths. It sends nothing."""

    def __init__(self) -> None:
        self._led_at = -inf
        self._led = 0.0
        self._back_at: float | None = None
        self._patience = PATIENCE
        self._received = 0
        self._heard = -inf
        self._heard_since: float | None = None

    def wants(
        self, leads: bool, age: float | None, peer: WireGuardPeer | None, silent: float, now: float
    ) -> bool:
        """True if packets are to go by the websocket.

        Args:
            leads: whether they do now.
            age: seconds since its connection is established; None while none is.
            peer: the other side as WireGuard has it.
            silent: seconds for which nothing came by the path in use.
            now: the time in seconds.
        """
        if leads and self._led_at == -inf:
            self._begin(age or 0.0, now)  # an earlier daemon went over
        self._listen(peer, now)
        if not leads:
            if age is None or silent < SILENCE:
                return False
            self._begin(0.0, now)
        elif self._agreed(peer) and (age is None or self._is_heard()):
            self._back_at = now
            return False
        return True

    def silent(self, peer: WireGuardPeer | None, now: float) -> float:
        """Seconds for which nothing came by UDP; 0 while it seems to pass."""
        since = max(self._led_at, self._heard) if self._agreed(peer) else self._led_at
        return 0.0 if self._agreed(peer) and now - since < HEARD else max(now - since, SILENCE)

    def left(self, now: float) -> float:
        """Seconds since packets go by UDP again."""
        if self._back_at is None:
            self._back_at = now
        return now - self._back_at

    def _begin(self, ago: float, now: float) -> None:
        lost = self._back_at is not None and now - self._back_at < HELD
        self._patience = min(2 * self._patience, PATIENCE_MOST) if lost else PATIENCE
        self._led, self._led_at, self._heard_since = time.time() - ago, now, None

    def _listen(self, peer: WireGuardPeer | None, now: float) -> None:
        received = peer.received if peer is not None else 0
        if received and received != self._received:
            self._heard = now
        self._received = received
        if now - self._heard >= HEARD or not self._agreed(peer):
            self._heard_since = None
        elif self._heard_since is None:
            self._heard_since = now

    def _is_heard(self) -> bool:
        since = self._heard_since
        return since is not None and self._heard - since >= self._patience

    def _agreed(self, peer: WireGuardPeer | None) -> bool:
        """True if keys were agreed on by UDP since packets go by the websocket."""
        return peer is not None and peer.handshake > self._led


class ClientFollower:
    """A server's view of the path by which its client sends."""

    def __init__(self) -> None:
        self._received: int | None = None
        self._came = -inf

    def follows(self, beside: SecondInterface, now: float) -> bool:
        """True if the client's packets come by the websocket."""
        received = beside.link.received if beside.link is not None else 0
        if self._received is None:
            # Earlier packets are an earlier daemon's to judge.
            if beside.leads:
                self._came = now
        elif received != self._received:
            self._came = now
        self._received = received
        return now - self._came < FOLLOWED


def at_port(endpoints: tuple[str, ...], port: int) -> tuple[str, ...]:
    """The same hosts at another port."""
    hosts = dict.fromkeys(each.rpartition(":")[0] for each in endpoints)
    return tuple(f"{host}:{port}" for host in hosts)
