"""The invariants can fail: a daemon that lacks a safeguard is found.

Each test takes one safeguard out and shows a script that the whole daemon survives and the broken
one does not.
"""

from typing import Any

import pytest
import trio

from liqod.consumer.nodes import nodecontroller
from liqod.consumer.webhook.missedpods import UnscheduledPods
from liqod.identity import signingrequests
from liqod.identity.signingrequests import SigningRequests
from liqod.kube import leaderelection
from liqod.kube.client import Client
from liqod.kube.leaderelection import LeaderElection
from liqod.model.objects import podreturns
from liqod.plugins import returning
from liqod.plugins.contracts import Json, Plan, View
from liqod.provider.tenants.renewals import Renewals
from liqod.reflection import statuswriter
from liqod.reflection.remotewriter import RemoteWriter, WriteResult
from liqod.reflection.statuswriter import StatusWriter
from liqod.runtime.supervise import leaves
from tests.stateful.audit import Broken
from tests.stateful.script import perform
from tests.stateful.steps import (
    Delete,
    Deployment,
    Finish,
    Foreign,
    Pod,
    Put,
    Recreate,
    Shut,
    Step,
    Wait,
)
from tests.stateful.upheavals import Age, CutWebhook, FailOver, Isolate, Pair, Undefine

pytestmark = [pytest.mark.long, pytest.mark.stateful]


def broken_by(*script: Step) -> str:
    """Performs a script, and returns the first rule that it is found to break."""
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - a group may be around it
        perform(*script)
    found = [leaf for leaf in leaves(caught.value) if isinstance(leaf, Broken)]
    assert found, caught.value
    return str(found[0])


def test_what_is_not_ours_is_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (Foreign("milan", "configmap", "a"), Put("configmap", "a", "b"))
    perform(*script)

    async def create(_: Any, work: Any, wanted: Any, cache: Any, client: Client) -> WriteResult:
        await client.apply(cache.kind, wanted.body, cache.namespace, manager="liqod")
        return WriteResult()

    monkeypatch.setattr(RemoteWriter, "_create", create)
    assert "it is not ours" in broken_by(*script)


def test_what_is_gone_at_home_is_left_there(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (Put("configmap", "a", "a"), Wait(3.0), Delete("configmap", "a"))
    perform(*script)

    async def nothing(*_: Any) -> None:
        return None

    monkeypatch.setattr(RemoteWriter, "_remove", nothing)
    assert "configmaps a has no configmaps a at home" in broken_by(*script)


def test_a_pod_ends_before_its_remote_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (Pod("a", "milan"), Wait(3.0), Delete("pod", "a"))
    perform(*script)

    async def nothing(*_: Any) -> None:
        return None

    monkeypatch.setattr(RemoteWriter, "_remove", nothing)
    monkeypatch.setattr(StatusWriter, "_left", lambda *_: ())
    assert "runs on" in broken_by(*script)


def test_the_end_of_a_pod_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (Pod("a", "milan"), Wait(3.0), Finish("milan", "a", "Failed"))
    perform(*script)

    async def nothing(*_: Any) -> None:
        return None

    monkeypatch.setattr(StatusWriter, "_patch", nothing)
    assert "the pod a is Pending, its remote pod Failed" in broken_by(*script)


def test_a_deletion_does_not_say_which_object_it_means(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (Pod("a", "milan"), Wait(3.0), Delete("pod", "a"), Wait(0.5), Recreate("a", "milan"))
    perform(*script)

    async def finish(client: Client, kind: Any, source: Any) -> bool:
        await trio.sleep(1.0)
        meta = source["metadata"]
        return await client.delete(kind, meta["name"], meta["namespace"], grace=0)

    monkeypatch.setattr(statuswriter, "delete_local", finish)
    assert "nobody has asked for its end" in broken_by(*script)


def test_a_leader_does_not_notice_that_it_leads_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (Pair("milan"), Wait(3.0), Isolate("milan"), Wait(20.0))
    perform(*script)

    async def go_on(*_: Any) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(LeaderElection, "_keep", go_on)
    assert "leads beside" in broken_by(*script)


def test_a_standby_does_not_look(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (FailOver("milan", dies=True),)
    perform(*script)
    monkeypatch.setattr(leaderelection, "DURATION", 60.0)
    assert "nobody leads milan" in broken_by(*script)


def test_a_missing_definition_counts_as_missing_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (Pod("a", "milan"), Wait(3.0), Undefine("rome", "virtualnodes"))
    perform(*script)

    async def always(*_: Any) -> bool:
        return True

    monkeypatch.setattr(nodecontroller, "is_defined", always)
    assert "and the pods [('milan', 'a'" in broken_by(*script)


def test_signing_requests_are_not_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (Age(5.0, asleep=False),)

    async def nothing(*_: Any) -> int:
        return 0

    monkeypatch.setattr(signingrequests, "_delete", nothing)
    perform(*script)
    monkeypatch.setattr(SigningRequests, "sweep", nothing)
    assert "was left behind" in broken_by(*script)


def test_a_certificate_is_not_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (Age(5.0, asleep=False),)
    perform(*script)

    async def nothing(*_: Any) -> None:
        return None

    monkeypatch.setattr(Renewals, "reconcile", nothing)
    assert "the certificate of controlplane-milan is due" in broken_by(*script)


def test_a_pod_that_the_webhook_missed_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (CutWebhook(True), Deployment("stray", 1), Wait(20.0))
    perform(*script)

    async def nothing(*_: Any) -> None:
        return None

    monkeypatch.setattr(UnscheduledPods, "reconcile", nothing)
    assert "may not run at a peer" in broken_by(*script)


def test_the_end_of_a_pod_that_returns_is_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (Shut("milan", True), Shut("turin", True), Deployment("web", 1), Wait(35.0))
    perform(*script)

    def believed(pod: Json, view: View, *_: object) -> Plan:
        return Plan(hold=True, status=podreturns.marked(pod, None, "True", None, view.now))

    monkeypatch.setattr(returning, "withdrawal", believed)
    assert "it has returned, and" in broken_by(*script)
