"""The tunnel backends that liqod brings carry real packets between namespaces."""

import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from inspect import isawaitable
from statistics import median
from typing import Any, ClassVar

import pytest
import trio

from liqod.identity.noiseprobe import probe_keys
from liqod.network.dataplane.kernel.namespaces import inside
from liqod.plugins.network import endpointselection, uapi
from liqod.plugins.network.asking import Asking
from liqod.plugins.network.device import Change, PeerChange
from liqod.plugins.network.endpointselection import Race
from liqod.plugins.network.vxlan import VXLAN
from liqod.plugins.network.wireguard import WIREGUARD
from liqod.plugins.providers import TUNNEL_ADDRESSES
from simulator.suites import TunnelContract
from simulator.suites.gateways import SIXES, UNDERLAY, ip
from simulator.suites.tunnels import KEYS, Gateways
from tests.netns import flows
from tests.netns.flows import Flow
from tests.netns.lab import Pod
from tests.netns.websockets import between
from tests.netns.wires import cable
from tests.simulated.borrower import eventually

pytestmark = [pytest.mark.netns, pytest.mark.network, pytest.mark.usefixtures("networks")]


@asynccontextmanager
async def taken(namespace: str, port: int) -> AsyncIterator[None]:
    """A UDP port that another program has."""

    def bound() -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind(("", port))
        return made

    with await inside(namespace, bound):
        yield


