"""The next step for a peer's tunnel, by its order, the machine's role, and what became of it."""

from math import inf

import pytest

from liqod.model.network.liveness import DEADLINE
from liqod.network.machine.desiredtunnel import DesiredTunnel, desired_tunnel
from liqod.network.machine.tunnelcontrol import (
    CUT,
    LAST_RESORT,
    NO_ANSWER_YET,
    QUARREL,
    Make,
    TunnelControl,
    Vacate,
    Wait,
)
from liqod.network.orders.candidacy import GatewayState
from liqod.network.orders.tunnels import TunnelOrder
from liqod.tunnel.probes.messages import PeerHello, ProbeResult
from tests.unit.network.tunnels import (
    ACTIVE,
    BY_VXLAN,
    ELSEWHERE,
    LENDS,
    ORDER,
    STANDBY,
    UNKNOWN,
    WARM,
)

ALIVE, SILENT = ProbeResult(True, 0.001), ProbeResult(False, why="nothing answers")
PAUSE = 120.0


def made(
    control: TunnelControl, now: float, role: GatewayState = ACTIVE, pause: float = PAUSE
) -> DesiredTunnel:
    """Does the next step, which has to be to make it; what was made."""
    step = control.step(role, WARM, now)
    assert isinstance(step, Make)
    control.on_begun(step.desired)
    control.on_up(pause, now)
    control.on_made(step.desired, now)
    return step.desired


def standing(now: float = 0.0) -> TunnelControl:
    """A tunnel that is made, and answers."""
    control = TunnelControl(ORDER)
    made(control, now)
    control.on_probe(ALIVE, now)
    return control


def test_it_is_made_once_and_brought_up_again_after_its_pause():
    control = TunnelControl(ORDER)
    desired = made(control, 1.0)
    assert (desired.gateway, desired.ranges) == (ORDER.gateway, ORDER.ranges)
    assert desired.spec.private_key == ORDER.private_key
    assert control.step(ACTIVE, WARM, 2.0) == Wait(1.0 + PAUSE)
    assert control.step(ACTIVE, WARM, 1.0 + PAUSE) == Make(desired)


def test_while_the_gateway_is_not_known_all_stays():
    assert TunnelControl(ORDER).step(UNKNOWN, WARM, 0.0) == Wait(inf)
    control = standing()
    control.on_disturbance()
    assert control.step(UNKNOWN, WARM, 1.0) == Wait(inf)


def test_a_new_one_is_not_judged_until_the_probes_have_a_result():
    control = TunnelControl(ORDER)
    made(control, 0.0)
    assert (control.state.state, control.state.why) == ("Connecting", NO_ANSWER_YET)
    assert not control.judged
    control.on_probe(SILENT, 2.0)
    assert (control.state.state, control.state.why) == ("Connecting", "nothing answers")
    assert control.judged
    control.on_probe(ALIVE, 3.0)
    assert (control.state.state, control.state.latency) == ("Connected", 0.001)


@pytest.mark.parametrize(("order", "judged"), [(LENDS, True), (ELSEWHERE, False)])
def test_what_is_lent_meanwhile_says_nothing_of_a_tunnel_that_stands(
    order: TunnelOrder, judged: bool
):
    control = standing()
    control.on_order(order)
    made(control, 1.0)
    assert control.judged == judged
    assert control.state.state == ("Connected" if judged else "Connecting")


def test_a_failure_is_told_and_tried_again_later():
    control = TunnelControl(ORDER)
    for failures in (1, 2, 3):
        step = control.step(ACTIVE, WARM, float(failures))
        assert isinstance(step, Make)
        control.on_begun(step.desired)
        control.on_failure("no room for a route", failures + 1.0)
        assert (control.state.state, control.state.why) == ("Error", "no room for a route")
        assert control.failures == failures
        assert control.step(ACTIVE, WARM, failures + 0.5) == Wait(failures + 1.0)
    made(control, 4.0)
    assert (control.state.state, control.failures) == ("Connecting", 0)


@pytest.mark.parametrize("stirs", ["order", "role", "disturbance"])
def test_what_changes_meanwhile_is_tried_at_once(stirs: str):
    control = TunnelControl(ORDER)
    control.on_failure("no", 5.0)
    assert isinstance(control.step(ACTIVE, WARM, 0.1), Wait)
    match stirs:
        case "order":
            control.on_order(LENDS)
        case "role":
            control.on_role()
        case _:
            control.on_disturbance()
    assert isinstance(control.step(ACTIVE, WARM, 0.1), Make)


def test_a_failure_leaves_it_to_be_made_though_it_was_there():
    control = standing()
    control.on_disturbance()
    step = control.step(ACTIVE, WARM, 1.0)
    assert isinstance(step, Make)
    control.on_begun(step.desired)
    control.on_failure("no", 1.5)
    assert control.step(ACTIVE, WARM, 1.5) == step


def test_what_others_disturb_is_made_again_but_not_without_a_pause_where_they_do_not_stop():
    control = standing()
    control.on_disturbance()
    assert isinstance(control.step(ACTIVE, WARM, 0.1), Make)
    assert control.step(ACTIVE, WARM, 0.1, quarrels=True) == Wait(QUARREL)
    assert isinstance(control.step(ACTIVE, WARM, QUARREL, quarrels=True), Make)
    control.on_order(ELSEWHERE)
    assert isinstance(control.step(ACTIVE, WARM, 0.1, quarrels=True), Make)


