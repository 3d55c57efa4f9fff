"""The namespaces of an installation: their levels of Pod Security, and whose accounts they have."""

import pytest

from liqod.errors import ConfigError
from liqod.install.manifests import Options, added_in_cluster
from tests.unit.install.test_manifests import made, named

ENFORCED = "pod-security.kubernetes.io/enforce"
APART = ("liqo-nodes", "liqod-restricted-pods")
"""What only joined networks in pods bring."""


def level(namespace: str, options: Options) -> str:
    """The level of Pod Security of a namespace; empty where none is said."""
    marks = named("Namespace", namespace, options)["metadata"]["labels"]
    return str(marks.get(ENFORCED, ""))


def test_liqod_node_has_a_namespace_of_its_own_whose_accounts_have_its_rights():
    options = Options(cluster_id="milan", in_cluster=True)
    assert (level("liqo", options), level("liqo-nodes", options)) == ("privileged",) * 2
    for kind in ("DaemonSet", "ConfigMap"):
        assert named(kind, "liqod-node", options)["metadata"]["namespace"] == "liqo-nodes"
    accounts = {"liqo", "liqo-nodes"}
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        subjects = named(kind, "liqod-node", options)["subjects"]
        assert {(each["name"], each["namespace"]) for each in subjects} == {
            ("liqod-node", each) for each in accounts
        }
    text = str(named("ValidatingAdmissionPolicy", "liqod-node-status", options))
    for each in accounts:
        assert f"system:serviceaccount:{each}:liqod-node" in text
    # On hosts no namespace of that name has to be liqod's, so that its account is given nothing.
    on_hosts = Options(cluster_id="milan")
    assert "liqo-nodes:" not in str(
        named("ValidatingAdmissionPolicy", "liqod-node-status", on_hosts)
    )
    assert len(named("ClusterRoleBinding", "liqod-node", on_hosts)["subjects"]) == 1
    assert level("liqo", on_hosts) == ""


def test_a_namespace_whose_nodes_would_have_too_long_a_name_is_refused():
    with pytest.raises(ConfigError, match="shorter --liqo-namespace"):
        made(Options(cluster_id="milan", in_cluster=True, namespace="a" * 58))
    made(Options(cluster_id="milan", in_cluster=True, namespace="a" * 57))
    made(Options(cluster_id="milan", namespace="a" * 63))


def test_what_a_daemon_in_the_cluster_adds_is_all_that_it_takes_beside_another_installation():
    options = Options(in_cluster=True)
    added = {(each["kind"], each["metadata"]["name"]) for each in added_in_cluster(options)}
    policy = "ValidatingAdmissionPolicy"
    assert added == {
        *(("Namespace", each) for each in ("liqo", "liqo-nodes")),
        *((each, "liqod-node") for each in ("ServiceAccount", "ConfigMap", "DaemonSet")),
        *((each, "liqod-node") for each in ("ClusterRoleBinding", "RoleBinding")),
        *((policy, each) for each in ("liqod-node-status", "liqod-restricted-pods")),
        (f"{policy}Binding", "liqod-restricted-pods"),
        *((each, "liqod") for each in ("Secret", "Deployment", "PodDisruptionBudget", "Service")),
    }


def test_without_networks_the_daemons_namespace_is_restricted_and_the_only_one():
    options = Options(cluster_id="milan", in_cluster=True, network=False)
    assert level("liqo", options) == "restricted"
    assert not [each for each in made(options) if each["metadata"]["name"] in APART]