class TestWireGuard(TunnelContract):
    provider = WIREGUARD
    settings: ClassVar[Mapping[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def program(self, wireguard: str) -> None:
        # The kernel's is made and moved by the same calls; here the program is what is tried.
        type(self).settings = {"program": wireguard, "kernel": False}

    @between
    async def test_of_several_endpoints_the_one_that_answers_is_taken_at_once(
        self, both: Gateways
    ) -> None:
        await both.up(both.server)
        live = both.spec("client").endpoints[0]
        dead = [f"198.51.100.{each}:{WIREGUARD.port}" for each in range(70, 77)]
        began = trio.current_time()
        await keep(both, joins(both), endpoints=(*dead, live))
        took = trio.current_time() - began
        print(f"the eighth of eight, the others dead: {took * 1000:.0f} ms")
        # One after the other it would be after 3.5 s.
        assert took < 3.0
        assert await reached(both) == live

    @between
    async def test_a_port_that_another_program_has_is_named(self, both: Gateways) -> None:
        async with taken(both.server.underlay, WIREGUARD.port):
            with pytest.raises(Exception, match=f"another program has UDP port {WIREGUARD.port}"):
                await both.up(both.server)
        await both.join()

    @pytest.mark.long
    def test_on_a_long_way_asking_all_is_sooner_than_trying_each_in_turn(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The reason for asking WireGuard at all, by the first message of its handshake."""
        dead = [f"198.51.100.{each}:{WIREGUARD.port}" for each in range(70, 77)]
        first = Asking.first

        async def nobody(self: Asking, *args: Any) -> str:
            """No answer, so that each is tried for its moment."""
            return ""

        async def body(both: Gateways) -> None:
            await both.up(both.server)
            live = both.spec("client").endpoints[0]
            found: dict[float, list[float]] = {0.0: [], 0.2: [], endpointselection.FIRST_SLOT: []}
            for slot in list(found) * 3:
                monkeypatch.setattr(Asking, "first", nobody if slot else first)
                monkeypatch.setattr(endpointselection, "FIRST_SLOT", slot or max(found))
                found[slot].append(await joining(both, (*dead, live)))
                await both.tunnels.pop("client").down()
            took = {slot: median(each) for slot, each in found.items()}
            asked = took.pop(0.0)
            turns = ", ".join(f"{each:.2f} s by {slot:g} s" for slot, each in took.items())
            print(f"the eighth of eight at 100 ms: asked {asked:.2f} s, in turn {turns}")
            assert asked < min(took.values())

        self.run(partial(far, body))

    @between
    async def test_a_better_endpoint_is_taken_when_it_stays_and_not_when_it_comes_and_goes(
        self, both: Gateways, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in (("BETTER_FIRST", 0.2), ("BETTER_LAST", 0.4), ("SURE_PAUSE", 0.2)):
            monkeypatch.setattr(endpointselection, name, value)
        asked, ask = [0], Asking.every
        await both.join()
        live = both.spec("client").endpoints[0]
        better = f"198.51.100.77:{WIREGUARD.port}"
        way = Way(both)

        async def flapping(self: Asking, *args: Any) -> list[str]:
            """There for two questions, then not for one."""
            way.set(open_=asked[0] % 3 != 2)
            asked[0] += 1
            return await ask(self, *args)

        async with flowing(both) as flow:
            since = time.monotonic()
            monkeypatch.setattr(Asking, "every", flapping)
            await tended(both, lambda: asked[0] >= 7, endpoints=(better, live))
            assert await reached(both) == live
            monkeypatch.setattr(Asking, "every", ask)
            way.set(open_=True)
            began = trio.current_time()
            await tended(both, to(both, better), endpoints=(better, live))
            print(f"a better one is taken {trio.current_time() - began:.1f} s after it came")
            await trio.sleep(0.5)
            assert await reached(both) == better
            await flow.loses_none(since)

    @between
    async def test_a_server_that_knows_no_questions_is_reached_at_a_better_one_too(
        self, both: Gateways
    ) -> None:
        """As Liqo's, which has the one peer."""
        await both.join()
        live = both.spec("client").endpoints[0]
        keys = probe_keys(*KEYS["server"], KEYS["client"][1], dialled=True)
        gone = Change(peers=(PeerChange(public_key=keys.public, remove=True),))
        await uapi.write(uapi.path(both.server.place.interface), gone)
        better = f"198.51.100.77:{WIREGUARD.port}"
        Way(both).set(open_=True)
        both.build(both.client)
        await tended(both, to(both, better), endpoints=(better, live))

    @between
    async def test_who_may_ask_may_send_nothing(self, both: Gateways) -> None:
        """With the key to ask, all but what is sent: keys are agreed on, and no packet is taken."""
        await both.join()
        keys = probe_keys(*KEYS["client"], KEYS["server"][1], dialled=False)
        await both.tunnels["client"].down()
        both.build(both.client)
        pair: dict[str, Any] = {"private_key": keys.private, "public_key": keys.public}
        await both.up(both.client, **pair)
        await eventually(
            lambda: both.tunnels["client"].status(),
            lambda status: status is not None and status.handshake_age is not None,
        )
        assert not await both.echo(b"?", seconds=1.0)

    @between
    async def test_a_better_endpoint_that_is_dead_costs_next_to_nothing(
        self, both: Gateways
    ) -> None:
        await both.join()
        live = both.spec("client").endpoints[0]
        race, better = Race(), "198.51.100.77:51820"
        step = race.on_answers((), [better, live], live, 1000.0)
        assert step.endpoint == better
        change = PeerChange(public_key=both.spec("client").peer_public_key, endpoint=better)
        interface = both.client.place.interface
        await uapi.write(uapi.path(interface), Change(peers=(change,)))
        assert await reached(both) == better
        # The server says something, to where the client was before.
        with (
            await both.server.socket(socket.AF_INET) as there,
            await both.client.socket(socket.AF_INET) as here,
        ):
            with trio.fail_after(2):
                await there.sendto(b"!", ("169.254.18.2", 7))
                await here.recvfrom(64)
        assert await reached(both) == live
        assert await both.echo(b"?")

    @between
    async def test_one_that_knows_no_keys_any_more_is_joined_again_in_a_moment(
        self, both: Gateways
    ) -> None:
        """The server began anew: without agreeing on new keys at once it would take 15 s."""
        await both.join()
        await both.tunnels["server"].down()
        await both.up(both.server)
        began = trio.current_time()
        await keep(both, joins(both))
        assert trio.current_time() - began < 5.0


class TestVxlan(TunnelContract):
    provider = VXLAN


async def far(body: Callable[[Gateways], Awaitable[None]], both: Gateways) -> None:
    """Run a test where a packet needs 100 ms for its way there and back."""
    ends = (both.server.underlay, both.client.underlay)
    ip("-n", ends[0], "link", "delete", "u0")
    with cable(ends, "u0", delay=0.05):
        for end, address in zip(ends, UNDERLAY.values(), strict=True):
            ip("-n", end, "addr", "add", f"{address}/24", "dev", "u0")
        await body(both)


class Way:
    """A further address of the server's, as of a NAT before it, which leads there or nowhere."""

    def __init__(self, both: Gateways) -> None:
        self._both = both
        hooks = "type nat hook output priority -100", "type filter hook output priority 0"
        to = f"ip daddr 198.51.100.77 dnat to {UNDERLAY['server']}"
        shut = "ct original ip daddr 198.51.100.77 drop"
        self._open = f"table ip way {{\nchain o {{\n{hooks[0]};\n{to}\n}}\n}}"
        self._shut = f"{self._open}\ntable ip way {{\nchain f {{\n{hooks[1]};\n{shut}\n}}\n}}"
        self.set(open_=False)

    def set(self, *, open_: bool) -> None:
        """Have it lead there or nowhere."""
        anew = "table ip way\ndelete table ip way\n"
        text = anew + (self._open if open_ else self._shut)
        ip("netns", "exec", self._both.client.underlay, "nft", text)


def flowing(both: Gateways) -> AbstractAsyncContextManager[Flow]:
    """A flow from the client through the tunnel to the server, meanwhile."""
    client = Pod(both.client.inside, TUNNEL_ADDRESSES["client"], SIXES["client"])
    return flows.flowing(client, TUNNEL_ADDRESSES["server"])


async def tended(both: Gateways, done: Callable[[], Any], *, endpoints: tuple[str, ...]) -> None:
    """Keep a client's tunnel that works until something is so."""
    with trio.fail_after(30):
        while not (await so if isawaitable(so := done()) else so):
            again = await both.tunnels["client"].up(both.spec("client", endpoints=endpoints))
            await trio.sleep(min(again, 0.1))


def to(both: Gateways, endpoint: str) -> Callable[[], Awaitable[bool]]:
    """Returns a check that the client sends to an endpoint."""

    async def so() -> bool:
        return await reached(both) == endpoint

    return so


async def reached(both: Gateways) -> str:
    """Where the client sends to."""
    status = await both.tunnels["client"].status()
    assert status is not None
    return status.endpoint


def joins(both: Gateways) -> Callable[[], Awaitable[bool]]:
    """Returns a check that a packet goes there and back."""
    return lambda: both.echo(b"?", seconds=0.3)


async def joining(both: Gateways, endpoints: tuple[str, ...]) -> float:
    """Seconds until a client's tunnel carries a packet there and back, each step in its time."""
    began, stands = trio.current_time(), trio.Event()

    async def probe() -> None:
        while not await both.echo(b"?", seconds=0.15):
            pass
        stands.set()

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            tunnel, probed = both.build(both.client), False
            while not stands.is_set():
                silent = trio.current_time() - began
                again = await tunnel.up(both.spec("client", endpoints=endpoints), silent=silent)
                if not probed:
                    await both.client.addresses()
                    nursery.start_soon(probe)
                    probed = True
                with trio.move_on_after(again):
                    await stands.wait()
    return trio.current_time() - began


async def keep(both: Gateways, until: Callable[[], Awaitable[bool]], **changed: Any) -> None:
    """Keep the client's tunnel as its caller does, who sends probes, until something is so."""
    heard, due = trio.current_time(), 0.0
    with trio.fail_after(20):
        while True:
            silent = trio.current_time() - heard
            if trio.current_time() >= due or silent >= endpointselection.SILENCE:
                tunnel = both.tunnels.get("client") or both.build(both.client)
                again = await tunnel.up(both.spec("client", **changed), silent=silent)
                await both.client.addresses()
                due = trio.current_time() + again
            if await both.echo(b"probe", seconds=0.3):
                heard = trio.current_time()
            if await until():
                return