def test_in_silence_the_tunnel_is_told_at_once_and_once():
    control = standing()
    control.on_probe(SILENT, 10.0)
    step = control.step(ACTIVE, WARM, 10.0)
    assert isinstance(step, Make)
    assert step.silent == pytest.approx(DEADLINE)
    made(control, 10.0)
    control.on_probe(SILENT, 11.0)
    assert control.step(ACTIVE, WARM, 11.0) == Wait(10.0 - DEADLINE + CUT)
    assert control.silent(11.0) == pytest.approx(1.0 + DEADLINE)
    control.on_probe(ALIVE, 12.0)
    control.on_disturbance()
    step = control.step(ACTIVE, WARM, 12.0)
    assert isinstance(step, Make)
    assert step.silent == 0.0


def test_a_websocket_that_is_offered_no_more_is_passed_over_until_nothing_else_is_left():
    control = standing()

    def uses() -> int:
        return desired_of(control).spec.websocket

    for says, port in ((None, 443), (False, 0), (None, 0), (True, 443), (False, 0)):
        control.on_probe(ProbeResult(True, hello=PeerHello(websocket=says)), 1.0)
        assert uses() == port
    control.on_probe(SILENT, 2.0)
    control.on_probe(SILENT, 2.0 + LAST_RESORT - DEADLINE)
    assert uses() == 0
    control.on_probe(SILENT, 2.1 + LAST_RESORT)
    assert uses() == 443


def desired_of(control: TunnelControl) -> DesiredTunnel:
    control.on_disturbance()
    step = control.step(ACTIVE, WARM, 1000.0)
    assert isinstance(step, Make)
    return step.desired


def test_a_standby_is_quiet_where_the_backend_can_be_and_else_has_nothing():
    control = TunnelControl(ORDER)
    step = control.step(STANDBY, WARM, 0.0)
    assert isinstance(step, Make)
    assert (step.desired.spec.quiet, step.desired.active) == (True, False)
    step = control.step(STANDBY, (), 0.0)
    assert isinstance(step, Vacate)
    control.on_vacated(step.desired)
    assert control.step(STANDBY, (), 1e6) == Wait(inf)
    control.on_role()
    taken = control.step(ACTIVE, (), 1e6)
    assert isinstance(taken, Make)
    assert not taken.replaces


def test_a_takeover_tries_first_where_the_peer_was_heard_last():
    role = GatewayState(True, 7, {"milan": "192.0.2.9:1"})
    desired = desired_tunnel(ORDER, role, WARM)
    assert (desired.spec.last, desired.spec.mark) == ("192.0.2.9:1", 7)
    cold = desired_tunnel(ORDER, role, ())
    assert (cold.spec.last, cold.spec.mark) == ("", 0)


def test_another_backend_takes_the_place_of_the_first_also_of_one_that_failed():
    for fails in (False, True):
        control = TunnelControl(ORDER)
        if fails:
            step = control.step(ACTIVE, WARM, 0.0)
            assert isinstance(step, Make)
            control.on_begun(step.desired)
            control.on_failure("no", 0.0)
        else:
            made(control, 0.0)
        control.on_order(BY_VXLAN)
        step = control.step(ACTIVE, WARM, 1.0)
        assert isinstance(step, Make)
        assert step.replaces
        control.on_removed()
        control.on_begun(step.desired)
        control.on_made(step.desired, 1.0)
        assert control.step(ACTIVE, WARM, 1.0) != step


def test_a_peer_that_does_not_know_all_ranges_is_named():
    control = standing()
    assert control.unseen == "", "a Liqo says nothing of it"
    for seen, named in ((("10.66.0.0/16",), True), (("10.66.0.0/16", "10.67.0.0/16"), False)):
        control.on_probe(ProbeResult(True, hello=PeerHello(seen_as=seen)), 1.0)
        assert ("milan does not know all of 10.244.0.0/16" in control.unseen) == named
    control.on_unattended()
    assert (control.unseen, control.last, control.silent(2.0)) == ("", None, None)


def test_connections_are_cut_after_a_long_silence_and_no_more_at_the_first_answer():
    control = standing()
    control.on_probe(SILENT, 10.0)
    made(control, 10.0)
    silent = 10.0 - DEADLINE
    assert control.step(ACTIVE, WARM, 11.0) == Wait(silent + CUT)
    assert made(control, silent + CUT).cut
    assert control.step(ACTIVE, WARM, silent + CUT + 1) == Wait(silent + CUT + PAUSE)
    # The tunnel is brought up again, and the cut stays.
    assert made(control, silent + CUT + PAUSE).cut
    control.on_probe(ALIVE, 200.0)
    assert not made(control, 200.0).cut
    assert control.state.state == "Connected"
    assert control.step(ACTIVE, WARM, 201.0) == Wait(200.0 + PAUSE)


def test_one_that_moves_in_time_is_not_cut():
    control = standing()
    control.on_probe(SILENT, 10.0)
    made(control, 10.0)
    control.on_probe(ALIVE, 10.0 + CUT - DEADLINE - 0.1)
    for now in (10.0 + CUT, 10.0 + 2 * CUT):
        assert control.step(ACTIVE, WARM, now) == Wait(10.0 + PAUSE)


def test_a_standby_and_a_new_process_cut_nothing_by_what_others_have_found():
    control = standing()
    control.on_probe(SILENT, 10.0)
    assert not made(control, 10.0 + CUT, STANDBY).cut
    control.on_unattended()
    assert not made(control, 10.0 + 2 * CUT).cut
    later = TunnelControl(ORDER)
    assert not made(later, 1000.0).cut
    later.on_probe(SILENT, 1002.0)
    assert not made(later, 1002.0).cut
