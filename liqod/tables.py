"""The configuration's tables of what the daemon listens on, and what all tables share."""

from typing import Annotated

import msgspec
from msgspec import Meta

Port = Annotated[int, Meta(ge=0, le=65535)]


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file: an unknown key in it is an error."""


class Webhook(Table, frozen=True):
    """The admission webhook for pods of offloaded namespaces.

    Attributes:
        enabled: without it, pods get their toleration by patch after they were refused a node.
        host: address to listen on.
        port: TCP port to listen on; 0 takes a free one.
        advertise: ``host:port`` or URL for the API server; empty means the Service in a cluster,
            and the address of the connection to the API server otherwise.
    """

    enabled: bool = True
    host: str = ""
    port: Port = 9443
    advertise: str = ""


class Kubelet(Table, frozen=True):
    """The address that virtual nodes show.

    Attributes:
        host: IP address in the Node's status; empty means that of the connection to the API server.
        listen: address to listen on.
        port: TCP port, the same for all virtual nodes; 0 takes a free one, 10250 is refused.
    """

    host: str = ""
    listen: str = ""
    port: Port = 10270


class Health(Table, frozen=True):
    """``/healthz``, ``/readyz`` and ``/metrics``.

    Attributes:
        host: address to listen on.
        port: TCP port; 0 takes a free one.
        enabled: whether to listen at all.
    """

    host: str = "127.0.0.1"
    port: Port = 10271
    enabled: bool = True


class Inspector(Table, frozen=True):
    """The websocket by which ``liqod top`` and the other commands look inside.

    Attributes:
        enabled: whether to serve it at all.
        socket: path of the Unix socket; empty means the cluster's name in the usual folder.
        group: name of the group that may look; empty leaves the socket to the daemon's own.
        host: address to listen on for clients over TCP; empty means none.
        port: TCP port; 0 takes a free one.
        cert_file: path of the PEM certificate chain for TCP.
        key_file: path of its PEM key.
    """

    enabled: bool = True
    socket: str = ""
    group: str = ""
    host: str = ""
    port: Port = 10272
    cert_file: str = ""
    key_file: str = ""
