"""The webhook's Secret over time: made once, renewed in time, trusted throughout."""

import ssl
import time

import msgspec

from liqod.consumer.webhook import certificate
from liqod.identity import certificates
from liqod.kube.http import tls

START = 1_800_000_000.0
DAY = 24 * 3600.0


def made(hosts=("10.0.0.1",), now=START):
    material = certificate.renewed(None, hosts, 2 / 3, now)
    assert material is not None
    return material


def read(data):
    return certificate.read(msgspec.json.encode({"data": data}))


def test_secret_round_trip():
    material = made()
    assert read(certificate.data(material)) == material


def test_nonsense_is_nothing():
    assert certificate.read(None) is None
    assert read({"ca.crt": "%%"}) is None
    data = certificate.data(made())
    assert read({**data, "tls.crt": "YWJj"}) is None
    del data["tls.key"]
    assert read(data) is None


def test_certificate_is_renewed_in_time_by_the_same_authority():
    first = made()
    assert certificate.renewed(first, ["10.0.0.1"], 2 / 3, START + 59 * DAY) is None
    second = certificate.renewed(first, ["10.0.0.1"], 2 / 3, START + 61 * DAY)
    assert second is not None
    assert second.bundle == first.bundle
    assert second.certificate != first.certificate
    assert certificate.next_renewal(first, 2 / 3) < START + 61 * DAY


def test_other_hosts_need_another_certificate():
    first = made(["b", "a"])
    assert certificate.renewed(first, ["a", "b", "a"], 2 / 3, START) is None
    assert certificate.renewed(first, ["c"], 2 / 3, START) is not None


def test_old_authority_stays_in_the_bundle_until_it_has_expired():
    first = made()
    later = START + 4 * 365 * DAY
    second = certificate.renewed(first, ["10.0.0.1"], 2 / 3, later)
    assert second is not None
    assert first.bundle in second.bundle
    assert second.bundle.count(b"BEGIN CERTIFICATE") == 2
    assert certificates.read(second.bundle).not_before > START + DAY
    assert read(certificate.data(second)) == second
    much_later = certificate.renewed(first, ["10.0.0.1"], 2 / 3, START + 6 * 365 * DAY)
    assert much_later is not None
    assert much_later.bundle.count(b"BEGIN CERTIFICATE") == 1


def test_openssl_accepts_the_chain():
    material = certificate.renewed(None, ["localhost"], 2 / 3, time.time())
    assert material is not None
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_chain(server, material.certificate, material.key)
    client = ssl.create_default_context(cadata=material.bundle.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    inner = server.wrap_bio(to_server, to_client, server_side=True)
    outer = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    done = set()
    for _ in range(10):
        for side in (outer, inner):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                pass
    assert len(done) == 2
