"""The testbed itself: a control plane starts quickly, does what tests need of it, and can fail."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.testbed import fieldspage, programs
from tests.testbed.api import wait_until
from tests.testbed.controlplane import STARTED, ControlPlane, Settings
from tests.testbed.errors import TestbedError
from tests.testbed.fixtures import ControlPlanes

pytestmark = pytest.mark.cluster

CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


def request_pem(user: str) -> bytes:
    """A certificate signing request for a client named `user`."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def sign(plane: ControlPlane, name: str, seconds: int) -> x509.Certificate:
    """Has the cluster sign a request that asks for a life of `seconds`."""
    spec = {
        "request": base64.b64encode(request_pem(name)).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
        "expirationSeconds": seconds,
    }
    plane.api.call("POST", CSRS, {"metadata": {"name": name}, "spec": spec})
    plane.kubectl("certificate", "approve", name)
    wait_until(
        "signature", lambda: plane.api.get(f"{CSRS}/{name}")["status"].get("certificate"), 10
    )
    text = plane.api.get(f"{CSRS}/{name}")["status"]["certificate"]
    plane.api.call("DELETE", f"{CSRS}/{name}")
    return x509.load_pem_x509_certificate(base64.b64decode(text))


@pytest.mark.kubernetes
def test_starts_in_seconds_and_keeps_its_state(
    new_control_plane: Callable[..., ControlPlane],
) -> None:
    started = time.monotonic()
    plane = new_control_plane("quick", Settings(audit=True))
    assert time.monotonic() - started < 60

    plane.kubectl("create", "namespace", "kept")
    plane.restart()
    assert plane.api.exists("/api/v1/namespaces/kept")
    assert set(plane.usage()) == set(STARTED)
    resident = lambda: all(usage.rss > 2**20 for usage in plane.usage().values())  # noqa: E731
    wait_until("programs that have begun", resident, 20)
    assert '"kept"' in (plane.folder / "audit.log").read_text()


@pytest.mark.kubernetes
def test_a_frozen_api_server_accepts_and_answers_nothing(
    new_control_plane: Callable[..., ControlPlane],
) -> None:
    plane = new_control_plane("frozen")
    plane.freeze()
    with pytest.raises(TimeoutError):
        plane.api.raw("GET", "/readyz", timeout=0.5)
    plane.thaw()
    wait_until("ready again", plane.api.ready, 40)
    plane.stop("kube-apiserver")
    with pytest.raises(ConnectionRefusedError):
        plane.api.raw("GET", "/readyz")
    plane.start()
    assert plane.api.ready()


def test_is_of_the_wanted_version_and_kubectl_works(control_plane: ControlPlane) -> None:
    version = json.loads(control_plane.kubectl("version", "-o", "json"))
    assert version["serverVersion"]["gitVersion"].startswith(f"v{programs.wanted_minor()}.")
    names = control_plane.kubectl("get", "namespaces", "-o", "name").split()
    assert "namespace/default" in names
    with pytest.raises(TestbedError, match="not found"):
        control_plane.kubectl("get", "namespace", "nowhere")


GROUPS = ("discovery.k8s.io", "networking.k8s.io", "policy")
"""Of kinds that are reflected, beside the core."""


def test_serves_no_field_that_nobody_has_decided_about(control_plane: ControlPlane) -> None:
    """A new minor with a new field is seen here, and `docs/reference/fields.md` is written anew."""
    _, types = fieldspage.known()
    served: set[str] = set()
    for group in ("api/v1", *(f"apis/{each}/v1" for each in GROUPS)):
        schemas = control_plane.api.get(f"/openapi/v3/{group}")["components"]["schemas"]
        served |= {name.rpartition(".")[2] for name in schemas}
        assert fieldspage.news(schemas, types) == []
    assert fieldspage.TABLES.keys() <= served


def test_signs_certificates_for_the_time_asked_for(control_plane: ControlPlane) -> None:
    certificate = sign(control_plane, "testbed-user", 600)
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    # The signer backdates by five minutes, which comes out of nothing: the end is what was asked.
    assert 600 <= life.total_seconds() <= 900 + 5


def test_runs_controllers_and_scheduler(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.kubectl(
        "create", "deployment", "web", "--image=none", "--replicas=2", "-n", namespace
    )
    pods = f"/api/v1/namespaces/{namespace}/pods"

    def refused() -> bool:
        conditions = [
            pod["status"].get("conditions", []) for pod in control_plane.api.get(pods)["items"]
        ]
        reasons = [one.get("reason") for several in conditions for one in several]
        return reasons == ["Unschedulable", "Unschedulable"]

    wait_until("the scheduler's verdict on both pods", refused, 40)


def test_counts_requests_by_verb_and_resource(control_plane: ControlPlane, namespace: str) -> None:
    before = control_plane.requests()
    for _ in range(3):
        control_plane.api.get(f"/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt")
    assert (control_plane.requests() - before)["GET", "configmaps"] >= 3


@pytest.mark.kubernetes
def test_two_run_beside_each_other(control_planes: ControlPlanes) -> None:
    planes = control_planes.take(2)
    assert len({plane.server for plane in planes}) == 2
    assert all(plane.api.ready() for plane in planes)
