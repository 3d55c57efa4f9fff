"""The objects that ``status`` reads from the API server, where some of them are nonsense."""

from liqod.apimachinery.meta import ObjectMeta
from liqod.cli.snapshot import certificate_expiries
from liqod.identity import certificates
from liqod.resources import Identity
from liqod.resources.authentication import AuthParams, IdentitySpec


def identity(name: str, certificate: bytes) -> Identity:
    spec = IdentitySpec(cluster_id="milan", auth_params=AuthParams(signed_crt=certificate))
    return Identity(metadata=ObjectMeta(name=name), spec=spec)


def test_a_certificate_that_is_none_does_not_hide_the_others():
    good = certificates.make_ca("milan", life=3600.0).certificate
    found = certificate_expiries(
        (identity("a", b"nonsense"), identity("b", good), identity("c", b""))
    )
    assert list(found) == [("milan", "b")]
    assert 3500 < found["milan", "b"] <= 3600
