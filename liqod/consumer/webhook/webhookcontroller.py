"""The leader's care for the webhook: certificates in their Secret, the configuration, the proof.

The path from the API server to the webhook is proved with a pod of a dry run, after the start,
after each change of the configuration and now and then. The result is noted on the configuration
(annotation ``liqod.io/webhook-reachable``: ``true``, or why not), where ``liqod status`` and
``liqod offload namespace`` read it while no daemon runs.
"""

import base64
import contextlib
import logging
import secrets
import time
from typing import Any, NoReturn
from urllib.parse import urlsplit

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ENDPOINT_SLICES, MUTATING_WEBHOOKS, PODS, SECRETS
from liqod.cluster.context import ClusterContext
from liqod.consumer.webhook import certificate
from liqod.consumer.webhook.timings import ORDINARY, WebhookTimings
from liqod.errors import AlreadyExists, LiqodError
from liqod.kube.controller import Controller
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched, always
from liqod.model.objects import webhook
from liqod.model.objects.patches import contained
from liqod.runtime.observable import Notifier
from liqod.telemetry.events import WebhookChanged

log = logging.getLogger(__name__)

SERVICE = "liqod"
"""Name of the Service that an installation in the cluster makes."""
PROBE_TRIES = 8
CERTIFICATE, CONFIGURATION, PROBE = "certificate", "configuration", "probe"

Json = dict[str, Any]


