"""The inspector's messages: in both directions over the wire, and what is no message."""

from typing import get_args

import pytest

from liqod.inspect import protocol
from liqod.inspect.protocol import ClientMessage, ServerMessage, Unreadable
from liqod.model.view.programinfo import ProgramInfo
from liqod.model.view.rows import EventRow, Line
from liqod.model.view.state import Delta
from tests.unit.model.states import NOW, peer, state

CLIENT: tuple[ClientMessage, ...] = (
    protocol.Subscribe(),
    protocol.GetHistory(id=1, metric="rtt", peer="milan", span=600),
    protocol.GetTasks(id=2),
    protocol.GetProgram(id=8),
    protocol.Examine(id=3, probe=True),
    protocol.GetObject(id=4, kind="Pod", namespace="shop", name="web"),
    protocol.GetLogs(id=5, namespace="shop", pod="web", follow=True),
    protocol.ExplainPod(id=9, namespace="shop", pod="web"),
    protocol.Preview(id=6, verb="unpeer", subject="milan"),
    protocol.Act(id=7, verb="offload", subject="shop", options={"strategy": "Remote"}),
    protocol.CancelRequest(id=5),
)
SERVER: tuple[ServerMessage, ...] = (
    protocol.InspectorHello(protocol=1, version="1", cluster_id="rome", started=NOW, at=NOW),
    protocol.StateSnapshot(
        sequence=3, at=NOW, state=state(peer()), lines=(Line(NOW, "info", "x"),)
    ),
    protocol.Update(sequence=4, at=NOW, delta=Delta(events=(EventRow(1, NOW, "peer.link"),))),
    protocol.Series(
        id=1, metric="rtt", unit="seconds", peer="milan", end=NOW, step=1.0, values=(0.1, None)
    ),
    protocol.Metrics(id=1, peer={"rtt": "round trip"}, daemon={}),
    protocol.Tasks(id=2, tasks=()),
    protocol.Findings(id=3, ladders=()),
    protocol.ProgramReport(
        id=8,
        program=ProgramInfo(version="1", python="CPython 3.11", kernel="Linux 6", machine="x86_64"),
        settings={"webhook": {"port": 9443}},
    ),
    protocol.Text(id=4, text="kind: Pod\n"),
    protocol.ActionPlan(
        id=6, verb="unpeer", subject="a", changes=("x",), destructive=True, command="c"
    ),
    protocol.ActionProgress(id=7, step="wait"),
    protocol.RequestDone(id=7),
    protocol.RequestRefused(id=7, code="forbidden", reason="read-only"),
)


def test_the_examples_are_all_messages_there_are():
    assert {type(each) for each in CLIENT} == set(get_args(ClientMessage))
    assert {type(each) for each in SERVER} == set(get_args(ServerMessage))


@pytest.mark.parametrize("message", CLIENT, ids=lambda each: type(each).__name__)
def test_a_client_is_understood(message: ClientMessage):
    assert protocol.read_client(protocol.encode(message)) == message


@pytest.mark.parametrize("message", SERVER, ids=lambda each: type(each).__name__)
def test_a_daemon_is_understood(message: ServerMessage):
    assert protocol.read_server(protocol.encode(message)) == message


def test_fields_and_types_of_a_newer_version_are_ignored():
    assert protocol.read_client(b'{"type":"tasks","id":1,"colour":"red"}') == protocol.GetTasks(
        id=1
    )
    assert protocol.read_client(b'{"type":"dance","id":1}') is None
    assert protocol.read_server('{"type":"weather"}') is None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"type":7}',
        b'{"type":"tasks"}',
        b'{"type":"tasks","id":"one"}',
        b'{"type":"act","id":1,"verb":"explode","subject":"x"}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_nonsense_is_unreadable(text: bytes):
    with pytest.raises(Unreadable):
        protocol.read_client(text)
