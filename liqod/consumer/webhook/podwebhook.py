"""The admission webhook for pods of offloaded namespaces, as every replica serves it.

:meth:`PodWebhook.run` listens and answers, on the standby too; :meth:`PodWebhook.run_as_leader` is
the leader's part (:mod:`liqod.consumer.webhook.webhookcontroller`): certificates, configuration,
proof.
Without the webhook pods still get their toleration, later: see
:mod:`liqod.consumer.webhook.missedpods`.
"""

import functools
import logging
import math
import ssl
from contextlib import AbstractAsyncContextManager
from typing import NoReturn

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SECRETS
from liqod.cluster.context import ClusterContext
from liqod.consumer.namespaces import offloadplan
from liqod.consumer.namespaces.overridepolicies import overrides_of
from liqod.consumer.slices.sliceobjects import providers_of
from liqod.consumer.webhook import certificate
from liqod.consumer.webhook.pvclookup import claims_of
from liqod.consumer.webhook.timings import ORDINARY, WebhookTimings
from liqod.consumer.webhook.webhookcontroller import WebhookController
from liqod.errors import ConfigError, ProtocolError
from liqod.kube import times
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.store import IndexedStore
from liqod.kube.http import tls
from liqod.kube.http.httpserver import HttpRequest, HttpResponse, Limits, Open
from liqod.kube.http.listener import listen, wildcard
from liqod.kube.selection import Selection
from liqod.model.crossing.exclusions import namespace_stays
from liqod.model.crossing.overrides import Override
from liqod.model.objects import returnmarks, webhook
from liqod.model.objects.eligibility import NO_PROVIDERS, Placement
from liqod.resources import (
    NAMESPACE_OFFLOADINGS,
    OVERRIDE_POLICIES,
    RESOURCE_SLICES,
    NamespaceOffloading,
)
from liqod.runtime import account
from liqod.runtime.account import Account
from liqod.runtime.log import Seldom

log = logging.getLogger(__name__)

LIMITS = Limits(body=(3 << 19) + 65536, idle=120.0, paced=True)
"""A review has one object, which the API server bounds, and little beside."""


HELD = 1.0
"""Seconds for which a pod waits at most until its webhook, just begun, has read what it needs: an
API server waits for two."""
BEGINS = 10.0
"""Seconds after the start in which pods wait for that."""


