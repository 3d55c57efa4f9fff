"""The daemons that are pods of a cluster: which there are, which leads, and how one is evicted."""

from __future__ import annotations

from tests.testbed.federation import LEASE, Member

LABEL = "app.kubernetes.io/component"
NAME = "controller-manager"
EACH_NODES = "liqod-node"
"""The component that `liqod node` is."""
COMPONENT = f"{LABEL}={NAME}"
WEBHOOK = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/liqod-webhook"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
READY = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:10271/readyz').read())"


def place(component: str) -> str:
    """The namespace of the daemon, or of `liqod node`."""
    return "liqo" if component == NAME else "liqo-nodes"


def within(member: Member, owner: tuple[str, str], code: str) -> str:
    """Runs Python in a pod of liqod's, which has no shell, and returns its output."""
    where = ("--namespace", place(owner[1]), owner[0], "--container", owner[1])
    return member.plane.kubectl("exec", *where, "--", "python", "-c", code)


def replicas(member: Member) -> dict[str, str]:
    """The daemons that are ready and not about to end, with their nodes."""
    found = member.pods("liqo")
    return {
        name: str(found[name]["spec"]["nodeName"])
        for name in member.ready_pods("liqo")
        if name in found
        and found[name]["metadata"]["labels"].get(LABEL) == NAME
        and "deletionTimestamp" not in found[name]["metadata"]
    }


def cordoned(member: Member) -> set[str]:
    """The nodes to which no pod goes: each for a moment after `uncordon`, too."""
    return {
        each["metadata"]["name"]
        for each in member.api.get("/api/v1/nodes")["items"]
        if any(one["key"] == UNSCHEDULABLE for one in each["spec"].get("taints", ()))
    }


def restarts(member: Member, of: str = NAME) -> dict[str, int]:
    """How often the container of each daemon, or of each `liqod node`, was begun anew."""
    return {
        name: int(pod["status"]["containerStatuses"][0]["restartCount"])
        for name, pod in member.pods(place(of)).items()
        if pod["metadata"]["labels"].get(LABEL) == of
    }


def leads(member: Member, pod: str) -> bool:
    """True if a daemon says so on its node's loopback."""
    said = within(member, (pod, NAME), READY)
    assert "standing by" in said or "leading" in said
    return "leading" in said


def is_reached_at_its_pod(member: Member, peer: str) -> bool:
    """True if the API server has the webhook and the virtual node at the leading daemon's pod."""
    leaders = [each for each in replicas(member) if leads(member, each)]
    if len(leaders) != 1:
        return False  # it moves
    [leader] = leaders
    address = member.pods("liqo")[leader]["status"]["podIP"]
    shown = member.api.get(f"/api/v1/nodes/{peer}")["status"]["addresses"]
    webhook = member.api.get(WEBHOOK)["metadata"]["annotations"]["liqod.io/webhook-reachable"]
    return webhook == "true" and {"type": "InternalIP", "address": address} in shown


def holder(member: Member) -> str:
    """The identity of the daemon that leads; empty for none."""
    return str(member.api.get(LEASE)["spec"].get("holderIdentity") or "")


def another_leads(member: Member, before: str) -> bool:
    """True if a daemon leads, and not the one of that identity."""
    return holder(member) not in ("", before)


def evict(member: Member, pod: str) -> int:
    """Status of the API server to an eviction."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    path = f"/api/v1/namespaces/liqo/pods/{pod}/eviction"
    return member.api.raw("POST", path, eviction)[0]
