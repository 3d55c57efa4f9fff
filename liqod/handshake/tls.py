"""TLS 1.3 between daemons: the listener shows its cluster's key, and nobody vouches for it.

The dialler takes whatever certificate is shown, and the machine compares its key with the one that
is expected; both sides prove themselves inside. There is no older version and no resumption.
"""

import ssl
from typing import Final

from liqod.identity.clustercertificates import ClusterCertificate
from liqod.kube.http.tls import load_chain
from liqod.sharedport import DAEMON

ALPN: Final = "http/1.1"
NOWHERE: Final = "liqod.internal"
"""In the place of that name where there is an IP address alone."""
LONGEST: Final = 200
"""Characters of a host that is called by its name."""


def listener_context(certificate: ClusterCertificate) -> ssl.SSLContext:
    """How a listener speaks TLS. Raises ConfigError where the key cannot be used."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.set_alpn_protocols([ALPN])
    made.num_tickets = 0
    load_chain(made, certificate.identity.encode(), b"")
    return made


def dialler_context() -> ssl.SSLContext:
    """How a dialler does: who is there, the hand-shake finds out."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.set_alpn_protocols([ALPN])
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    return made


def called(host: str) -> str:
    """The name that is called at a host: by it, one port can have several uses."""
    named = host.isascii() and ":" not in host and not host.replace(".", "").isdecimal()
    return f"{DAEMON}.{host if named and len(host) <= LONGEST else NOWHERE}"
