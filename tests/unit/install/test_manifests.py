"""The objects of an installation."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from liqod import __version__
from liqod.config import parse
from liqod.errors import ConfigError
from liqod.install import Options, daemon_manifests, manifests, render
from liqod.install.daemonrights import DAEMON_ROLES, LEASES
from liqod.install.manifests import KINDS, MANAGED
from liqod.install.rarerights import RARE
from liqod.install.rights import REASONS, REMOTE_BASE_ROLE, REMOTE_STREAMS_ROLE
from liqod.model.view import whereabouts
from liqod.network.machineprogram import account_of

REFERENCE = Path(__file__).parents[2] / "fixtures" / "liqo-roles.json"
OPTIONS = Options(cluster_id="milan")


def made(options: Options = OPTIONS):
    return manifests(options, [])


def named(kind: str, name: str, options: Options = OPTIONS):
    [found] = [
        one for one in made(options) if (one["kind"], one["metadata"]["name"]) == (kind, name)
    ]
    return found


def test_everything_is_marked_and_of_a_known_kind():
    for manifest in made(Options(cluster_id="milan", in_cluster=True)):
        assert manifest["kind"] in KINDS
        assert MANAGED.items() <= manifest["metadata"]["labels"].items()


def test_names_are_unique():
    names = [
        (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in made()
    ]
    assert len(names) == len(set(names))


def test_the_cluster_id_is_where_liqoctl_looks():
    found = named("ConfigMap", "liqo-clusterid-configmap")
    assert found["data"] == {"CLUSTER_ID": "milan"}
    assert found["metadata"]["labels"]["app.kubernetes.io/name"] == "clusterid-configmap"


@pytest.mark.parametrize("cluster_id", ["", "Milan", "a" * 52, "system:masters"])
def test_a_cluster_needs_an_id_that_can_be_used(cluster_id: str):
    with pytest.raises(ConfigError):
        made(Options(cluster_id=cluster_id))


def test_the_daemons_version_is_where_liqoctl_looks():
    options = Options(cluster_id="milan", in_cluster=True, image="registry.example/liqod:1")
    deployment = named("Deployment", "liqod", options)
    found = deployment["metadata"]["labels"]
    assert found["app.kubernetes.io/name"] == found["app.kubernetes.io/component"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert container["name"] == "controller-manager" == found["app.kubernetes.io/name"]
    assert container["image"] == "registry.example/liqod:1"
    assert not any("address" in each for each in container["args"])
    selector = deployment["spec"]["selector"]["matchLabels"]
    assert selector.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert [one["kind"] for one in daemon_manifests(options)] == [
        "Secret",
        "Deployment",
        "ConfigMap",
        "DaemonSet",
        "PodDisruptionBudget",
        "Service",
    ]


def test_the_programs_of_joined_networks_are_in_another_image_than_the_daemon():
    options = Options(cluster_id="milan", in_cluster=True, image="registry.example:5000/liqod:1")
    [container] = named("DaemonSet", "liqod-node", options)["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["image"] == "registry.example:5000/liqod:1-node"
    by_digest = msgspec.structs.replace(options, image=f"registry.example/liqod@sha256:{'0' * 64}")
    with pytest.raises(ConfigError, match="--node-image"):
        made(by_digest)
    untagged = msgspec.structs.replace(options, image="registry.example:5000/liqod")
    [container] = named("DaemonSet", "liqod-node", untagged)["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["image"] == "registry.example:5000/liqod:latest-node"
    alone = msgspec.structs.replace(by_digest, network=False)
    assert not [each for each in made(alone) if each["kind"] == "DaemonSet"]
    both = msgspec.structs.replace(by_digest, node_image="registry.example/node:1")
    [container] = named("DaemonSet", "liqod-node", both)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/node:1"


def test_in_a_pod_the_inspectors_socket_has_a_folder():
    options = Options(cluster_id="milan", in_cluster=True, image="registry.example/liqod:1")
    spec = named("Deployment", "liqod", options)["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    environ = {each["name"]: each.get("value", "") for each in container["env"]}
    mounts = {each["mountPath"]: each for each in container["volumeMounts"]}
    mount = mounts[str(whereabouts.folders(environ)[0])]
    assert not mount.get("readOnly")
    [volume] = [each for each in spec["volumes"] if each["name"] == mount["name"]]
    assert volume["emptyDir"]["medium"] == "Memory"


def in_cluster(*, network: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Spec and container of the daemon's pod."""
    options = Options(cluster_id="milan", in_cluster=True, network=network)
    spec = named("Deployment", "liqod", options)["spec"]["template"]["spec"]
    [container] = spec["containers"]
    return spec, container


