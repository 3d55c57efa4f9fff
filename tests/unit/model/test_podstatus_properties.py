"""A status made from any statuses is one that an API server takes, and it rests."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from liqod.model.crossing import addresses
from liqod.model.objects import conditions, podstatus
from liqod.model.objects.patches import merged
from liqod.model.objects.podstatus import REMOTE_POD
from tests.unit.model.pods import condition, finished, local, run, running

NAMES = st.sampled_from(["web", "side", "other"])
CONTAINERS = st.lists(
    st.one_of(
        st.builds(running, NAMES, st.integers(0, 3)),
        st.builds(finished, NAMES, st.sampled_from([0, 1])),
        st.builds(lambda name: {"name": name, "state": {"waiting": {}}, "ready": False}, NAMES),
    ),
    max_size=3,
    unique_by=lambda each: each["name"],
)
PHASES = st.sampled_from(["Pending", "Running", "Succeeded", "Failed"])
CONDITIONS = st.lists(
    st.builds(
        condition,
        st.sampled_from(["Ready", "ContainersReady", "PodScheduled", "gate", "mine", REMOTE_POD]),
        st.sampled_from(["True", "False", "Unknown"]),
    ),
    max_size=5,
    unique_by=lambda each: each["type"],
)
ADDRESSES = st.lists(
    st.sampled_from(["10.10.0.5", "10.20.0.5", "fd00::1", "127.0.0.1", "x"]), max_size=3
)
STATUSES = st.builds(
    lambda phase, found, containers, named: {
        "phase": phase,
        "conditions": found,
        "containerStatuses": containers,
        **({"podIP": named[0], "podIPs": [{"ip": a} for a in named]} if named else {}),
    },
    PHASES,
    CONDITIONS,
    CONTAINERS,
    ADDRESSES,
)


RULES = st.builds(
    lambda action, operator, values: {
        "action": action,
        "exitCodes": {"operator": operator, "values": values},
    },
    st.sampled_from(["Restart", "Restart", "RestartAllContainers"]),
    st.sampled_from(["In", "NotIn"]),
    st.lists(st.sampled_from([0, 1]), min_size=1, max_size=2, unique=True),
)
OWN = st.one_of(
    st.just({}),
    st.builds(
        lambda policy, rules: {"restartPolicy": policy, "restartPolicyRules": rules},
        st.sampled_from(["Always", "OnFailure", "Never"]),
        st.lists(RULES, max_size=2),
    ),
)


def is_final(spec: dict[str, Any], status: dict[str, Any]) -> bool:
    """As AllContainersCouldRestart and ContainerShouldRestart decide."""
    rules = [rule for each in spec["containers"] for rule in each.get("restartPolicyRules") or ()]
    end = status["state"].get("terminated")
    if end is None or any(rule["action"] == "RestartAllContainers" for rule in rules):
        return False
    [container] = [each for each in spec["containers"] if each["name"] == status["name"]] or [{}]
    for rule in container.get("restartPolicyRules") or ():
        named = end["exitCode"] in rule["exitCodes"]["values"]
        if named == (rule["exitCodes"]["operator"] == "In"):
            return False
    policy = container.get("restartPolicy") or spec["restartPolicy"]
    return bool(policy == "Never" or (policy == "OnFailure" and end["exitCode"] == 0))


def check_as_an_api_server(
    before: dict[str, Any], now: dict[str, Any], spec: dict[str, Any]
) -> None:
    """The rules of ValidatePodStatusUpdate that copied statuses run into."""
    assert now["qosClass"] == before["qosClass"]
    assert (now.get("podIPs") or [{}])[0].get("ip") == now.get("podIP")
    families = [addresses.family(each["ip"]) for each in now.get("podIPs") or ()]
    assert len(families) == len(set(families)) <= 2
    assert "" not in families
    if "hostIPs" in now:
        assert now["hostIPs"][0]["ip"] == now["hostIP"]
    there = {each["name"]: each for each in now.get("containerStatuses") or ()}
    for old in before.get("containerStatuses") or ():
        if is_final(spec, old) and old["name"] in there:
            assert "terminated" in there[old["name"]]["state"]


@given(
    STATUSES,
    STATUSES,
    st.sampled_from(["Always", "OnFailure", "Never"]),
    st.lists(st.sampled_from(["gate"]), max_size=1),
    st.sampled_from(["1", "2"]),
    OWN,
)
def test_whatever_comes_the_api_server_takes_it(status, other, policy, gates, uid, own):
    status = {key: value for key, value in status.items() if not key.startswith("podIP")}
    readiness = [{"conditionType": gate} for gate in gates]
    pod = local(status, policy, ("web", "side"), readinessGates=readiness)
    pod["spec"]["containers"][0] |= own
    there = {"metadata": {"uid": uid}, "spec": {}, "status": other}
    result = run(pod, there)
    got = merged(pod["status"], result.status or {})
    check_as_an_api_server(pod["status"], got, pod["spec"])
    if result.failed:
        assert any(is_final(pod["spec"], each) for each in pod["status"]["containerStatuses"])
    assert "qosClass" not in (result.status or {})
    mine = [each for each in pod["status"]["conditions"] if each["type"] in ("mine", "gate")]
    assert [each for each in got["conditions"] if each["type"] in ("mine", "gate")] == mine
    if gates and pod["status"]["phase"] not in podstatus.TERMINAL:
        open_ = conditions.is_status(pod["status"]["conditions"], "gate")
        assert open_ or not conditions.is_status(got["conditions"], "Ready")
    pod["status"] = got
    assert run(pod, there).status is None
