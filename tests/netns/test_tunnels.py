"""The tunnel backends that liqod brings carry real packets between namespaces."""

from collections.abc import Awaitable, Callable, Mapping
from socket import AF_INET
from typing import Any, ClassVar

import pytest
import trio

from liqod.plugins.network import endpoints, uapi
from liqod.plugins.network.device import Change, PeerChange
from liqod.plugins.network.endpoints import Race
from liqod.plugins.network.vxlan import VXLAN
from liqod.plugins.network.wireguard import WIREGUARD
from liqod.plugins.testing import TunnelContract
from liqod.plugins.tunnelsuite import UNDERLAY, Gateways, ip
from tests.testbed import programs
from tests.testbed.errors import Unavailable
from tests.testbed.fixtures import give_up

pytestmark = [pytest.mark.netns, pytest.mark.usefixtures("networks")]


@pytest.fixture(scope="session")
def wireguard() -> str:
    """The newest userspace WireGuard."""
    try:
        return str(programs.find_wireguard())
    except Unavailable as reason:
        give_up(reason)


class TestWireGuard(TunnelContract):
    provider = WIREGUARD
    settings: ClassVar[Mapping[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def program(self, wireguard: str) -> None:
        # The kernel's is made and moved by the same calls; here the program is what is tried.
        type(self).settings = {"program": wireguard, "kernel": False}

    def test_of_several_endpoints_the_one_that_answers_is_taken(self) -> None:
        async def body(both: Gateways) -> None:
            await both.up(both.server)
            live, other = both.spec("client").endpoints[0], "198.51.100.77:51820"
            began = trio.current_time()
            await keep(both, joins(both), endpoints=(other, "198.51.100.78:51820", live))
            assert trio.current_time() - began < 3.0
            assert await reached(both) == live
            # The better one, of a NAT on the way, appears and is taken under way.
            hook = "type nat hook output priority -100"
            to = f"ip daddr 198.51.100.77 dnat to {UNDERLAY['server']}"
            rules = f"table ip nat {{\nchain o {{\n{hook};\n{to}\n}}\n}}"
            ip("netns", "exec", both.client.underlay, "nft", rules)

            async def better() -> bool:
                assert await both.echo(b"?", seconds=2.0)
                return await reached(both) == other

            endpoints.BETTER_FIRST, before = 0.5, endpoints.BETTER_FIRST
            try:
                both.build(both.client)
                await keep(both, better, endpoints=(other, live))
            finally:
                endpoints.BETTER_FIRST = before

        self._run(body)

    def test_a_better_endpoint_that_is_dead_costs_next_to_nothing(self) -> None:
        async def body(both: Gateways) -> None:
            await both.join()
            live = both.spec("client").endpoints[0]
            race = Race()
            step = race._improve(["198.51.100.77:51820", live], live, 0.0)
            assert step.endpoint is None
            step = race._improve(["198.51.100.77:51820", live], live, 1000.0)
            assert step.endpoint == "198.51.100.77:51820"
            change = PeerChange(
                public_key=both.spec("client").peer_public_key, endpoint=step.endpoint
            )
            interface = both.client.place.interface
            await uapi.write(interface, Change(peers=(change,)))
            assert await reached(both) == step.endpoint
            # The server says something, to where the client was before.
            with (
                await both.server.socket(AF_INET) as there,
                await both.client.socket(AF_INET) as here,
            ):
                with trio.fail_after(2):
                    await there.sendto(b"!", ("169.254.18.2", 7))
                    await here.recvfrom(64)
            assert await reached(both) == live
            assert await both.echo(b"?")

        self._run(body)

    def test_one_that_knows_no_keys_any_more_is_joined_again_in_a_moment(self) -> None:
        """The server began anew: without agreeing on new keys at once it would take 15 s."""

        async def body(both: Gateways) -> None:
            await both.join()
            await both.tunnels["server"].down()
            await both.up(both.server)
            began = trio.current_time()
            await keep(both, joins(both))
            assert trio.current_time() - began < 4.0

        self._run(body)


class TestVxlan(TunnelContract):
    provider = VXLAN


async def reached(both: Gateways) -> str:
    """Where the client sends to."""
    status = await both.tunnels["client"].status()
    assert status is not None
    return status.endpoint


def joins(both: Gateways) -> Callable[[], Awaitable[bool]]:
    """Whether a packet goes there and back."""
    return lambda: both.echo(b"?", seconds=0.3)


async def keep(both: Gateways, until: Callable[[], Awaitable[bool]], **changed: Any) -> None:
    """Keep the client's tunnel as its caller does, who sends probes, until something is so."""
    heard, due = trio.current_time(), 0.0
    with trio.fail_after(20):
        while True:
            silent = trio.current_time() - heard
            if trio.current_time() >= due or silent >= endpoints.SILENCE:
                tunnel = both.tunnels.get("client") or both.build(both.client)
                again = await tunnel.up(both.spec("client", **changed), silent=silent)
                await both.client.addresses()
                due = trio.current_time() + again
            if await both.echo(b"probe", seconds=0.3):
                heard = trio.current_time()
            if await until():
                return
