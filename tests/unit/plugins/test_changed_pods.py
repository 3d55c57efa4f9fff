"""Reports on a pod whose change has no effect yet at the peer, and when they are made."""

import copy
from typing import Any

import pytest

from liqod.apimachinery import labels
from liqod.model.objects import conditions, podchanges, podspec
from liqod.model.objects.patches import merged
from liqod.plugins.contracts import Plan, Refusal
from liqod.plugins.reflectors import pods
from liqod.plugins.reflectors.pods import CHANGED
from liqod.resources import SHADOW_PODS
from tests.unit.plugins.reflected import RUNNING, remote_pod, shadow, view

Json = dict[str, Any]
NEW_IMAGE = {"containers": [{"name": "web", "image": "nginx:2"}]}


def changed(**spec: Any) -> Json:
    """A pod that runs, and was changed here."""
    made = copy.deepcopy(RUNNING)
    made["spec"] |= spec or NEW_IMAGE
    return made


def state(pod: Json) -> str:
    return podchanges.state(podspec.shadow_spec(pod, consumer="rome"))


def there(note: str = "") -> Json:
    made = remote_pod()
    if note:
        made["metadata"]["annotations"] = {**made["metadata"]["annotations"], labels.CHANGES: note}
    return made


def seen(pod: Json, remote: Json, *, generation: int = 2, **options: Any) -> Plan:
    mine = (shadow(generation=generation), remote)
    return pods.incoming(pod, (remote,), view(remote=mine, **options))


def said(pod: Json, plan: Plan) -> tuple[str, str]:
    """The reason and the message that the pod's condition has after that."""
    after = merged(pod["status"], plan.status or {})
    found = conditions.find(after["conditions"], CHANGED) or {}
    assert found.get("status") in (None, "False")
    return found.get("reason", ""), found.get("message", "")


def test_what_the_provider_notes_is_said_at_once_and_taken_back() -> None:
    pod = changed()
    note = podchanges.note(state(pod), podchanges.PodChangeProblem("OverQuota", "cpu: too much"))
    plan = seen(pod, there(note))
    assert said(pod, plan) == ("OverQuota", "milan: cpu: too much")
    assert [(each.code, each.message) for each in plan.reasons] == [
        ("OverQuota", "a change is not in force: milan: cpu: too much")
    ]
    told = {**pod, "status": merged(pod["status"], plan.status)}
    assert said(told, seen(told, there(note))) == said(pod, plan)
    over = seen(told, there(state(pod)))
    assert said(told, over) == ("", "")
    assert over.reasons == ()


def test_a_debugger_that_is_refused_waits_and_says_why() -> None:
    """As `kubectl debug` prints it; and only what the peer has not taken is said to wait."""
    debuggers = [{"name": name, "image": "busybox"} for name in ("first", "second")]
    pod = changed(ephemeralContainers=debuggers)
    word = "ephemeralContainers: must not include SYS_PTRACE"
    remote = there(podchanges.note(state(pod), podchanges.PodChangeProblem("Refused", word)))
    remote["spec"]["ephemeralContainers"] = debuggers[:1]
    running = {"name": "first", "state": {"running": {}}}
    remote["status"]["ephemeralContainerStatuses"] = [running]
    plan = seen(pod, remote)
    told = {**pod, "status": merged(pod["status"], plan.status or {})}
    first, second = told["status"]["ephemeralContainerStatuses"]
    assert first == running
    assert second["state"] == {"waiting": {"reason": "Refused", "message": f"milan: {word}"}}
    assert seen(told, remote).status is None, "it is said once"
    taken = there(state(pod))
    taken["spec"]["ephemeralContainers"] = debuggers
    ran = {**running, "name": "second"}
    taken["status"]["ephemeralContainerStatuses"] = [running, ran]
    over = merged(told["status"], seen(told, taken).status)
    assert over["ephemeralContainerStatuses"] == [running, ran]


def test_what_the_api_server_refuses_of_the_shadow_pod_is_said() -> None:
    pod = changed()
    refusal = Refusal(403, "admission webhook denied it", SHADOW_PODS, retried=True)
    plan = seen(pod, there(), refusals=(refusal,))
    assert said(pod, plan) == ("Refused", "refused by milan: admission webhook denied it")


def test_what_a_peer_does_not_take_over_is_said_after_a_while() -> None:
    pod = changed()
    plan = seen(pod, there())
    assert said(pod, plan) == ("NotTakenOver", "milan has not taken over what was changed: image")
    assert plan.debounce == pods.SLOW_START
    assert plan.reasons == ()
    told = {**pod, "status": merged(pod["status"], plan.status)}
    assert [each.code for each in seen(told, there()).reasons] == ["NotTakenOver"]


def test_what_matters_more_does_not_wait_for_it() -> None:
    pod = changed()
    remote = there()
    remote["status"]["phase"] = "Failed"
    assert seen(pod, remote).debounce == 0


def test_a_pod_that_its_peer_made_another_was_not_changed() -> None:
    pod = changed()
    assert said(pod, seen(pod, there(), generation=1)) == ("", "")


@pytest.mark.parametrize("more", [{}, {"tolerations": [{"key": "spot", "operator": "Exists"}]}])
def test_what_the_peer_decides_on_is_not_missed(more: Json) -> None:
    pod = changed(**more) if more else RUNNING
    assert said(pod, seen(pod, there())) == ("", "")
