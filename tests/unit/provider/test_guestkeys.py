"""Keys that guests may name in their objects: those left out, refused and written down."""

import pytest

from liqod import config
from liqod.apimachinery.meta import ObjectMeta
from liqod.config import GuestSettings
from liqod.errors import ConfigError
from liqod.model.crossing import allowedkeys
from liqod.provider.policies import guestkeys
from liqod.provider.policies.podrestrictions import NotAllowed

ORDINARY_LABELS = {
    "app": "web",
    "pod-template-hash": "x",
    "controller-revision-hash": "x",
    "app.kubernetes.io/name": "web",
    "app.kubernetes.io/managed-by": "Helm",
    "helm.sh/chart": "web-1",
    "batch.kubernetes.io/job-name": "j",
    "apps.kubernetes.io/pod-index": "0",
    "statefulset.kubernetes.io/pod-name": "web-0",
    "topology.kubernetes.io/zone": "z",
    "offloading.liqo.io/origin": "rome",
    "liqo.io/creator-user": "u",
}
ORDINARY_NOTES = {
    "note": "x",
    "checksum/config": "x",
    "kubectl.kubernetes.io/restartedAt": "x",
    "kubectl.kubernetes.io/default-container": "x",
    "meta.helm.sh/release-name": "x",
    "liqod.io/local-uid": "u",
    "liqod.io/source": "pods/web",
    "liqod.io/applied-hash": "h",
    "liqod.io/applied-keys": "k",
    "liqod.io/deletion-grace": "30",
    "liqod.io/claim-uid": "c",
    "liqo.io/api-server-support": "remote",
}
FOREIGN = [
    "liqod.io/ip",
    "liqod.io/tunnel",
    "k8s.v1.cni.cncf.io/networks",
    "iam.amazonaws.com/role",
    "cni.projectcalico.org/ipAddrs",
    "external-dns.alpha.kubernetes.io/hostname",
    "metallb.universe.tf/loadBalancerIPs",
    "cert-manager.io/cluster-issuer",
    "nginx.ingress.kubernetes.io/auth-url",
    "traefik.ingress.kubernetes.io/router.middlewares",
    "replicator.v1.mittwald.de/replicate-to",
    "reflector.v1.k8s.emberstack.com/reflection-auto-enabled",
    "nfs.io/storage-path",
    "sidecar.istio.io/inject",
    "prometheus.io/scrape",
    "volume.beta.kubernetes.io/storage-class",
    "kubernetes.io/ingress.class",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
]


def meta(labels=None, annotations=None):
    return ObjectMeta(name="web", labels=labels or {}, annotations=annotations or {})


def test_ordinary_workloads_pass_as_they_are():
    found = meta(ORDINARY_LABELS, ORDINARY_NOTES)
    assert guestkeys.brought(found, GuestSettings()) is found
    guestkeys.check_labels(found, GuestSettings())


@pytest.mark.parametrize("key", FOREIGN)
def test_what_controllers_here_act_on_is_left_out_and_said(key: str):
    found = guestkeys.brought(meta(ORDINARY_LABELS, {**ORDINARY_NOTES, key: "x"}), GuestSettings())
    assert found.annotations == {**ORDINARY_NOTES, "liqod.io/left-out": key}
    allowed = GuestSettings(annotations=(*allowedkeys.GUEST_ANNOTATIONS, key))
    assert key in guestkeys.brought(meta({}, {key: "x"}), allowed).annotations


def test_the_note_of_what_was_left_out_is_nobody_elses():
    found = guestkeys.brought(meta({}, {"liqod.io/left-out": "forged"}), GuestSettings())
    assert found.annotations == {}


def test_a_label_that_is_on_no_list_keeps_the_pod_from_being_made():
    found = meta({"app": "web", "strimzi.io/cluster": "bank", "a.io/b": "x"})
    with pytest.raises(NotAllowed, match=r"a.io/b, strimzi.io/cluster; .*labels under \[guests\]"):
        guestkeys.check_labels(found, GuestSettings())
    assert guestkeys.brought(found, GuestSettings()).labels == {"app": "web"}
    guestkeys.check_labels(found, GuestSettings(labels=("*/*",)))


def test_the_lists_are_written_on_the_consumers_namespaces():
    found = guestkeys.notes(
        GuestSettings(ingress_hosts=("*.{peer}.example",), labels=("*",)), "rome"
    )
    assert found["liqod.io/allowed-ingress-hosts"] == "*.rome.example"
    assert found["liqod.io/allowed-labels"] == "*"
    assert found["liqod.io/allowed-storage-classes"] == "*"
    assert "checksum/*" in found["liqod.io/allowed-annotations"].split(" ")
    assert found["liqod.io/allowed-fields"] == ""
    assert len(found) == len(guestkeys.LISTS) == 7


@pytest.mark.parametrize(
    ("said", "marks", "notes"),
    [
        (
            "services web is forbidden: ... denied request: annotations that are not for guests: "
            "a.io/b, c.io/d",
            set(),
            {"a.io/b", "c.io/d"},
        ),
        ("labels that are not for guests: x.io/y; the administrator can", {"x.io/y"}, set()),
        ("annotations that are not for guests: liqod.io/source, a.io/b", set(), {"a.io/b"}),
        ("labels that are not for guests: liqod.io/ip", {"liqod.io/ip"}, set()),
        ("quota exceeded: a.io/b", set(), set()),
        ("annotations that are not for guests", set(), set()),
    ],
)
def test_a_consumer_learns_from_a_refusal(said, marks, notes):
    assert allowedkeys.refused(said) == (marks, notes)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('annotations = ["a*"]', "guests.annotations"),
        ('labels = ["*.io/x"]', "guests.labels"),
        ('ingress_hosts = ["a.*"]', "guests.ingress_hosts"),
        ('ingress_classes = ["n*"]', "guests.ingress_classes"),
        ('storage_classes = [""]', "guests.storage_classes"),
        ('load_balancer_classes = ["*.io"]', "guests.load_balancer_classes"),
        ('fields = ["externalIPs"]', "guests.fields"),
    ],
)
def test_lists_that_cannot_be_held_to_are_refused(text: str, problem: str):
    with pytest.raises(ConfigError, match=problem):
        config.parse(f"[guests]\n{text}\n")
