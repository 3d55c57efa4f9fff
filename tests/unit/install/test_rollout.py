"""The address for peers, and the reason that the daemon in the cluster is not there yet."""

import tomllib
from typing import Any, cast

import pytest

from liqod import config
from liqod.errors import ConfigError
from liqod.install.manifests import Options, daemon_manifests
from liqod.install.rollout import (
    address_problem,
    advertised,
    is_rolled_out,
    why_not_ready,
    why_not_rolled_out,
)
from liqod.kube.client import Client


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ("https://127.0.0.1:6443", "this machine only"),
        ("https://localhost:6443", "this machine only"),
        ("https://[::1]:6443", "this machine only"),
        ("https://0.0.0.0:6443", "this machine only"),
        ("https://10.96.0.1", "inside the cluster"),
        ("https://[fd00::1]", "inside the cluster"),
        ("https://kubernetes.default.svc", "inside the cluster"),
        ("https://milan.example:6443", ""),
        ("https://192.0.2.7:6443", ""),
        ("https://10.96.0.2", ""),
    ],
)
def test_an_address_that_means_nothing_elsewhere_is_refused(server: str, why: str):
    found = address_problem(server, ("10.96.0.1", "fd00:0::1", "None"))
    assert (why in found) if why else found == ""


class Cluster:
    """Its API server, as an administrator reaches it."""

    server = "https://127.0.0.1:6443"

    async def find(self, kind: Any, name: str, namespace: str) -> Any:
        return {"spec": {"clusterIP": "10.96.0.1"}}


async def test_the_administrator_may_insist():
    cluster: Any = Cluster()
    with pytest.raises(ConfigError, match="--advertise"):
        await advertised(cluster, "")
    assert await advertised(cluster, "https://127.0.0.1:6443/") == "https://127.0.0.1:6443"
    with pytest.raises(ConfigError, match="--advertise"):
        await advertised(cluster, "milan")


def test_the_daemon_is_told():
    options = Options(server="https://milan:6443", ca="-----BEGIN CERTIFICATE-----\n")
    data = daemon_manifests(options)[0]["stringData"]
    found = tomllib.loads(data["liqod.toml"])["api_server"]
    assert found["advertise"] == "https://milan:6443"
    assert data[found["ca_file"].removeprefix("/etc/liqod/")] == options.ca
    assert daemon_manifests(Options())[0]["stringData"] == {"liqod.toml": ""}
    options = Options(server="https://milan.example:6443", ca="PEM", storage=True)
    parsed = config.parse(daemon_manifests(options)[0]["stringData"]["liqod.toml"])
    assert (parsed.storage.enabled, parsed.api_server.advertise) == (True, options.server)


def test_it_is_rolled_out_when_all_are_new_and_there():
    status = {"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}
    made: dict[str, Any] = {
        "metadata": {"generation": 2},
        "spec": {"replicas": 1},
        "status": status,
    }
    assert is_rolled_out(made)
    for key in status:
        assert not is_rolled_out({**made, "status": {**status, key: 0}})


def waiting(reason: str, message: str) -> dict[str, Any]:
    """The status of a pod whose container waits."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [{"state": state}]}


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]},
            "liqod-1: ImagePullBackOff",
        ),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no room"}]},
            "liqod-1: no room",
        ),
        (
            {
                "containerStatuses": [
                    {
                        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                        "lastState": {"terminated": {"message": "one\nerror  no such key\n"}},
                    }
                ]
            },
            "liqod-1: CrashLoopBackOff: back-off: error  no such key",
        ),
        (
            waiting("ErrImagePull", "rpc error: no match for platform in manifest: not found"),
            "in manifest: not found; the image is not for this node's machine: build it for its "
            "architecture, too",
        ),
        (
            waiting("ErrImagePull", 'no image found in image index for architecture "arm64"'),
            "build it for its architecture, too",
        ),
        (waiting("StartError", "exec /opt/liqod: exec format error"), "architecture, too"),
        (waiting("ErrImagePull", "no such host"), "liqod-1: ErrImagePull: no such host"),
        (waiting("ContainerCreating", ""), ""),
        ({"phase": "Running"}, "kubectl -n liqo logs liqod-1"),
        ({}, ""),
    ],
)
def test_what_holds_it_up_is_told(status: dict[str, Any], why: str):
    metadata = {"name": "liqod-1", "namespace": "liqo"}
    found = why_not_ready({"metadata": metadata, "status": status})
    assert found.endswith(why) if why else found == ""


def test_the_machines_that_a_pod_keeps_to_are_told_where_no_node_is_one():
    words = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    missing = {"type": "PodScheduled", "status": "False", "message": words}
    [deployment] = [
        each
        for each in daemon_manifests(Options(architectures=("arm64",)))
        if each["kind"] == "Deployment"
    ]
    pod = {
        "metadata": {"name": "liqod-1", "namespace": "liqo"},
        "spec": deployment["spec"]["template"]["spec"],
        "status": {"conditions": [missing]},
    }
    assert why_not_ready(pod) == f"liqod-1: {words}; the image is for arm64 (kubernetes.io/arch)"
    taken = {**missing, "message": "0/1 nodes are available: 1 Insufficient cpu."}
    assert why_not_ready({**pod, "status": {"conditions": [taken]}}).endswith("Insufficient cpu.")


async def test_what_keeps_pods_from_being_made_is_said_in_the_clusters_words():
    words = "pods is forbidden: insufficient quota to match these scopes"
    failed = {"type": "ReplicaFailure", "status": "True", "message": words}
    deployment = {"metadata": {"namespace": "liqo"}, "status": {"conditions": [failed]}}
    client = cast("Client", None)  # nobody needs to be asked
    assert await why_not_rolled_out(client, deployment) == words