def of_nodes() -> tuple[dict[str, Any], dict[str, Any]]:
    """Spec and container of the pods of `liqod node`."""
    found = named("DaemonSet", "liqod-node", Options(cluster_id="milan", in_cluster=True))
    spec = found["spec"]["template"]["spec"]
    [container] = spec["containers"]
    return spec, container


def folders_of(spec: dict[str, Any]) -> set[str]:
    return {each["hostPath"]["path"] for each in spec["volumes"] if "hostPath" in each}


def test_a_daemon_that_joins_networks_has_no_right_and_of_its_node_a_socket():
    spec, container = in_cluster(network=True)
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    said = spec["securityContext"]
    assert (said["runAsNonRoot"], said["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
    assert "appArmorProfile" not in said
    assert not {"hostPID", "hostIPC", "shareProcessNamespace"} & spec.keys()
    assert folders_of(spec) == {"/run/liqod-node"}
    assert not {"hostNetwork", "dnsPolicy"} & spec.keys()
    # By these it knows the machine whose `liqod node` it orders, and that it is not in its network.
    told = {each["name"]: each["valueFrom"] for each in container["env"] if "valueFrom" in each}
    assert told["LIQOD_NODE_NAME"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
    assert told["LIQOD_NODE_ADDRESS"] == {"fieldRef": {"fieldPath": "status.hostIP"}}
    assert told["LIQOD_KUBELET_HOST"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    environ = {each["name"]: each.get("value", "") for each in container["env"]}
    assert parse("", environ).health.host == "0.0.0.0"


@pytest.mark.parametrize("network", [True, False])
def test_a_lost_node_keeps_its_daemon_for_half_a_minute(network: bool):
    spec, _ = in_cluster(network=network)
    found = {each["key"]: each for each in spec["tolerations"]}
    assert found.keys() == {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
    for each in found.values():
        assert (each["operator"], each["effect"]) == ("Exists", "NoExecute")
        assert each["tolerationSeconds"] == 30


@pytest.mark.parametrize("network", [True, False])
def test_replicas_are_spread_and_leave_one_at_a_time(network: bool):
    spec, _ = in_cluster(network=network)
    options = Options(cluster_id="milan", in_cluster=True, network=network)
    pods = named("Deployment", "liqod", options)["spec"]["selector"]
    spread = spec["topologySpreadConstraints"]
    assert {each["topologyKey"] for each in spread} == {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    }
    for each in spread:
        assert each["whenUnsatisfiable"] == "ScheduleAnyway"
        assert each["labelSelector"] == pods
    budget = named("PodDisruptionBudget", "liqod", options)["spec"]
    # A single one may always go: a budget never holds up the drain of its node.
    assert budget == {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": pods,
    }


def test_each_workload_has_its_probes_priority_time_and_requests():
    """None has a limit: of memory the daemon takes what its peers need, and all share the CPU."""
    options = Options(cluster_id="milan", in_cluster=True)
    for kind, name, of in (("Deployment", "liqod", "cluster"), ("DaemonSet", "liqod-node", "node")):
        spec = named(kind, name, options)["spec"]["template"]["spec"]
        [container] = spec["containers"]
        assert spec["priorityClassName"] == f"system-{of}-critical"
        assert spec["terminationGracePeriodSeconds"] in (5, 15)
        assert container["resources"].keys() == {"requests"}
        probes = {each for each in container if each.endswith("Probe")}
        assert probes == {"startupProbe", "livenessProbe", "readinessProbe"}


def test_liqod_node_has_eight_capabilities_and_the_nodes_network_and_no_more():
    spec, container = of_nodes()
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {
            "drop": ["ALL"],
            "add": [
                *("CHOWN", "KILL", "NET_ADMIN", "NET_BIND_SERVICE", "NET_RAW"),
                *("SETGID", "SETUID", "SYS_ADMIN"),
            ],
        },
    }
    assert spec["serviceAccountName"] == "liqod-node"
    assert spec["hostNetwork"]
    assert not {"hostPID", "hostIPC", "shareProcessNamespace"} & spec.keys()
    assert folders_of(spec) == {"/dev/net/tun", "/run/liqod-node"}
    # By this the API server knows whose status it may write.
    [name] = [each for each in container["env"] if each["name"] == "LIQOD_NODE_NAME"]
    assert name["valueFrom"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["host"] == "127.0.0.1"


def test_liqod_node_lets_the_user_of_the_daemons_pod_order_it():
    daemon, container = in_cluster(network=True)
    _, node = of_nodes()
    environ = {each["name"]: each.get("value", "") for each in node["env"]}
    settings = parse("", environ).network
    user = (daemon["securityContext"]["runAsUser"], daemon["securityContext"]["runAsGroup"])
    assert account_of(settings) == user
    for each in (node, container):
        [mount] = [one for one in each["volumeMounts"] if one["mountPath"] == settings.machine]
        assert mount["name"] == "machine"


def test_liqod_node_has_a_configuration_of_its_own_and_not_the_daemons():
    spec, container = of_nodes()
    mounted = {each["name"]: each for each in spec["volumes"]}
    assert not any("secret" in each for each in spec["volumes"])
    found = named("ConfigMap", "liqod-node", Options(cluster_id="milan", in_cluster=True))
    assert mounted["config"]["configMap"] == {"name": found["metadata"]["name"]}
    [mount] = [each for each in container["volumeMounts"] if each["name"] == "config"]
    (file,) = found["data"]
    assert container["args"] == ["node", "--config", f"{mount['mountPath']}/{file}"]


def test_without_a_network_the_daemon_has_no_rights_on_its_node():
    spec, container = in_cluster(network=False)
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert spec["securityContext"]["runAsNonRoot"]
    assert not {"hostNetwork", "hostPID"} & spec.keys()
    assert not any("hostPath" in each for each in spec["volumes"])
    options = Options(cluster_id="milan", in_cluster=True, network=False)
    assert not any(one["kind"] == "DaemonSet" for one in made(options))


@pytest.mark.parametrize("network", [True, False])
def test_the_service_liqod_sets_no_settings(network: bool):
    # LIQOD_SERVICE_HOST and others: the daemon refuses variables that it does not know.
    spec, _ = in_cluster(network=network)
    assert spec["enableServiceLinks"] is False


def test_outside_the_cluster_a_deployment_without_pods_tells_liqoctl():
    assert not any(one["kind"] == "Service" for one in made())
    server = "https://milan.example:6443"
    found = named("Deployment", "liqo-controller-manager", Options(cluster_id="m", server=server))
    assert found["spec"]["replicas"] == 0
    marks = found["metadata"]["labels"]
    assert marks["app.kubernetes.io/name"] == "controller-manager"
    assert marks["app.kubernetes.io/component"] == "controller-manager"
    [container] = found["spec"]["template"]["spec"]["containers"]
    assert container["name"] == "controller-manager"
    assert container["image"].split(":")[-1] == f"v{__version__}"
    assert container["args"] == [f"--api-server-address-override={server}"]


def test_in_the_cluster_the_daemon_tells_liqoctl():
    server = "https://milan.example:6443"
    options = Options(cluster_id="milan", in_cluster=True, server=server)
    spec = named("Deployment", "liqod", options)["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert container["args"][-1] == f"--api-server-address-override={server}"


@pytest.mark.parametrize("kind", ["Role", "ClusterRole"])
def test_liqoctl_finds_one_role_for_its_peering_users(kind: str):
    component = "app.kubernetes.io/component"
    users = [
        one
        for one in made(Options(cluster_id="milan", in_cluster=True))
        if one["kind"] == kind and one["metadata"]["labels"].get(component) == "peering-user"
    ]
    assert len(users) == 1


def test_every_rule_of_the_daemon_has_its_reason():
    for name, rules in DAEMON_ROLES.items():
        role = named("ClusterRole", name)
        reasons = role["metadata"]["annotations"][REASONS].splitlines()
        assert len(reasons) == len(role["rules"]) == len(rules)
        assert all(rule.reason for rule in rules)


def test_rights_that_are_rarely_used_are_rights():
    rights = {
        (resource, verb)
        for rules in (*DAEMON_ROLES.values(), LEASES)
        for rule in rules
        for resource in rule.resources
        for verb in rule.verbs
    }
    for rare in RARE:
        assert rare.when
        for name in rare.resources:
            assert any((name, verb) in rights for verb in rare.verbs), name
        for verb in rare.verbs:
            assert any((name, verb) in rights for name in rare.resources), verb


def test_the_daemon_has_no_wildcard_and_cannot_escalate():
    for name in DAEMON_ROLES:
        for rule in named("ClusterRole", name)["rules"]:
            for field in ("apiGroups", "resources", "verbs"):
                assert "*" not in rule[field]
            assert not {"escalate", "impersonate"} & set(rule["verbs"])
            if {"bind", "approve", "sign"} & set(rule["verbs"]):
                assert rule["resourceNames"]


def test_what_consumers_may_do_is_what_liqo_grants():
    """Against the roles of a real Liqo, order aside."""
    there = json.loads(REFERENCE.read_text())
    ours = {
        "liqo-remote-controlplane": ("liqo-remote-controlplane",),
        "liqo-virtual-kubelet-remote": (REMOTE_BASE_ROLE, REMOTE_STREAMS_ROLE),
        "liqo-virtual-kubelet-remote-clusterwide": ("liqo-virtual-kubelet-remote-clusterwide",),
        "liqo-peering-user-tenant-ns": ("liqo-peering-user-tenant-ns",),
    }
    # The same commands in the same pods, asked for by WebSocket.
    more = {("", "pods/attach", "get"), ("", "pods/exec", "get")}
    # Events of pods are read; anyone who writes them could say what it likes in the name of a node.
    less = {("", "events", verb) for verb in ("create", "delete", "patch", "update")}
    for theirs, names in ours.items():
        rules = [each for name in names for each in named("ClusterRole", name)["rules"]]
        assert granted(rules) - more == granted(there[theirs]) - less, theirs


def granted(rules) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_role_of_mapped_namespaces_is_open_to_plugins():
    role = named("ClusterRole", "liqo-virtual-kubelet-remote")
    assert "rules" not in role
    [selector] = role["aggregationRule"]["clusterRoleSelectors"]
    base = named("ClusterRole", REMOTE_BASE_ROLE)
    assert selector["matchLabels"].items() <= base["metadata"]["labels"].items()


def test_the_runtime_class_sends_pods_to_virtual_nodes():
    scheduling = named("RuntimeClass", "liqo")["scheduling"]
    assert scheduling["nodeSelector"] == {"liqo.io/type": "virtual-node"}
    assert scheduling["tolerations"][0]["key"] == "virtual-node.liqo.io/not-allowed"


def test_it_prints_as_yaml():
    assert list(yaml.safe_load_all(render(made()))) == made()


def test_rights_for_cluster_profiles_are_installed_where_they_are_asked_for():
    def role(options: Options) -> list[dict[str, Any]]:
        found = made(options)
        return [one for one in found if one["metadata"]["name"] == "liqod-clusterprofiles"]

    assert role(Options(cluster_id="milan")) == []
    [found] = role(Options(cluster_id="milan", cluster_profiles=True))
    marks = found["metadata"]["labels"]
    assert marks["liqod.io/aggregate-to-daemon"] == "true"
    assert MANAGED.items() <= marks.items()  # uninstall goes by these
    assert found["metadata"]["annotations"][REASONS]
    assert [(one["resources"], one["verbs"]) for one in found["rules"]] == [
        (["clusterprofiles"], ["get", "list", "watch", "create", "patch"]),
        (["clusterprofiles/status"], ["patch"]),
    ]
