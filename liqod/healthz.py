"""``/healthz``, ``/readyz`` and ``/metrics``: does it live, can it work, what does it measure.

Liveness is that the event loop answers at all, whoever else is gone. Readiness is that this
cluster's API server has been reached, this replica leads, or stands by for one that does, and its
webhook can be called: by readiness the Service of the webhook chooses.
"""

from collections.abc import Callable

import trio

from liqod.config import HealthSettings as Settings
from liqod.kube.http.httpserver import HttpRequest, HttpResponse, Limits
from liqod.kube.http.listener import listen
from liqod.runtime.connectionlimit import ConnectionLimiter

LIMITS = Limits(head=8192, headers=50, body=0, idle=60.0, paced=True)
"""Anybody may ask who reaches the address, and no probe has a body."""
PLAIN = {"content-type": "text/plain; charset=utf-8"}


class HealthServer:
    """The daemon's state as probes get it; the daemon updates it.

    Attributes:
        metrics: gives the text of a scrape and its content type for an ``Accept`` header; None
            before there is anything to measure.
        hindrance: gives the reason not to be ready whatever the state is; empty for none.
    """

    def __init__(self) -> None:
        self.state = "starting"
        self.ready = False
        self.hindrance: Callable[[], str] = str
        self.metrics: Callable[[str], tuple[bytes, str]] | None = None

    def become(self, state: str, *, ready: bool) -> None:
        """Say what the daemon is now, such as ``leading``, and whether that counts as ready."""
        self.state, self.ready = state, ready

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """The answer to one probe."""
        match request.path:
            case "/healthz":
                status = 200
            case "/readyz":
                return self._readiness()
            case "/metrics":
                return self._measured(request.headers.get("accept", ""))
            case _:
                return HttpResponse(404, b"try /healthz, /readyz or /metrics\n", PLAIN)
        return HttpResponse(status, f"{self.state}\n".encode(), PLAIN)

    def _readiness(self) -> HttpResponse:
        hindrance = self.hindrance() if self.ready else ""
        status = 200 if self.ready and not hindrance else 503
        said = f"{self.state}; {hindrance}" if hindrance else self.state
        return HttpResponse(status, f"{said}\n".encode(), PLAIN)

    def _measured(self, accept: str) -> HttpResponse:
        if self.metrics is None:
            return HttpResponse(503, b"nothing is measured yet\n", PLAIN)
        text, kind = self.metrics(accept)
        return HttpResponse(200, text, {"content-type": kind})

    async def serve(
        self,
        settings: Settings,
        places: ConnectionLimiter,
        *,
        task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Answer until cancelled; ``started`` with the port.

        Args:
            settings: where.
            places: of connections.

        Raises:
            ConfigError: the address cannot be bound.
        """
        await listen(
            "health",
            self.answer,
            host=settings.host,
            port=settings.port,
            limits=LIMITS,
            places=places,
            task_status=task_status,
        )