class WebhookController(Controller[str]):
    """One leadership's worth of care; its keys are its steps.

    Args:
        port: where the webhook listens.

    Attributes:
        reachable: the last verdict: True, or the fault; None before the first.
        proved: the time of that proof (``trio.current_time``); None before the first time.
    """

    def __init__(
        self, context: ClusterContext, port: int, timings: WebhookTimings = ORDINARY
    ) -> None:
        self._context, self._timings = context, timings
        self._called, self._called_closed = (
            webhook.client_config(
                advertise=context.config.webhook.advertise,
                service=(context.namespace, SERVICE) if context.in_cluster else None,
                address=context.node_address,
                port=port,
                path=path,
            )
            for path in (webhook.PATH, webhook.CLOSED_PATH)
        )
        self._probed = b""
        self.reachable: bool | str | None = None
        self.proved: float | None = None
        self._tried = Notifier()
        self._unready_since: float | None = None
        which = Selection(fields=f"metadata.name={webhook.NAME}")
        stored = Selection(context.namespace, fields=f"metadata.name={certificate.SECRET}")
        self._configuration = Watched(MUTATING_WEBHOOKS, always(CONFIGURATION), which)
        self._stored = Watched(SECRETS, always(CERTIFICATE), stored)
        # Where there is no Secret yet, nothing else requests the first certificate.
        super().__init__(
            context, "webhook", self._stored, self._configuration, first=(CERTIFICATE,)
        )

    async def prove(self) -> None:
        """Prove the path now, and wait for the result."""
        tried = self._tried.coming
        self.queue.add(PROBE)
        await tried.wait()

    def doubt(self) -> None:
        """Prove the path at once: a pod was made that the webhook has not seen.

        However many do, it is tried once in ``doubt_pause`` seconds.
        """
        pause = self._timings.doubt_pause
        if self.proved is None or trio.current_time() - self.proved >= pause:
            self.queue.add(PROBE)

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Keep everything as it should be until cancelled."""
        if not self._context.config.webhook.enabled:
            await self._withdraw()
            task_status.started()
            await trio.sleep_forever()
        await super().run(task_status=task_status)

    async def reconcile(self, key: str) -> float | None:
        """Take one step: the certificate, then the configuration that names it, then the proof."""
        if key == CERTIFICATE:
            return await self._keep_certificate()
        if key == PROBE:
            return await self._probe()
        await self._configure()
        return None

    def failed(self, key: str, error: Exception) -> None:
        """A step failed; it is taken again."""
        self._context.hub.publish(WebhookChanged(failed=key, reason=str(error)))
        log.warning("the webhook cannot be kept up", extra={"step": key, "reason": str(error)})

    def _hosts(self) -> list[str]:
        """The hosts that the certificate must be for."""
        if "url" in self._called:
            return [urlsplit(self._called["url"]).hostname or self._context.node_address]
        base = f"{SERVICE}.{self._context.namespace}"
        return [f"{base}{webhook.OF_SERVICES}", f"{base}.svc.cluster.local"]

    async def _keep_certificate(self) -> float | None:
        """Make or renew the certificate in the Secret; the seconds until it is due again."""
        namespace, name = self._context.namespace, certificate.SECRET
        now, renew_at = time.time(), self._context.config.certificates.renew_at
        live = self._stored.store.decode((namespace, name), dict[str, Any])
        material = self._material()
        fresh = certificate.renewed(material, self._hosts(), renew_at, now)
        if fresh is None:
            self.queue.add(CONFIGURATION)
            assert material is not None
            return max(certificate.next_renewal(material, renew_at) - now, 1.0)
        body: Json = {"data": certificate.data(fresh)}
        if live is None:
            owned = {labels.MANAGED_BY_LIQOD: labels.TRUE}
            body["metadata"] = {"name": name, "namespace": namespace, "labels": owned}
            with contextlib.suppress(AlreadyExists):  # the watch is about to bring it
                await self._context.client.create(SECRETS, {"type": "Opaque", **body})
        else:
            body["metadata"] = {"resourceVersion": live["metadata"]["resourceVersion"]}
            await self._context.client.patch(SECRETS, name, body, namespace)
        self._context.hub.publish(WebhookChanged(certified=tuple(fresh.hosts)))
        return None

    def _material(self) -> certificate.Material | None:
        return certificate.read(
            self._stored.store.get((self._context.namespace, certificate.SECRET))
        )

    async def _configure(self) -> None:
        """Create the configuration, or correct its differences; have it proved."""
        material = self._material()
        if material is None:
            return
        bundle = {"caBundle": base64.b64encode(material.bundle).decode()}
        wanted = webhook.configuration(
            {**self._called, **bundle}, {**self._called_closed, **bundle}, self._context.namespace
        )
        live = self._configuration.store.decode(("", webhook.NAME), dict[str, Any])
        if live is None:
            with contextlib.suppress(AlreadyExists):
                await self._context.client.create(MUTATING_WEBHOOKS, wanted)
        elif not _is_configured(wanted, live):
            patch = {"metadata": {"labels": wanted["metadata"]["labels"]}}
            await self._context.client.patch(
                MUTATING_WEBHOOKS, webhook.NAME, {**patch, "webhooks": wanted["webhooks"]}
            )
        elif self._probed == material.certificate:
            return
        self.queue.add(PROBE)

    async def _withdraw(self) -> None:
        """Remove the configuration of a webhook that is switched off."""
        live = await self._context.client.find(MUTATING_WEBHOOKS, webhook.NAME)
        if live is not None:
            uid = live["metadata"]["uid"]
            await self._context.client.delete(MUTATING_WEBHOOKS, webhook.NAME, uid=uid)

    async def _probe(self) -> float:
        """Prove the path and note the verdict; seconds until the next time."""
        material = self._material()
        self._probed = material.certificate if material is not None else b""
        verdict = await self._verdict()
        if verdict is None:
            self._tried.notify()
            return self._timings.ready_again
        self.proved = trio.current_time()
        self._tried.notify()
        if verdict != self.reachable:
            self.reachable = verdict
            why = "" if verdict is True else str(verdict)
            self._context.hub.publish(WebhookChanged(reachable=verdict is True, reason=why))
        text = labels.TRUE if verdict is True else str(verdict)
        live = self._configuration.store.decode(("", webhook.NAME), dict[str, Any])
        notes = (live["metadata"].get("annotations") or {}) if live is not None else {}
        if live is not None and notes.get(labels.WEBHOOK_REACHABLE) != text:
            patch = {"metadata": {"annotations": {labels.WEBHOOK_REACHABLE: text}}}
            await self._context.client.patch(MUTATING_WEBHOOKS, webhook.NAME, patch)
        return self._timings.proof_every if verdict is True else self._timings.probe_again

    async def _verdict(self) -> bool | str | None:
        """The result of :meth:`_proof`; None while it is too early to try."""
        if "service" in self._called and not await self._has_endpoint():
            now = trio.current_time()
            self._unready_since = since = self._unready_since or now
            late = now - since > self._timings.ready_within
            return webhook.NO_ENDPOINT if late else None
        self._unready_since = None
        return await self._proof()

    async def _has_endpoint(self) -> bool:
        """True if the Service leads to any pod now."""
        which = Selection(self._context.namespace, labels=f"{labels.SERVICE_NAME}={SERVICE}")
        found = await self._context.client.list(ENDPOINT_SLICES, which)
        ends = (end for each in found for end in each.get("endpoints") or ())
        return any((end.get("conditions") or {}).get("ready") is not False for end in ends)

    async def _proof(self) -> bool | str:
        """True if the API server reaches the webhook; else the fault, in one clause."""
        for attempt in range(PROBE_TRIES):
            if attempt:
                await trio.sleep(self._timings.probe_pause)
            number = secrets.token_hex(8)
            pod = webhook.probe_pod(self._context.namespace, number)
            try:
                made = await self._context.client.create_full(PODS, pod, dry_run=True)
            except LiqodError as error:
                return f"a dry run could not be made: {error}"
            if webhook.proved(made, number):
                return True
        return f"nothing answers it at {self._called.get('url') or self._hosts()[0]}"


def _is_configured(wanted: Json, live: Json) -> bool:
    """True if the live configuration is as wanted, and names one target to call, not two."""
    expected = {each["name"]: "url" in each["clientConfig"] for each in wanted["webhooks"]}
    found = {
        each.get("name"): "url" in (each.get("clientConfig") or {})
        for each in live.get("webhooks") or []
    }
    return expected == found and contained(wanted, live)
