"""Figures of a peer's network, as the machine sends them."""

import pytest
import trio

from liqod.network.dataplane.names import PeerNames
from liqod.network.dataplane.values import KernelChange
from liqod.network.machine.tunnelcontrol import TunnelControl
from liqod.network.machine.tunnelfigures import figures
from liqod.network.orders.tunnels import TunnelFigures
from liqod.network.probing.pathmetrics import PathMetrics
from liqod.network.timings import NetworkTimings
from liqod.plugins.network.websocket import WEBSOCKET
from liqod.plugins.providers import TunnelProvider, TunnelStatus
from liqod.tunnel.probes.messages import PeerHello, ProbeResult
from tests.unit.network.tunnels import ORDER

ROUTE, TABLE = KernelChange("route made"), KernelChange("table written", table=True)
FORGETS = 10.0


def measuring() -> tuple[TunnelControl, PathMetrics]:
    timings = NetworkTimings(fought_within=FORGETS)
    measures = PathMetrics(PeerNames("rome", "milan"), None, lambda: None, timings=timings)
    return TunnelControl(ORDER), measures


def of(
    control: TunnelControl,
    measures: PathMetrics,
    stuck: str = "",
    backend: TunnelProvider | None = None,
) -> TunnelFigures:
    return figures(control, measures, stuck, backend)


async def test_a_tunnel_that_answers(autojump_clock):
    control, measures = measuring()
    hello = PeerHello(seen_as=("10.65.0.0/16",))
    control.on_probe(ProbeResult(True, 0.001, lost=0.1, hello=hello), trio.current_time())
    await trio.sleep(5.0)
    found = of(control, measures)
    assert (found.alive, found.echo, found.heard, found.rtt, found.loss) == (
        *(True, 0.0, 0.0),
        *(0.001, 0.1),
    )
    assert found.seen_as == hello.seen_as


async def test_one_that_went_silent_and_whose_own_probes_still_come(autojump_clock):
    control, measures = measuring()
    control.on_probe(ProbeResult(True), trio.current_time())
    control.on_probe(ProbeResult(False), trio.current_time())
    await trio.sleep(4.0)
    found = of(control, measures)
    assert found.echo is not None
    assert found.echo > 4.0
    assert (found.heard, found.rtt, found.loss) == (found.echo, None, None)
    asked = ProbeResult(False, last_request=trio.current_time() - 1.0)
    control.on_probe(asked, trio.current_time())
    assert of(control, measures).heard == pytest.approx(1.0)
    measures.received_at = trio.current_time() - 0.5
    assert of(control, measures).heard == pytest.approx(0.5)


async def test_a_machine_that_refuses_is_told_as_its_device():
    control, measures = measuring()
    control.on_failure("there is no wireguard", 1.0)
    assert of(control, measures).device == "there is no wireguard"
    stuck = of(control, measures, stuck="no room for a route")
    assert (stuck.device, stuck.missing) == ("", ("no room for a route",))


async def test_a_backend_that_breaks_is_told_as_a_fault_of_the_tunnel():
    control, measures = measuring()
    measures.broken = "the network rope raised KeyError: 'a'"
    assert of(control, measures).device == measures.broken


async def test_an_interface_that_is_not_there_is_told_once_it_was_looked_for():
    control, measures = measuring()
    assert of(control, measures).device == ""
    measures.looked = trio.current_time()
    assert of(control, measures).device == "its interface is not there"
    control.on_probe(ProbeResult(True), trio.current_time())
    assert of(control, measures).device == ""


@pytest.mark.parametrize(("alive", "said"), [(True, ""), (False, "TLS ends")])
async def test_what_the_tunnel_says_is_in_its_way_is_shown_while_nothing_comes(alive, said):
    control, measures = measuring()
    measures.status = TunnelStatus(path="websocket", why="TLS ends")
    control.on_probe(ProbeResult(alive), trio.current_time())
    found = of(control, measures, backend=WEBSOCKET)
    assert (found.underlay, found.path, found.transport) == (said, "websocket", "TCP")


async def test_repairs_are_told_until_they_are_forgotten(autojump_clock):
    control, measures = measuring()
    assert measures.forgets_at == float("inf")
    measures.mended([ROUTE, TABLE])
    first = of(control, measures)
    assert (first.mended, first.translated) == (("route made",), ("table written",))
    await trio.sleep(1.0)
    for _ in range(2):
        measures.mended([ROUTE])
    fought = of(control, measures)
    assert (fought.mended, fought.missing) == ((), ("route made, 3 times in a minute",))
    assert measures.forgets_at == pytest.approx(trio.current_time() + FORGETS - 1.0, abs=0.01)
    await trio.sleep_until(measures.forgets_at)
    after = of(control, measures)
    assert (after.missing, after.mended, after.translated) == ((), ("route made",), ())
