"""Inputs and results of the network's test, and its scripts, run by this machine's own busybox."""

import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from liqod.procedures import testplan
from liqod.procedures.testplan import NetworkTestRow, ProbeLocation, Try, passed, rows

ROME = ProbeLocation("rome", "rome-1", "198.18.1.2")
MILAN = ProbeLocation("milan", "milan", number=1)
TRIES = testplan.tries_here(
    ROME, [MILAN], {"server-1": ["10.71.0.5"]}, {"at-1": ["10.96.0.9"]}, {1: 30080}, "192.0.2.1:443"
)


def test_a_client_here_tries_pods_services_node_ports_and_the_outside():
    assert [(each.target, each.verb, each.to) for each in TRIES] == [
        ("pod milan 10.71.0.5", "address", "10.71.0.5 8080"),
        ("service of milan's pods 10.96.0.9", "address", "10.96.0.9 8080"),
        ("node port of milan's pods", "address", "198.18.1.2 30080"),
        ("outside 192.0.2.1:443", "connect", "192.0.2.1 443"),
    ]


def test_a_client_on_a_node_tries_pods_and_services():
    found = testplan.tries_here(
        ROME, [MILAN], {"server-1": ["fd00::5"]}, {"at-1": ["10.96.0.9"]}, {1: 1}, "a:1", host=True
    )
    assert [each.to for each in found] == ["fd00::5 8080", "10.96.0.9 8080"]


def test_a_client_there_goes_by_names():
    found = testplan.tries_there(MILAN, [ROME], {0: 30081}, "")
    assert [(each.verb, each.to) for each in found] == [
        ("each", "pods-0"),
        ("each", "at-0"),
        ("address", '"$HOST_IP" 30081'),
    ]


def test_what_clients_say_becomes_rows():
    message = (
        "0 ok milan 10.72.0.9\n1 ok milan [::ffff:10.72.0.9]:4312\n"
        "3 failed wget: download timed out\nnonsense\n9 x\n"
    )
    assert rows(TRIES, message, "it said nothing") == [
        NetworkTestRow(
            TRIES[0].source, TRIES[0].target, "ok", "milan answered, which sees 10.72.0.9"
        ),
        NetworkTestRow(
            TRIES[1].source, TRIES[1].target, "ok", "milan answered, which sees 10.72.0.9"
        ),
        NetworkTestRow(TRIES[2].source, TRIES[2].target, "failed", "it said nothing"),
        NetworkTestRow(TRIES[3].source, TRIES[3].target, "failed", "wget: download timed out"),
    ]


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [(["ok"], True), (["ok", "skipped"], True), (["ok", "failed"], False), (["skipped"], False)],
)
def test_nothing_that_was_tried_may_fail(verdicts, expected):
    assert passed(NetworkTestRow("a", "b", each, "") for each in verdicts) is expected


def test_pods_ask_for_no_rights_but_those_on_the_nodes_own_network():
    for made in (
        testplan.server(MILAN, "busybox"),
        testplan.client("client-0", ROME, "busybox", TRIES),
    ):
        (container,) = made["spec"]["containers"]
        assert container["securityContext"]["runAsNonRoot"] is True
        assert "hostNetwork" not in made["spec"]
    assert testplan.client("n", ROME, "busybox", TRIES, host=True)["spec"]["hostNetwork"] is True


@pytest.mark.skipif(shutil.which("busybox") is None, reason="there is no busybox on this machine")
def test_the_scripts_find_each_other(tmp_path: Path):
    """A server and a client as in their pods, on loopback; a closed port fails with the reason."""
    port = 18080

    def script(manifest: dict[str, Any]) -> str:
        (container,) = manifest["spec"]["containers"]
        text: str = container["command"][2].replace("/dev/termination-log", f"{tmp_path}/said")
        return text.replace("/work", str(tmp_path)).replace("-p 8080", f"-p {port}")

    tries = [
        Try("a", "b", "address", f"127.0.0.1 {port}"),
        Try("a", "b", "address", f"::1 {port}"),
        Try("a", "b", "address", "127.0.0.1 1"),
        Try("a", "b", "connect", f"127.0.0.1 {port}"),
        Try("a", "b", "connect", "127.0.0.1 1"),
    ]
    running = subprocess.Popen(["busybox", "sh", "-c", script(testplan.server(MILAN, "busybox"))])
    try:
        time.sleep(0.2)
        impatient = script(testplan.client("c", ROME, "busybox", tries)).replace(
            f"patience={testplan.PATIENCE}", "patience=1"
        )
        subprocess.run(["busybox", "sh", "-c", impatient], check=True, timeout=60)
    finally:
        running.kill()
        running.wait()
    found = rows(tries, (tmp_path / "said").read_text(), "nothing")
    assert [each.verdict for each in found] == ["ok", "ok", "failed", "ok", "failed"]
    assert found[0].detail == "milan answered, which sees 127.0.0.1"
    assert "refused" in found[2].detail
