"""Keys: every scheme of the protocol signs and verifies, and nothing else is accepted."""

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ed25519, rsa

from liqod.errors import ProtocolError
from liqod.identity import keys

MAKERS = {"ed25519": keys.generate, "ecdsa": keys.generate_tls, "rsa": keys.generate_rsa}


@pytest.fixture(params=MAKERS, name="private")
def each_private(request):
    return MAKERS[request.param]()


def test_a_signature_verifies_and_no_other_does(private):
    public = keys.public_pem(private)
    signature = keys.sign(private, b"nonce")
    assert keys.verify(public, b"nonce", signature)
    assert not keys.verify(public, b"other", signature)
    assert not keys.verify(public, b"nonce", b"")
    assert not keys.verify(keys.public_pem(keys.generate()), b"nonce", signature)


def test_an_rsa_signature_of_another_scheme_does_not_verify():
    private = keys.generate_rsa()
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    key = keys.load_private(private)
    assert isinstance(key, rsa.RSAPrivateKey)
    pss = padding.PSS(padding.MGF1(hashes.SHA256()), 32)
    signature = key.sign(b"nonce", pss, hashes.SHA256())
    assert not keys.verify(keys.public_pem(private), b"nonce", signature)


def test_another_key_is_of_the_same_kind(private):
    other = keys.generate_like(private)
    assert other != private
    one, two = keys.load_private(private), keys.load_private(other)
    assert type(one) is type(two)
    assert getattr(one, "key_size", 0) == getattr(two, "key_size", 0)


def test_a_raw_public_key_is_the_same_key():
    private = keys.generate()
    key = keys.load_private(private)
    assert isinstance(key, ed25519.Ed25519PrivateKey)
    raw = key.public_key().public_bytes_raw()
    assert keys.same_public(raw, keys.public_pem(private))
    assert keys.verify(raw, b"nonce", keys.sign(private, b"nonce"))


@pytest.mark.parametrize("data", [b"", b"x" * 31, b"-----BEGIN PUBLIC KEY-----\n"])
def test_nonsense_is_no_key(data):
    with pytest.raises(ProtocolError):
        keys.load_public(data)
    with pytest.raises(ProtocolError):
        keys.load_private(data)


def test_a_foreign_algorithm_or_a_short_key_is_refused():
    def pem(key):
        return key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    with pytest.raises(ProtocolError, match="neither"):
        keys.load_public(pem(dsa.generate_private_key(2048)))
    with pytest.raises(ProtocolError, match="1024 bits"):
        keys.load_public(pem(rsa.generate_private_key(public_exponent=65537, key_size=1024)))


def test_a_key_that_takes_long_to_verify_with_is_refused():
    modulus = keys.load_public(keys.public_pem(MAKERS["rsa"]()))
    assert isinstance(modulus, rsa.RSAPublicKey)
    numbers = modulus.public_numbers()
    for exponent, good in ((3, True), (keys.LARGEST_EXPONENT, True), (numbers.n - 2, False)):
        key = rsa.RSAPublicNumbers(exponent, numbers.n).public_key()
        if good:
            keys.load_public(keys.encode_public(key))
            continue
        der = key.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        for read, data in ((keys.load_public, keys.encode_public(key)), (keys.public_of_der, der)):
            with pytest.raises(ProtocolError, match="exponent"):
                read(data)
