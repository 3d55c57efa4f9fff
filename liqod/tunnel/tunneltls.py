"""TLS between ends that have each other's certificate: its settings, and reasons of refusals."""

import os
import ssl
from typing import Final, Literal

from liqod.tunnel.confinement import own_files_visible

Side = Literal["server", "client"]

HUNG_UP: Final = (
    "who answers hangs up on these keys: either the public keys are not each other's, or it is not "
    "the peer's gateway that is reached there, or one of an older version"
)


def context(side: Side, identity: str, peer: bytes) -> ssl.SSLContext:
    """The TLS settings for the one other end.

    Args:
        side: of this end.
        identity: own certificate and key, PEM.
        peer: the other end's certificate, DER: the only one that is taken.
    """
    server = side == "server"
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False  # there is one certificate, for any name
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_verify_locations(cadata=peer)
    # ssl reads keys of files only: this one is in memory, and has no name.
    hidden = os.memfd_create("identity", os.MFD_CLOEXEC)
    try:
        os.write(hidden, identity.encode())
        with own_files_visible():
            made.load_cert_chain(f"/proc/self/fd/{hidden}")
    finally:
        os.close(hidden)
    if server:
        made.num_tickets = 0
    return made


def explained(error: ssl.SSLError) -> str:
    """The reason TLS was refused, as a clause that names the subject."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code == 18:
            return (
                "who answers shows a certificate of its own that is not the peer's: either the "
                "public keys are not each other's, or something on the way ends TLS"
            )
        return (
            "who answers shows a certificate that somebody issued for it: something on the way "
            f"ends TLS and could read along, so nothing is sent ({error.verify_message})"
        )
    if "ALERT" in (error.reason or ""):
        return (
            "the other end does not take this one's certificate: either the public keys are not "
            f"each other's, or something on the way ends TLS ({error.reason})"
        )
    return f"TLS failed ({error.reason or error}): is it the peer's gateway that answers there?"
