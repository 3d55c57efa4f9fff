"""Names: equal to those of a real peering, and never longer than Kubernetes takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.errors import ConfigError
from liqod.model import ids

CLUSTER_IDS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,49}[a-z0-9])?", fullmatch=True)


def test_names_are_those_of_a_real_peering():
    assert ids.slice_user("lz", "ly") == "lz-40cb4b342f45"
    assert ids.root_ca_name("ly") == "kube-root-ca.crt.ly"
    assert ids.remote_namespace("demo", "ly") == "demo-ly"
    assert ids.kubeconfig_secret(ids.slice_identity("lz")) == "kubeconfig-resourceslice-lz"
    assert ids.kubeconfig_secret(ids.control_plane_identity("lz")) == "kubeconfig-controlplane-lz"
    assert ids.certificate_secret("lz") == "liqo-remote-certificate-lz"
    assert (
        ids.cluster_wide_binding("ly") == "liqo-binding-liqo-virtual-kubelet-remote-clusterwide-ly"
    )


@pytest.mark.parametrize(
    ("consumer", "name"),
    [
        ("rome", "kube-root-ca.crt.rome"),
        ("milan-north", "kube-root-ca.crt.milan"),
        ("rome-south", "kube-root-ca.crt.rome-a"),
    ],
)
def test_root_ca_name_ends_alphanumeric(consumer, name):
    assert ids.root_ca_name(consumer) == name
    assert ids.remote_config_map("kube-root-ca.crt", consumer) == name
    assert ids.remote_config_map("conf", consumer) == "conf"


@pytest.mark.parametrize(
    "text",
    ["", "-a", "a-", "A", "a.b", "system:masters", "liqo.io", "a" * 52, "a b", "ä", None, 3, "a\n"],
)
def test_nonsense_is_no_cluster_id(text):
    with pytest.raises(ConfigError):
        ids.check_cluster_id(text)


@given(CLUSTER_IDS)
def test_names_made_from_an_id_are_valid(cluster_id):
    assert ids.check_cluster_id(cluster_id) == cluster_id
    assert ids.namespace_problem(ids.tenant_namespace(cluster_id)) is None
    for name in (
        ids.kubeconfig_secret(ids.control_plane_identity(cluster_id)),
        ids.cluster_wide_binding(cluster_id),
        ids.root_ca_name(cluster_id),
    ):
        assert ids.is_dns_subdomain(name)


@given(CLUSTER_IDS, st.from_regex(r"[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?", fullmatch=True))
def test_slice_user_fits_label_and_certificate(consumer, slice_name):
    assert ids.slice_name_problem(slice_name) is None
    user = ids.slice_user(slice_name, consumer)
    assert len(user) == len(slice_name) + ids.USER_SUFFIX
    assert len(user) <= ids.LABEL_LIMIT


def test_long_names_are_problems_not_truncated():
    assert "64" in (ids.namespace_problem(ids.remote_namespace("a" * 61, "ly")) or "")
    assert ids.slice_name_problem("a" * 51) is not None
    assert ids.namespace_problem("a.b") is not None