class PodWebhook:
    """Answers for new pods.

    Args:
        open_listeners: the listeners; tests have listeners without sockets.
        timings: the times that the leader waits.

    Attributes:
        port: the TCP port in use, once :meth:`run` has started.
        controller: the leader's part, while this replica leads.
    """

    def __init__(
        self,
        context: ClusterContext,
        callers: Account,
        *,
        open_listeners: Open = trio.open_tcp_listeners,
        timings: WebhookTimings = ORDINARY,
    ) -> None:
        self._context, self._account, self._timings = context, callers, timings
        self._open_listeners = open_listeners
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._offloadings: IndexedStore | None = None
        self._slices: IndexedStore | None = None
        self._policies: IndexedStore | None = None
        self._followed: tuple[SharedInformer, ...] = ()
        self._holds_until = -math.inf
        self._seldom = Seldom()
        self._certified = False
        self.port = 0
        self.controller: WebhookController | None = None

    async def run(self, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; starts with the port.

        Until a leader has made the certificates, connections fail in their handshake. A pod waits
        for a moment until the offloaded namespaces are known; then it is admitted as it is.

        Raises:
            ConfigError: the address cannot be bound.
        """
        settings = self._context.config.webhook
        async with (
            self._context.informers.share(NAMESPACE_OFFLOADINGS, wait=False) as offloadings,
            self._context.informers.share(RESOURCE_SLICES, wait=False) as slices,
            self._context.informers.share(OVERRIDE_POLICIES, wait=False) as policies,
            self._secret() as stored,
            trio.open_nursery() as nursery,
        ):
            self._offloadings, self._slices = offloadings.store, slices.store
            self._policies = policies.store
            self._followed = (offloadings, slices, policies)
            self._holds_until = trio.current_time() + BEGINS
            unsubscribe = stored.subscribe(lambda change: self._certify(change.new))
            try:
                self.port = await nursery.start(
                    functools.partial(
                        listen,
                        "webhook",
                        self.answer,
                        host=settings.host or wildcard(self._context.node_address),
                        port=settings.port,
                        ssl_context=self._tls,
                        limits=LIMITS,
                        places=self._account[account.WEBHOOK_STRANGERS],
                        known=self._account[account.WEBHOOK],
                        open_listeners=self._open_listeners,
                    )
                )
                task_status.started(self.port)
                await trio.sleep_forever()
            finally:
                unsubscribe()

    async def run_as_leader(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Keep certificates and configuration, and prove the path; after :meth:`run` has started.

        Where the webhook is switched off, its configuration is withdrawn.
        """
        self.controller = WebhookController(self._context, self.port, self._timings)
        try:
            await self.controller.run(task_status=task_status)
        finally:
            self.controller = None

    def hindrance(self) -> str:
        """The reason why no API server can call it; empty where it can."""
        return "" if self._certified else "its webhook has no certificate yet"

    def doubt(self) -> None:
        """Have the path tried again, if this daemon leads."""
        if self.controller is not None:
            self.controller.doubt()

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer one AdmissionReview.

        A pod that is no guest's is admitted, but where its namespace fails closed and it is not
        known yet how it is offloaded.
        """
        if request.path not in (webhook.PATH, webhook.CLOSED_PATH):
            return HttpResponse(404)
        await self._until_known()
        if request.path == webhook.CLOSED_PATH and not self._knows_offloadings():
            return HttpResponse(503, b"liqod does not know yet how this namespace is offloaded")
        try:
            admission = webhook.read_review(request.body)
            placement = self._placement(admission.namespace)
            if placement is not None:
                placement = await claims_of(
                    self._context, admission.pod, admission.namespace, placement
                )
            body = webhook.answer(admission, placement)
        except ProtocolError as error:
            if self._seldom.allows("malformed"):
                log.warning("malformed admission review", extra={"reason": str(error)[:200]})
            return HttpResponse(400, str(error)[:1024].encode())
        return HttpResponse(200, body, {"content-type": "application/json"})

    def _secret(self) -> AbstractAsyncContextManager[SharedInformer]:
        selection = f"metadata.name={certificate.SECRET}"
        return self._context.informers.share(
            SECRETS, Selection(self._context.namespace, fields=selection), wait=False
        )

    async def _until_known(self) -> None:
        """Wait just after the start until what a verdict needs was read, for a moment at most."""
        if trio.current_time() < self._holds_until:
            with trio.move_on_after(HELD):
                for each in self._followed:
                    await each.synced()

    def _knows_offloadings(self) -> bool:
        return self._offloadings is not None and self._offloadings.synced

    def _placement(self, namespace: str) -> Placement | None:
        if self._offloadings is None:
            return None
        if namespace_stays(namespace, {}, self._context.namespace):
            return None
        key = (namespace, labels.NAMESPACE_OFFLOADING_NAME)
        offloading = self._offloadings.decode(key, NamespaceOffloading)
        if offloading is None or offloading.leaving:
            return None
        providers = providers_of(self._slices) if self._slices is not None else NO_PROVIDERS
        overrides: tuple[Override, ...] = ()
        if self._policies is not None:
            overrides = overrides_of(self._policies, self._context.namespace, namespace)
        found = offloadplan.placement(offloading, providers, overrides)
        in_force = returnmarks.in_force(found.returned, times.now())
        return msgspec.structs.replace(found, returned=in_force)

    def _certify(self, secret: bytes | None) -> None:
        """Take the certificate of the Secret, for connections to come."""
        material = certificate.read(secret)
        if material is None:
            return
        try:
            tls.load_chain(self._tls, material.certificate, material.key)
        except ConfigError as error:
            log.warning("webhook certificate not usable", extra={"reason": str(error)})
            return
        self._certified = True
