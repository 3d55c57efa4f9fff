"""When tokens of a pod are asked, written, left, renewed and taken back."""

import msgspec
import pytest

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import PODS
from liqod.model.objects import homeapi
from liqod.model.objects.homeapi import HomeApi
from liqod.plugins.contracts import NOTHING, Absence, RemoteObject, ServiceAccountToken, Token
from liqod.plugins.reflectors import pods, tokens
from simulator.suites import NAMES, ReflectorContract, StaticView
from tests.unit.plugins.reflected import pod

API = HomeApi(mode="home", host="kubernetes.default", alias="10.70.0.1")
LET = msgspec.structs.replace(NAMES, home_api=API)
SOURCES = [
    {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
    {"configMap": {"name": "kube-root-ca.crt"}},
]
VOLUMES = [{"name": "api", "projected": {"sources": SOURCES}}]
WEB = pod(spec={"volumes": VOLUMES, "serviceAccountName": "robot"})
RUNS = {"phase": "Running", "containerStatuses": [{"name": "web"}]}
NEED = ServiceAccountToken(
    account="robot", pod="web", pod_uid="uid-web", seconds=3600, lasts=tokens.KEPT
)
LOOK = RemoteObject(kind=PODS, name="web", lasts=tokens.PACE)
END = "2026-01-02T04:04:05Z"
GIVEN = Token("jwt", END)


def there(end: str = END, uid: str = "uid-web"):
    notes = {labels.SERVICE_ACCOUNT_POD_UID: uid, labels.SERVICE_ACCOUNT_EXPIRATION: end}
    metadata = {"name": "web-token", "annotations": notes}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}


def plan(source=WEB, *, names=LET, remote=(), now="2026-01-02T03:04:05Z", **fulfilled):
    answers = {NEED: fulfilled.get("token"), LOOK: fulfilled.get("look")}
    view = StaticView(
        tokens.REFLECTOR,
        names=names,
        remote=remote,
        now=now,
        fulfilled={need: answer for need, answer in answers.items() if answer is not None},
    )
    return tokens.outgoing(source, view)


class TestTokensKeepTheContract(ReflectorContract):
    reflector = tokens.REFLECTOR
    sources = (WEB,)
    names = LET
    fulfilled = {NEED: GIVEN}  # noqa: RUF012


def test_they_are_asked_for_the_pod_and_written_beside_it():
    assert plan().needs == (NEED,)
    (secret,) = plan(token=GIVEN).remote
    assert secret["metadata"]["name"] == "web-token"
    assert secret["metadata"]["annotations"][labels.SERVICE_ACCOUNT_EXPIRATION] == END


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(NAMES, id="no cluster is let"),
        pytest.param(
            msgspec.structs.replace(NAMES, home_api=HomeApi(mode="asked", host="h")), id="not asked"
        ),
        pytest.param(msgspec.structs.replace(NAMES, home_api=HomeApi(mode="home")), id="no way"),
    ],
)
def test_no_token_is_asked_where_none_is_to_be_given(names):
    assert plan(names=names) == NOTHING
    assert plan(names=names, token=GIVEN) == NOTHING


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_they_go_when_the_pod_has_ended(phase):
    source = {**WEB, "status": {"phase": phase}}
    assert plan(source, remote=[there()], token=GIVEN) == NOTHING


def test_a_pod_that_ends_keeps_its_own_and_gets_no_other():
    meta = {**WEB["metadata"], "deletionTimestamp": END}
    found = plan({**WEB, "metadata": meta}, remote=[there("2026-01-02T03:04:06Z")])
    assert found.hold
    assert not found.needs


def test_a_namespace_off_the_map_decides_nothing():
    names = msgspec.structs.replace(LET, absence=Absence.UNKNOWN)
    assert plan(names=names, remote=[there()]).hold


def test_what_lasts_is_left_until_it_is_due_and_then_renewed():
    reserve = homeapi.reserve(WEB)
    found = plan(remote=[there()])
    assert found.hold
    assert not found.needs
    assert found.requeue_after == 3600 - reserve
    assert plan(remote=[there()], now="2026-01-02T03:54:05Z").needs == (NEED,)


def test_a_pod_of_the_same_name_gets_tokens_of_its_own():
    assert plan(remote=[there(uid="of the one before")]).needs == (NEED,)


def test_late_is_said():
    late = "2026-01-02T04:00:05Z"
    found = plan(remote=[there()], now=late, token=GIVEN)
    assert [each.code for each in found.reasons] == [tokens.LATE]
    assert found.remote
    in_time = plan(remote=[there()], now="2026-01-02T03:54:05Z", token=GIVEN)
    assert not in_time.reasons
    assert in_time.remote


def test_a_refusal_is_said_and_takes_nothing_away():
    found = plan(token=Token("", "", "serviceaccounts robot not found"))
    assert found.hold
    assert not found.remote
    assert found.requeue_after == tokens.AGAIN
    (reason,) = found.reasons
    assert reason.code == tokens.REFUSED
    assert "robot not found" in reason.message


def test_a_pod_from_before_gets_none_as_it_mounts_none():
    source = {**WEB, "status": RUNS}
    assert plan(source).needs == (LOOK,)
    assert plan(source, look={"spec": {"volumes": []}}, token=GIVEN) == NOTHING
    assert plan(source, look={}).hold
    mounts = {"projected": {"sources": [{"secret": {"name": "web-token"}}]}}
    assert plan(source, look={"spec": {"volumes": [mounts]}}).needs == (NEED,)


def test_a_token_is_in_no_text():
    assert "jwt" not in repr(GIVEN)
    assert "jwt" not in str(GIVEN)


# --- and the pod itself ---------------------------------------------------------------------------


def outgoing(source=WEB, *, names=LET, now="2026-01-02T03:04:05Z"):
    return pods.outgoing(source, StaticView(pods.REFLECTOR, names=names, now=now))


def test_one_without_a_way_runs_and_is_told():
    names = msgspec.structs.replace(NAMES, home_api=HomeApi(mode="home"))
    found = outgoing(names=names)
    assert found.remote
    assert [each.code for each in found.reasons] == [pods.NO_WAY_HOME]
    assert not outgoing(names=NAMES).reasons


def test_one_waits_a_moment_for_networks_that_are_being_joined():
    names = msgspec.structs.replace(NAMES, home_api=HomeApi(mode="home", awaited=True))
    when = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-02T03:04:00Z"}
    source = {**WEB, "status": {"phase": "Pending", "conditions": [when]}}
    found = outgoing(source, names=names)
    assert not found.remote
    assert found.requeue_after == pods.WAY_WAIT - 5
    assert outgoing(source, names=names, now="2026-01-02T03:05:00Z").remote
