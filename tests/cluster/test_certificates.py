"""Renewal of certificates that live ten minutes, the shortest that Kubernetes signs.

The signer backdates a certificate by five minutes, so of its 900 s the first 300 are gone when it
comes: a renewal point of 0.35 is 15 s later.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
import yaml
from cryptography import x509

from tests.testbed.api import wait_until
from tests.testbed.clusters import Clusters
from tests.testbed.federation import Member
from tests.testbed.workloads import core, deployment, deployments

pytestmark = [pytest.mark.cluster, pytest.mark.handshake]

SHORT = {"lifetime": 600, "renew_at": 0.35}
SIGNING_REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


@pytest.fixture
def hurried(clusters: Clusters) -> Iterator[Clusters]:
    """The clusters, with a provider (milan) and a consumer (rome) that renew early."""
    members = (clusters.rome, clusters.milan)
    for member in members:
        restart_with(member, certificates=SHORT)
    yield clusters
    for member in members:
        member.daemon.settings.pop("certificates")
        restart_with(member)


def restart_with(member: Member, **settings: object) -> None:
    """Restarts a daemon with further settings."""
    member.daemon.settings.update(settings)
    member.daemon.stop()
    member.daemon.start(60)


def certificates(member: Member) -> dict[str, x509.Certificate]:
    """The client certificates that peers gave this cluster, by the name of their Secret."""
    secrets = member.api.get("/api/v1/secrets?labelSelector=liqo.io/identity-type")["items"]
    found = {}
    for secret in secrets:
        config = yaml.safe_load(base64.b64decode(secret["data"]["kubeconfig"]))
        pem = base64.b64decode(config["users"][0]["user"]["client-certificate-data"])
        found[secret["metadata"]["name"]] = x509.load_pem_x509_certificate(pem)
    return found


def test_both_identities_renew_and_nothing_is_interrupted(hurried: Clusters) -> None:
    rome, milan = hurried.rome, hurried.milan
    hurried.peer(rome, milan)
    shop = hurried.namespace(rome)
    rome.liqod("offload", "namespace", shop, "--pod-offloading-strategy", "Remote")
    rome.create(deployments(shop), deployment("web", 2))
    wait_until("two ready pods", lambda: len(rome.ready_pods(shop)) == 2, 40)

    first = certificates(rome)
    assert len(first) == 2, "one of the control plane, one of the slice"
    for one in first.values():
        assert (one.not_valid_after_utc - one.not_valid_before_utc).total_seconds() <= 905
    running = {name: pod["metadata"]["uid"] for name, pod in milan.pods(f"{shop}-rome").items()}
    node = rome.api.get("/api/v1/nodes/milan")["metadata"]["uid"]

    def all_new() -> bool:
        now = certificates(rome)
        return all(now[name].serial_number != one.serial_number for name, one in first.items())

    wait_until("two new certificates", all_new, 60, 0.5)
    for name, one in certificates(rome).items():
        assert one.not_valid_after_utc > first[name].not_valid_after_utc
        # Same key, same subject: the request is used again.
        assert one.public_key() == first[name].public_key()
        assert one.subject == first[name].subject

    # Work goes on with the new ones.
    rome.patch(deployments(shop, "web"), {"spec": {"replicas": 4}})
    wait_until("four ready pods", lambda: len(rome.ready_pods(shop)) == 4, 40)
    rome.create(core(shop, "configmaps"), {"metadata": {"name": "late"}, "data": {"a": "b"}})
    wait_until(
        "a late object", lambda: milan.api.exists(core(f"{shop}-rome", "configmaps", "late")), 20
    )
    now = {name: pod["metadata"]["uid"] for name, pod in milan.pods(f"{shop}-rome").items()}
    assert now.items() >= running.items()
    assert rome.api.get("/api/v1/nodes/milan")["metadata"]["uid"] == node
    # Signed requests do not pile up.
    assert not milan.names(SIGNING_REQUESTS)
