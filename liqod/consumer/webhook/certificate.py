"""The webhook's authority and certificate, as the Secret that all replicas share.

Pure but for the clock, which is passed in. A new certificate is signed by the old authority, so a
replica that has not read it yet still answers; a new authority is beside the old one in the
bundle that the API server gets, until the old one has expired.
"""

import base64
from collections.abc import Sequence

import msgspec

from liqod.apimachinery import labels
from liqod.errors import ProtocolError
from liqod.identity import certificates
from liqod.identity.certificates import Pair
from liqod.model.objects.partial import Secret

SECRET = labels.WEBHOOK_SECRET
CA_CERTIFICATE, CA_KEY, CERTIFICATE, KEY, HOSTS = "ca.crt", "ca.key", "tls.crt", "tls.key", "hosts"
CA_LIFE = 5 * 365 * 24 * 3600.0
LIFE = 90 * 24 * 3600.0
_END = b"-----END CERTIFICATE-----\n"


class Material(msgspec.Struct, frozen=True):
    """The contents of the Secret.

    Attributes:
        bundle: authorities' certificates, the signing one first, PEM.
        ca_key: key of the first of them.
        certificate: the server's, PEM.
        hosts: names and addresses that the certificate is for, sorted.
    """

    bundle: bytes
    ca_key: bytes
    certificate: bytes
    key: bytes
    hosts: tuple[str, ...]


def read(secret: bytes | None) -> Material | None:
    """The material in a Secret (JSON), or None where it holds nothing that can be used."""
    try:
        texts = msgspec.json.decode(secret or b"{}", type=Secret).data or {}
        hosts = texts.get(HOSTS, b"").decode()
        material = Material(
            bundle=texts[CA_CERTIFICATE],
            ca_key=texts[CA_KEY],
            certificate=texts[CERTIFICATE],
            key=texts[KEY],
            hosts=tuple(filter(None, hosts.split(","))),
        )
        certificates.read(material.bundle)
        certificates.read(material.certificate)
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError, ProtocolError):
        return None
    return material


def data(material: Material) -> dict[str, str]:
    """The ``data`` of the Secret."""
    values = {
        CA_CERTIFICATE: material.bundle,
        CA_KEY: material.ca_key,
        CERTIFICATE: material.certificate,
        KEY: material.key,
        HOSTS: ",".join(material.hosts).encode(),
    }
    return {name: base64.b64encode(value).decode() for name, value in values.items()}


def renewed(
    material: Material | None, hosts: Sequence[str], renew_at: float, now: float
) -> Material | None:
    """New material, where the old is missing, for other hosts, or that part of its life is over.

    None where the old is enough.
    """
    wanted = tuple(sorted(set(hosts)))
    if material is None:
        return _signed(
            certificates.make_ca("liqod webhook", now=now, life=CA_LIFE), b"", wanted, now
        )
    authority = certificates.read(material.bundle)
    if now >= certificates.renewal(authority, renew_at):
        fresh = certificates.make_ca("liqod webhook", now=now, life=CA_LIFE)
        old = material.bundle.split(_END)[0] + _END if authority.not_after > now else b""
        return _signed(fresh, old, wanted, now)
    server = certificates.read(material.certificate)
    if now < certificates.renewal(server, renew_at) and material.hosts == wanted:
        return None
    first, _, rest = material.bundle.partition(_END)
    return _signed(Pair(first + _END, material.ca_key), rest, wanted, now)


def next_renewal(material: Material, renew_at: float) -> float:
    """The epoch second at which :func:`renewed` has to renew it."""
    both = (certificates.read(material.bundle), certificates.read(material.certificate))
    return min(certificates.renewal(each, renew_at) for each in both)


def _signed(authority: Pair, others: bytes, hosts: tuple[str, ...], now: float) -> Material:
    pair = certificates.make_server(authority, hosts, now=now, life=LIFE)
    bundle = authority.certificate + others
    return Material(bundle, authority.key, pair.certificate, pair.key, hosts)
