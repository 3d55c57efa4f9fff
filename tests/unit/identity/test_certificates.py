"""Certificates: the chain verifies under Python's own TLS, and a certificate is read back."""

import ssl

import pytest
import trio
import trio.testing

from liqod.errors import ProtocolError
from liqod.identity import certificaterequests, certificates, keys
from tests.unit.identity import odd

NOW = 1_800_000_000.0


def test_a_signed_request_becomes_a_certificate_with_its_subject_and_life():
    ca = certificates.make_ca("rome", now=NOW)
    private = keys.generate()
    csr = certificaterequests.make_csr(private, "milan", "liqo.io")
    facts = certificates.read(certificates.sign_client(ca, csr, seconds=600, now=NOW))
    assert facts.common_name == "milan"
    assert facts.organizations == ("liqo.io",)
    assert facts.not_after == NOW + 600
    assert facts.not_before == NOW - certificates.SKEW
    assert keys.same_public(facts.public_key, keys.public_pem(private))
    assert certificates.renewal(facts, 0.5) == NOW + 270


@pytest.mark.parametrize("pem", [b"", b"nonsense"])
def test_nonsense_is_no_certificate(pem):
    with pytest.raises(ProtocolError):
        certificates.read(pem)
    with pytest.raises(ProtocolError):
        certificates.sign_client(certificates.make_ca("x"), pem, seconds=60)


@pytest.mark.parametrize(("old", "new"), [(b"milan", b"\xff\xfe\xff\xfe\xff"), odd.UNKNOWN_CURVE])
def test_a_certificate_that_cannot_be_read_is_none(old, new):
    with pytest.raises(ProtocolError, match="can be read"):
        certificates.read(odd.certificate(old, new))


@pytest.mark.parametrize(("old", "new"), [*odd.NAMES, odd.UNKNOWN_KEY])
def test_a_request_that_cannot_be_read_is_not_signed(old, new):
    with pytest.raises(ProtocolError):
        certificates.sign_client(certificates.make_ca("x"), odd.request(old, new), seconds=60)


async def test_server_and_client_accept_each_other(tmp_path):
    ca = certificates.make_ca("rome")
    server = certificates.make_server(ca, ["127.0.0.1", "rome.test"])
    client = certificates.make_client(ca, "admin", ("system:masters",))
    served, used = (ssl.SSLContext(p) for p in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT))
    for context, pair, name in ((served, server, "server"), (used, client, "client")):
        context.load_verify_locations(cadata=ca.certificate.decode())
        file = tmp_path / f"{name}.pem"
        file.write_bytes(pair.certificate + pair.key)
        context.load_cert_chain(file)
    served.verify_mode = ssl.CERT_REQUIRED
    for host in ("127.0.0.1", "rome.test"):
        left, right = trio.testing.memory_stream_pair()
        tls_server = trio.SSLStream(left, served, server_side=True)
        tls_client = trio.SSLStream(right, used, server_hostname=host)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tls_server.do_handshake)
            nursery.start_soon(tls_client.do_handshake)
        subject = dict(item for rdn in tls_server.getpeercert()["subject"] for item in rdn)
        assert subject == {"organizationName": "system:masters", "commonName": "admin"}
