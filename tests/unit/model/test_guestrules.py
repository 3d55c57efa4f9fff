"""Fields that every provider refuses stay in this cluster."""

import msgspec
import pytest

from liqod.model.crossing import guestrules
from liqod.model.crossing.guestrules import Rules, parse, problem, render
from liqod.model.objects import scheduling
from liqod.model.objects.scheduling import Placement, late_verdict, mutate

BASELINE = Rules("baseline", ("configMap", "emptyDir", "secret", "host*"))
OPEN = Rules()


def pod(**spec):
    return {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web"}], **spec}}


def with_container(**more):
    return pod(containers=[{"name": "web", **more}])


REFUSED = {
    "hostPath": pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
    "nfs": pod(volumes=[{"name": "v", "nfs": {"server": "10.0.0.1", "path": "/"}}]),
    "privileged": with_container(securityContext={"privileged": True}),
    "SYS_ADMIN": with_container(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}),
    "port of the host": with_container(ports=[{"containerPort": 80, "hostPort": 80}]),
    "procMount": with_container(securityContext={"procMount": "Unmasked"}),
    "seccomp": pod(securityContext={"seccompProfile": {"type": "Unconfined"}}),
}


@pytest.mark.parametrize("what", list(REFUSED))
def test_what_the_provider_always_refuses_is_named(what):
    found = REFUSED[what]
    assert what in problem(found["spec"], (BASELINE,))
    assert not problem(found["spec"], (OPEN,))
    assert not problem(found["spec"], (BASELINE, None))
    assert not problem(found["spec"], (BASELINE, OPEN))
    assert not problem(found["spec"], ())


def test_what_is_ordinary_passes():
    ordinary = pod(
        volumes=[{"name": "v", "secret": {}}, {"name": "w", "emptyDir": {}}],
        containers=[
            {
                "name": "web",
                "ports": [{"containerPort": 80}],
                "securityContext": {"capabilities": {"add": ["CHOWN"], "drop": ["ALL"]}},
            }
        ],
    )
    assert not problem(ordinary["spec"], (BASELINE,))
    host = pod(hostNetwork=True, containers=REFUSED["port of the host"]["spec"]["containers"])
    assert not problem(host["spec"], (BASELINE,))


def test_rules_travel_and_nonsense_says_nothing():
    assert parse(render(BASELINE)) == BASELINE
    assert "budgets" not in render(BASELINE)
    budgets = msgspec.structs.replace(BASELINE, takes=frozenset({"budgets"}))
    assert parse(render(budgets)) == budgets
    older = render(BASELINE).replace("{", '{"direct":true,', 1)
    told = parse(older)  # what versions before say of pods without a ShadowPod
    assert told == msgspec.structs.replace(BASELINE, takes=frozenset({"direct"}))
    for text in (None, "", "no JSON", "[]", '{"volumes": "all"}', render(BASELINE) + " " * 5000):
        assert parse(text) is None
    assert len(render(Rules(volumes=("x",) * 100))) < guestrules.LONGEST


@pytest.mark.parametrize("what", list(REFUSED))
def test_a_pod_that_every_provider_refuses_gets_no_toleration_and_is_told_why(what):
    refused = Placement("LocalAndRemote", providers=(BASELINE,))
    assert mutate(REFUSED[what], Placement("LocalAndRemote", providers=(OPEN,)))
    [told] = mutate(REFUSED[what], refused)
    assert told["path"] == "/metadata/annotations"
    assert "it goes to no peer: " in told["value"]["liqod.io/note"]
    verdict = late_verdict(REFUSED[what], refused)
    assert verdict is not None
    assert verdict.reason == "NotLent"
    assert "so it runs on this cluster's own nodes only" in verdict.message


REMOTE = {"liqo.io/api-server-support": "remote"}


def annotated(notes, **spec):
    return {**pod(**spec), "metadata": {"name": "web", "annotations": notes}}


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (pod(runtimeClassName="gvisor"), "the RuntimeClass gvisor over there"),
        (
            annotated({"liqo.io/remote-runtime-class-name": "kata"}),
            "the RuntimeClass kata over there",
        ),
        (annotated(REMOTE, serviceAccountName="builder"), "the ServiceAccount builder over there"),
        (pod(serviceAccountName="builder"), ""),
        (pod(runtimeClassName="nvidia"), ""),
        (pod(), ""),
    ],
)
def test_accounts_and_runtime_classes_that_no_provider_lends_keep_a_pod_here(asked, why):
    lent = Rules(service_accounts=("default",), runtime_classes=("nvidia",))
    found = scheduling.blocked(asked, Placement(providers=(lent,)))
    assert (found is None) == (not why)
    assert found is None or why in found.message
    assert scheduling.blocked(asked, Placement(providers=(lent, OPEN))) is None
    # What an older provider says leaves both open.
    said = parse('{"podSecurity":"baseline","volumes":["secret"]}')
    assert scheduling.blocked(asked, Placement(providers=(said,))) is None
