"""The kubelet API of all virtual nodes: one HTTPS listener that says where to look instead.

A Node must show an address and a port, since the API server dials them for ``kubectl logs`` and
``exec``. Until liqod serves those, each request gets 501 and one sentence. The certificate is our
own and lives in memory: API servers check kubelets' certificates only where they are told to.
"""

import functools
import ssl
import time

import trio

from liqod.errors import ConfigError
from liqod.home import Home
from liqod.identity import certificates
from liqod.kube import tls
from liqod.kube.server import Handler, Limits, Open, Request, Response, serve

SENTENCE = (
    "this is a virtual node of liqod: its kubelet API is not served yet, "
    "`liqod logs POD` prints the logs of a pod that runs on a peer\n"
)
LIFE = 90 * 24 * 3600.0
LIMITS = Limits(head=16384, body=65536, connections=64, idle=30.0)


async def answer(request: Request) -> Response:
    """501, whatever is asked."""
    return Response(501, SENTENCE.encode(), {"content-type": "text/plain; charset=utf-8"})


class KubeletServer:
    """Listens for every virtual node of this daemon.

    Attributes:
        port: the TCP port in use, once :meth:`run` has started.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self.port = 0

    async def run(self, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; starts with the port.

        Raises:
            ConfigError: the address cannot be bound.
        """
        settings = self._home.config.kubelet
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._certify(context)
        async with trio.open_nursery() as nursery:
            self.port = await nursery.start(
                functools.partial(
                    listen,
                    "kubelet",
                    answer,
                    host=settings.listen or wildcard(self._home.node_address),
                    port=settings.port,
                    ssl_context=context,
                    limits=LIMITS,
                )
            )
            task_status.started(self.port)
            while True:
                await trio.sleep(LIFE * self._home.config.certificates.renew_at)
                self._certify(context)

    def _certify(self, context: ssl.SSLContext) -> None:
        """A new certificate; connections that are open keep the old one."""
        authority = certificates.make_ca("liqod kubelet", now=time.time(), life=LIFE)
        pair = certificates.make_server(authority, [self._home.node_address], life=LIFE)
        tls.load_chain(context, pair.certificate, pair.key)


async def listen(
    table: str,
    handler: Handler,
    *,
    host: str,
    port: int,
    ssl_context: ssl.SSLContext,
    limits: Limits,
    open_listeners: Open = trio.open_tcp_listeners,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve HTTPS; a socket that cannot be had is the mistake of that table of the configuration.

    Raises:
        ConfigError: the address cannot be bound.
    """
    try:
        await serve(
            handler,
            host=host,
            port=port,
            ssl_context=ssl_context,
            limits=limits,
            open_listeners=open_listeners,
            task_status=task_status,
        )
    except OSError as error:
        text = error.strerror or str(error)
        raise ConfigError(
            f"cannot listen on {host} port {port}: {text}; set {table}.port to another (0 takes "
            "a free one)"
        ) from error


def wildcard(address: str) -> str:
    """The address that means every interface, in the family of ``address``."""
    return "::" if ":" in address else "0.0.0.0"
