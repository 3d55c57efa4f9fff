"""The certificate of a cluster's key: TLS 1.3 with it shows that key, and no date ends it."""

import ssl
from pathlib import Path

import pytest
from cryptography import x509

from liqod.errors import ProtocolError
from liqod.identity import keys
from liqod.identity.clustercertificates import DER_LIMIT, certificate_of, key_of

MAKERS = {"ed25519": keys.generate, "ecdsa": keys.generate_tls, "rsa": keys.generate_rsa}


@pytest.mark.parametrize("kind", MAKERS)
def test_tls_shows_the_key(kind: str, tmp_path: Path) -> None:
    private = MAKERS[kind]()
    shown = certificate_of(private)
    file = tmp_path / "identity.pem"
    file.write_text(shown.identity)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.minimum_version = ssl.TLSVersion.TLSv1_3
    server.load_cert_chain(file)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    ways = [ssl.MemoryBIO() for _ in range(2)]
    there = server.wrap_bio(ways[0], ways[1], server_side=True)
    here = client.wrap_bio(ways[1], ways[0])
    for _ in range(3):
        for side in (here, there):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert here.version() == "TLSv1.3"
    der = here.getpeercert(binary_form=True)
    assert der == shown.der
    assert keys.same_public(key_of(der), keys.public_pem(private))


@pytest.mark.parametrize("kind", ["ed25519", "rsa"])
def test_it_is_the_same_after_a_restart(kind: str) -> None:
    private = MAKERS[kind]()
    assert certificate_of(private) == certificate_of(private)


def test_no_clock_has_a_say_and_no_name_is_told() -> None:
    certificate = x509.load_der_x509_certificate(certificate_of(keys.generate()).der)
    assert certificate.not_valid_before_utc.year == 2000
    assert certificate.not_valid_after_utc.year == 9999
    assert certificate.subject.rfc4514_string() == "CN=liqod"


@pytest.mark.parametrize("der", [b"", b"x", b"\x30\x82" + b"x" * 100, b"\x30" * (DER_LIMIT + 1)])
def test_what_is_no_certificate_is_refused(der: bytes) -> None:
    with pytest.raises(ProtocolError):
        key_of(der)


def test_a_key_that_peers_may_not_have_is_refused() -> None:
    with pytest.raises(ProtocolError, match="2048"):
        key_of(certificate_of(keys.generate_rsa(1024)).der)
    with pytest.raises(ProtocolError):
        certificate_of(b"none")


def test_no_key_is_printed() -> None:
    assert "PRIVATE" not in repr(certificate_of(keys.generate()))
