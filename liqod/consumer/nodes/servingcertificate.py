"""The certificate that the kubelet API shows: one that the cluster's own signer has signed.

An API server that is given the authority of kubelets (``--kubelet-certificate-authority``) accepts
no other, and neither does a metrics-server. It is requested as a kubelet does: from the signer
``kubernetes.io/kubelet-serving``, for the group ``system:nodes`` and the address that virtual nodes
show. One is enough, since they all show the same. Only the daemon itself approves it. Without it
the daemon's own is shown, and the request is repeated, ever more seldom. The key is never written
anywhere, so each start requests a new one, and no certificate outlives its address.
"""

import logging
import time
from collections.abc import Callable
from typing import Final, NoReturn

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SIGNING_REQUESTS
from liqod.cluster.context import ClusterContext
from liqod.consumer.nodes.podproxy import PodProxies
from liqod.errors import LiqodError, ProtocolError
from liqod.identity import certificates, keys, signingrequests
from liqod.identity.certificates import Pair
from liqod.kube.selection import Selection
from liqod.runtime.backoff import Backoff

SIGNER: Final = "kubernetes.io/kubelet-serving"
USAGES: Final = ("digital signature", "key encipherment", "server auth")
NAME, GROUP = "system:node:liqod", "system:nodes"
"""User and group in the certificate, in the form that the signer wants. It is good for serving
only, so no client can log in as that user."""
LIFE: Final = 90 * 24 * 3600.0
"""Seconds for which a certificate is requested, and for which the daemon's own is good."""
RETRY: Final = Backoff(first=60.0, last=3600.0)
LONGEST: Final = 3600.0
"""Seconds after which the clock is read again: it may have been set."""
OURS: Final = Selection(labels=f"{labels.SERVING_REQUEST}={labels.TRUE}")

log = logging.getLogger(__name__)


class ServingCertificate:
    """Keeps the certificate of the kubelet API.

    Args:
        proxies: to the pods at peers: nothing is requested while there is none.
        shown: called with each certificate that is to be shown from now on.
        clock: epoch seconds.

    Attributes:
        problem: the reason that the cluster has not signed it, or not again; empty where it has.
    """

    def __init__(
        self,
        context: ClusterContext,
        proxies: PodProxies,
        shown: Callable[[Pair], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._context, self._proxies, self._shown, self._clock = context, proxies, shown, clock
        self._in_hand = signingrequests.SigningRequests()
        self._failures = 0
        self._again = 0.0
        self.problem = "it was not asked for yet"
        self._show_own()

    def _show_own(self) -> None:
        """Show one that the daemon has made itself, as long as there is no other."""
        now = self._clock()
        signer = certificates.make_ca("liqod kubelet", now=now, life=LIFE)
        pair = certificates.make_server(signer, [self._context.node_address], now=now, life=LIFE)
        self._until = now + LIFE * self._context.config.certificates.renew_at
        self._shown(pair)

    async def run(self) -> NoReturn:
        """Keep it signed by the cluster as soon as something is borrowed, until cancelled."""
        while True:
            came = self._proxies.came.coming
            if self._proxies:
                await self.look()
            if self._clock() >= self._until:
                self._show_own()
            pause = self._again - self._clock() if self._proxies else LONGEST
            with trio.move_on_after(min(max(pause, 1.0), LONGEST)):
                await came.wait()

    async def look(self) -> None:
        """Have the certificate signed, or signed again, if it is time to."""
        now = self._clock()
        if now < self._again:
            return
        try:
            pair = await self._signed()
            facts = certificates.read(pair.certificate)
        except LiqodError as error:
            self._failures += 1
            self._again = now + RETRY.delay(self._failures)
            if str(error) != self.problem:
                log.warning("kubelet API: no certificate of %s: %s", SIGNER, error)
            self.problem = str(error)
            return
        self._failures, self._until = 0, facts.not_after
        self._again = certificates.renewal(facts, self._context.config.certificates.renew_at)
        self.problem = ""
        self._shown(pair)

    async def _signed(self) -> Pair:
        """A certificate from the cluster's signer, with a new key.

        Raises:
            LiqodError: there is none, with the reason.
        """
        client = self._context.client
        # Of a daemon that was killed while it waited.
        await client.delete_selected(SIGNING_REQUESTS, OURS, spared=self._in_hand)
        key = keys.generate_tls()
        host = self._context.node_address
        request = certificates.request_server(key, NAME, GROUP, [host])
        certificate = await signingrequests.sign(
            client,
            request,
            {labels.SERVING_REQUEST: labels.TRUE},
            in_hand=self._in_hand,
            lifetime=int(LIFE),
            signer=SIGNER,
            usages=USAGES,
        )
        if not certificates.serves(certificate, key, host):
            raise ProtocolError(f"{SIGNER} signed another key, or another address than {host}")
        return Pair(certificate, key)
