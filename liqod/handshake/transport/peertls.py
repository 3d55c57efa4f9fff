"""TLS 1.3 between daemons: the listener shows its cluster's key, and nobody vouches for it.

The dialler takes whatever certificate is shown, and the machine compares its key with the one that
is expected; both sides prove themselves inside. There is no older version and no resumption.
"""

import re
import ssl
from typing import Final

from liqod.identity.clustercertificates import ClusterCertificate
from liqod.kube.http.tls import load_chain
from liqod.kube.http.wire import TlsWire, Wire
from liqod.sharedport import DAEMON

ALPN: Final = "http/1.1"
NOWHERE: Final = "liqod.internal"
"""In the place of that name where there is an IP address alone."""
DIGITS: Final = 16
"""Of the key that is called."""
_KEYED: Final = re.compile(rf"{DAEMON}\.key-([0-9a-f]{{{DIGITS}}}|)\.")
LONGEST: Final = 190
"""Characters of a host that is called by its name."""


def listener_context(certificate: ClusterCertificate) -> ssl.SSLContext:
    """How a listener speaks TLS. Raises ConfigError where the key cannot be used."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.set_alpn_protocols([ALPN])
    made.num_tickets = 0
    load_chain(made, certificate.identity.encode(), b"")
    return made


class ListenerWire(TlsWire):
    """TLS of a listener, which may show another key than it began with."""

    def __init__(self, wire: Wire, context: ssl.SSLContext) -> None:
        super().__init__(wire, context, None)

    @property
    def chosen(self) -> ssl.SSLContext:
        """The context that the name which was called has chosen, or the first one."""
        return self._tls.context


def dialler_context() -> ssl.SSLContext:
    """How a dialler speaks TLS: the handshake, not TLS, proves the listener."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.set_alpn_protocols([ALPN])
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    return made


def called(host: str, key: str = "") -> str:
    """The name that is called at a host: by it, one port can have several uses, and a listener two
    keys.

    Args:
        host: where.
        key: SHA-256 of the key that is expected there, hexadecimal; empty for any.
    """
    named = host.isascii() and ":" not in host and not host.replace(".", "").isdecimal()
    where = host if named and len(host) <= LONGEST else NOWHERE
    return f"{DAEMON}.key-{key[:DIGITS]}.{where}"


def expected_key(name: str | None) -> str | None:
    """The beginning of the key that who calls expects: empty for any; None where it says nothing
    of that, as versions before did, and knows the former one then if it knows any."""
    found = _KEYED.match(name or "")
    return None if found is None else found[1]
