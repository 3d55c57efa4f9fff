"""Fields that every provider refuses stay in this cluster."""

import msgspec
import pytest

from liqod.model.crossing import guestrules, overrides
from liqod.model.crossing.guestrules import Rules, parse, problems, render
from liqod.model.objects import eligibility, scheduling
from liqod.model.objects.eligibility import Placement
from liqod.model.objects.scheduling import late_verdict, mutate

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
    several = {"milan": BASELINE, "turin": OPEN, "oslo": None}
    [(peer, why)] = problems(found["spec"], several).items()
    assert (peer, what in why) == ("milan", True)
    assert not problems(found["spec"], {})


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
    assert not problems(ordinary["spec"], {"milan": BASELINE})
    host = pod(hostNetwork=True, containers=REFUSED["port of the host"]["spec"]["containers"])
    assert not problems(host["spec"], {"milan": BASELINE})


def test_rules_travel_and_nonsense_says_nothing():
    assert parse(render(BASELINE)) == BASELINE
    assert "budgets" not in render(BASELINE)
    budgets = msgspec.structs.replace(BASELINE, takes=frozenset({"budgets"}))
    assert parse(render(budgets)) == budgets
    older = render(BASELINE).replace("{", '{"direct":true,', 1)
    told = parse(older)  # what versions before say of pods without a ShadowPod
    assert told == msgspec.structs.replace(BASELINE, takes=frozenset({"direct"}))
    told = msgspec.structs.replace(BASELINE, waiting_gives_way=True)
    assert parse(render(told)) == told  # and it is no consent to a kind
    for text in (None, "", "no JSON", "[]", '{"volumes": "all"}', render(BASELINE) + " " * 5000):
        assert parse(text) is None
    assert len(render(Rules(volumes=("x",) * 100))) < guestrules.LONGEST


@pytest.mark.parametrize("what", list(REFUSED))
def test_a_pod_that_every_provider_refuses_gets_no_toleration_and_is_told_why(what):
    refused = Placement("LocalAndRemote", providers={"milan": BASELINE})
    assert mutate(REFUSED[what], Placement("LocalAndRemote", providers={"milan": OPEN}))
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
    found = eligibility.decide(asked, Placement(providers={"milan": lent})).stays
    assert (found is None) == (not why)
    assert found is None or why in found.message
    assert (
        eligibility.decide(asked, Placement(providers={"milan": lent, "turin": OPEN})).stays is None
    )
    # What an older provider says leaves both open.
    said = parse('{"podSecurity":"baseline","volumes":["secret"]}')
    assert eligibility.decide(asked, Placement(providers={"milan": said})).stays is None


GPUS = "nvidia.com/gpu"
MACHINES = Rules(
    machines=({"cpu": "16", "memory": "64Gi"}, {"cpu": "8", "memory": "32Gi", GPUS: 4})
)


def asking(**requests):
    return with_container(resources={"requests": requests})


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"cpu": "16"}, ""),
        ({"cpu": "17"}, "no machine has cpu 17"),
        ({GPUS: 4}, ""),
        ({GPUS: 8}, "no machine has nvidia.com/gpu 8"),
        ({GPUS: 1, "cpu": "12"}, "no machine has cpu 12, nvidia.com/gpu 1 together"),
        ({"amd.com/gpu": 1}, "no machine has amd.com/gpu 1"),
        ({"cpu": "nonsense"}, ""),
        ({}, ""),
    ],
)
def test_a_pod_that_is_larger_than_every_machine_is_not_sent_there(asked, why):
    spec = asking(**asked)["spec"]
    assert problems(spec, {"milan": MACHINES}) == ({"milan": why} if why else {})
    assert not problems(spec, {"milan": OPEN}), "who tells no machines may have any"
    assert parse(render(MACHINES)) == MACHINES


def test_of_several_providers_the_one_where_it_can_never_be_is_left_out():
    several = Placement(providers={"milan": MACHINES, "turin": OPEN})
    large = asking(cpu="40")
    out = {"key": "liqo.io/remote-cluster-id", "operator": "NotIn", "values": ["milan"]}

    def terms(placement):
        patched = [each for each in mutate(large, placement) if each["path"] == "/spec/affinity"]
        node = patched[0]["value"]["nodeAffinity"] if patched else {}
        found = node.get("requiredDuringSchedulingIgnoredDuringExecution", {})
        return [each["matchExpressions"] for each in found.get("nodeSelectorTerms", ())]

    assert terms(several) == [[out]], "this cluster's nodes have no such label, and stay"
    remote = msgspec.structs.replace(several, strategy="Remote")
    virtual = {"key": "liqo.io/type", "operator": "In", "values": ["virtual-node"]}
    assert terms(remote) == [[virtual, out]]
    assert terms(msgspec.structs.replace(several, strategy="Local")) == []
    nobody = msgspec.structs.replace(several, providers={"milan": MACHINES})
    assert terms(nobody) == []
    [told] = mutate(large, nobody)
    assert "it goes to no peer: no machine has cpu 40" in told["value"]["liqod.io/note"]
    # One that waits since before the provider told it is not held to it.
    waiting = {**large, "spec": {**large["spec"], "tolerations": [dict(scheduling.TOLERATION)]}}
    assert late_verdict(waiting, several) is None


def small_at(*peers):
    """A policy by which pods ask for eight CPUs at some peers."""
    spec = {"objects": [{"kind": "Pod"}], "peers": peers, "requests": {"cpu": "8"}}
    policy = {"metadata": {"name": "small", "namespace": "shop"}, "spec": spec}
    return overrides.compiled(msgspec.json.encode(policy))


def test_a_pod_is_judged_by_what_it_asks_for_at_each_provider():
    large, lent = asking(cpu="40"), {"milan": MACHINES, "turin": MACHINES}
    placement = Placement(providers=lent, overrides=(small_at("milan"),))
    assert eligibility.decide(large, placement).refused == {"turin": "no machine has cpu 40"}
    everywhere = msgspec.structs.replace(placement, overrides=(small_at(),))
    assert eligibility.decide(large, everywhere).refused == {}
    none = msgspec.structs.replace(placement, overrides=())
    assert set(eligibility.decide(large, none).refused) == set(lent)
    # A controller's pod has no name yet when it is admitted.
    named_by = {**large, "metadata": {"generateName": "web-"}}
    assert set(eligibility.decide(named_by, placement).refused) == {"turin"}


def test_rules_are_compared_once_for_a_pod_and_its_placement(monkeypatch):
    compared = []
    judge = guestrules.problems

    def counted(*given):
        compared.append(given)
        return judge(*given)

    monkeypatch.setattr(guestrules, "problems", counted)
    assert mutate(asking(cpu="40"), Placement(providers={"milan": MACHINES, "turin": OPEN}))
    assert len(compared) == 1
