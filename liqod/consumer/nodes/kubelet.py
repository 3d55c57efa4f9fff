"""The kubelet API of all virtual nodes: one HTTPS listener that says where to look instead.

A Node must show an address and a port, since the API server dials them for ``kubectl logs`` and
``exec``. Until liqod serves those, each request gets 501 and one sentence. The certificate is our
own and lives in memory: API servers check kubelets' certificates only where they are told to.
"""

import functools
import ssl
import time

import trio

from liqod.context import ClusterContext
from liqod.identity import certificates
from liqod.kube.http import tls
from liqod.kube.http.listening import listen, wildcard
from liqod.kube.http.server import Limits, Request, Response

SENTENCE = (
    "this is a virtual node of liqod: its kubelet API is not served yet, "
    "`liqod logs POD` prints the logs of a pod that runs on a peer\n"
)
LIFE = 90 * 24 * 3600.0
LIMITS = Limits(head=16384, body=65536, connections=64, memory=1 << 20, idle=30.0, paced=True)


async def answer(request: Request) -> Response:
    """501, whatever is asked."""
    return Response(501, SENTENCE.encode(), {"content-type": "text/plain; charset=utf-8"})


class KubeletServer:
    """Listens for every virtual node of this daemon.

    Attributes:
        port: the TCP port in use, once :meth:`run` has started.
    """

    def __init__(self, home: ClusterContext) -> None:
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
