"""TLS settings from credentials that are in memory.

Python's ``ssl`` reads certificate chains from files only; an anonymous memory file, closed at
once, avoids a private key on disk.
"""

import os
import ssl

from liqod.errors import ConfigError
from liqod.kube.credentials.credentials import Credentials


def identity(credentials: Credentials) -> tuple[object, ...]:
    """The values that a TLS connection depends on; equal values can share connections."""
    return (
        credentials.server,
        credentials.ca,
        credentials.client_cert,
        credentials.client_key,
        credentials.insecure,
        credentials.server_name,
        credentials.proxy,
    )


def client_context(credentials: Credentials) -> ssl.SSLContext:
    """The TLS settings of a client. Raises ConfigError for PEM that OpenSSL cannot read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if credentials.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif credentials.ca is not None:
        try:
            context.load_verify_locations(cadata=credentials.ca.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"the cluster's CA certificate cannot be read: {error}") from error
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if credentials.client_cert and credentials.client_key:
        load_chain(context, credentials.client_cert, credentials.client_key)
    return context


def load_chain(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a certificate and its key, both PEM, into a context. Raises ConfigError."""
    memory = os.memfd_create("liqod-identity", os.MFD_CLOEXEC)
    try:
        with open(memory, "wb", closefd=False) as file:
            file.write(certificate + b"\n" + key)
        context.load_cert_chain(f"/proc/self/fd/{memory}", password=_no_password)
    except ssl.SSLError as error:
        reason = error.reason or str(error)
        raise ConfigError(f"client certificate or key cannot be used: {reason}") from error
    finally:
        os.close(memory)


def _no_password() -> str:
    """Called for an encrypted key; else OpenSSL would prompt at the terminal."""
    raise ConfigError("the client key is encrypted; a daemon needs one without a passphrase")
