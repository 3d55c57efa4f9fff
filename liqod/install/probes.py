"""The probes of a pod, by which its kubelet begins it anew, and Services choose it. Pure.

Liveness asks whether the event loop turns, and nothing else: an API server or a peer that is gone
is no reason to begin a pod anew. A loop that is blocked for half a minute is.
"""

from typing import Any, Final

Manifest = dict[str, Any]

STARTS_WITHIN: Final = 60
"""Seconds for the first answer, on a machine that is busy."""
PATIENCE: Final = 5
"""Seconds for an answer: a loop that is late is not one that is blocked."""


def probes(port: int | str, host: str = "") -> Manifest:
    """The three probes of a container.

    Args:
        port: of health, by number or name.
        host: where it answers; empty for the pod's address.
    """
    return {
        "startupProbe": {
            **_probe("/healthz", port, host),
            "periodSeconds": 1,
            "failureThreshold": STARTS_WITHIN,
        },
        "livenessProbe": {**_probe("/healthz", port, host), "periodSeconds": 10},
        "readinessProbe": {**_probe("/readyz", port, host), "periodSeconds": 5},
    }


def _probe(path: str, port: int | str, host: str) -> Manifest:
    where = {"host": host} if host else {}
    return {
        "httpGet": {"path": path, "port": port, "scheme": "HTTP", **where},
        "timeoutSeconds": PATIENCE,
    }
