"""Signing requests: exactly the form of the protocol passes."""

from base64 import b64decode
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.x509.oid import AttributeOID, NameOID

from liqod.errors import ProtocolError
from liqod.identity import certificaterequests, keys
from tests.unit.identity import odd

OBJECTS = Path(__file__).parents[2] / "fixtures" / "objects" / "provider"
PRIVATE = keys.generate()


def forged(names, extension=None, attribute=None):
    """A request as an adversary would build it."""
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in names])
    builder = x509.CertificateSigningRequestBuilder(name)
    if extension is not None:
        builder = builder.add_extension(extension, critical=False)
    if attribute is not None:
        builder = builder.add_attribute(*attribute)
    key = keys.load_private(PRIVATE)
    request = builder.sign(key, certificaterequests.algorithm(key))
    return request.public_bytes(serialization.Encoding.PEM)


GOOD = [(NameOID.ORGANIZATION_NAME, "liqo.io"), (NameOID.COMMON_NAME, "rome")]


@pytest.mark.parametrize("make", [keys.generate, keys.generate_tls, keys.generate_rsa])
def test_our_own_requests_pass(make):
    private = make()
    found = certificaterequests.inspect(certificaterequests.make_csr(private, "rome", "liqo.io"))
    assert (found.common_name, found.organization) == ("rome", "liqo.io")
    assert keys.same_public(found.public_key, keys.public_pem(private))


def test_the_order_of_the_subject_does_not_matter():
    assert certificaterequests.inspect(forged(GOOD[::-1])).common_name == "rome"


@pytest.mark.parametrize(
    "names",
    [
        GOOD[:1],
        GOOD[1:],
        [*GOOD, (NameOID.ORGANIZATION_NAME, "system:masters")],
        [*GOOD, (NameOID.COMMON_NAME, "admin")],
        [*GOOD, (NameOID.LOCALITY_NAME, "Rome")],
        [],
    ],
)
def test_any_other_subject_is_refused(names):
    with pytest.raises(ProtocolError, match="exactly one CN and one O"):
        certificaterequests.inspect(forged(names))


@pytest.mark.parametrize(("old", "new"), [*odd.NAMES, odd.UNKNOWN_KEY])
def test_what_cannot_be_read_is_refused(old, new):
    with pytest.raises(ProtocolError, match="cannot be parsed"):
        certificaterequests.inspect(odd.request(old, new))


def test_extensions_and_attributes_are_refused():
    names = x509.SubjectAlternativeName([x509.DNSName("kubernetes")])
    with pytest.raises(ProtocolError, match="extensions or attributes"):
        certificaterequests.inspect(forged(GOOD, extension=names))
    challenge = (AttributeOID.CHALLENGE_PASSWORD, b"secret")
    with pytest.raises(ProtocolError, match="extensions or attributes"):
        certificaterequests.inspect(forged(GOOD, attribute=challenge))


def test_nothing_may_stand_around_the_block():
    good = forged(GOOD)
    lines = good.splitlines(keepends=True)
    header = [lines[0], b"Proc-Type: 4,ENCRYPTED\n", b"\n", *lines[1:]]
    for bad in (b" " + good, good + b" ", good + good, good + b"\n", b"", b"".join(header)):
        with pytest.raises(ProtocolError, match="exactly one PEM"):
            certificaterequests.inspect(bad)
    assert certificaterequests.inspect(good.rstrip(b"\n"))


def test_a_changed_body_is_refused():
    good = bytearray(forged(GOOD))
    middle = len(good) // 2
    good[middle] = ord("A") if good[middle] != ord("A") else ord("B")
    with pytest.raises(ProtocolError):
        certificaterequests.inspect(bytes(good))


def test_check_compares_subject_and_key():
    csr = forged(GOOD)
    certificaterequests.check(
        csr, common_name="rome", organization="liqo.io", public_key=keys.public_pem(PRIVATE)
    )
    certificaterequests.check(csr, common_name="rome", organization="liqo.io", public_key=None)
    with pytest.raises(ProtocolError, match="CN=rome"):
        certificaterequests.check(csr, common_name="milan", organization="liqo.io", public_key=None)
    with pytest.raises(ProtocolError, match="O=rome"):
        certificaterequests.check(csr, common_name="rome", organization="rome", public_key=None)
    other = keys.public_pem(keys.generate())
    with pytest.raises(ProtocolError, match="another key"):
        certificaterequests.check(csr, common_name="rome", organization="liqo.io", public_key=other)


def test_the_bytes_are_those_that_liqo_writes():
    """Liqo compares a request with the one it has signed before, byte by byte."""
    [tenant] = yaml.safe_load((OBJECTS / "cr-tenants.authentication.liqo.io.yaml").read_text())[
        "items"
    ]
    pem = b64decode(tenant["spec"]["csr"])
    theirs = x509.load_pem_x509_csr(pem)
    made = certificaterequests.make_csr(PRIVATE, "ly", "liqo.io")
    ours = x509.load_pem_x509_csr(made)
    theirs_key, our_key = (_raw(each.public_key()) for each in (theirs, ours))
    assert theirs.tbs_certrequest_bytes.replace(theirs_key, our_key) == ours.tbs_certrequest_bytes
    assert [len(line) for line in pem.split(b"\n")] == [len(line) for line in made.split(b"\n")]


def _raw(key: object) -> bytes:
    assert isinstance(key, ed25519.Ed25519PublicKey)
    return key.public_bytes_raw()


@pytest.mark.parametrize(("name", "tag"), [("rome", b"\x13\x04"), ("röme", b"\x0c\x05")])
def test_a_name_is_printable_where_it_can_be(name: str, tag: bytes):
    assert tag + name.encode() in certificaterequests.subject(name).public_bytes()
