"""The templates that gateways of this cluster name, as Liqo's tools look for them. Pure.

``liqoctl peer`` refuses to begin where ``wireguard-server`` and ``wireguard-client`` are missing,
or the first has no place for what it was asked. Nothing is rendered from them: liqod's gateways are
no pods, and a template's name says what makes the tunnel.
"""

from typing import Any, Final

from liqod.resources.networking import (
    GROUP,
    VERSION,
    WG_GATEWAY_CLIENT_TEMPLATES,
    WG_GATEWAY_SERVER_TEMPLATES,
)

Manifest = dict[str, Any]

KINDS: Final = (WG_GATEWAY_SERVER_TEMPLATES, WG_GATEWAY_CLIENT_TEMPLATES)
BACKENDS: Final = {"wireguard": "UDP", "websocket": "TCP"}
"""Those that have one, with what they travel on: backends that liqod brings and that encrypt."""


def templates(namespace: str) -> list[Manifest]:
    """Two for each backend."""
    found = []
    for backend, protocol in BACKENDS.items():
        service = {
            "spec": {
                "type": "{{ .Spec.Endpoint.ServiceType }}",
                "?loadBalancerIP": "{{ .Spec.Endpoint.LoadBalancerIP }}",
                "ports": [
                    {
                        "protocol": protocol,
                        "port": "{{ .Spec.Endpoint.Port }}",
                        "?nodePort": "{{ .Spec.Endpoint.NodePort }}",
                    }
                ],
            }
        }
        found.append(_template(namespace, backend, "Server", {"service": service}))
        found.append(_template(namespace, backend, "Client", {}))
    return found


def _template(namespace: str, backend: str, side: str, spec: Manifest) -> Manifest:
    api = f"{GROUP}/{VERSION}"
    return {
        "apiVersion": api,
        "kind": f"WgGateway{side}Template",
        "metadata": {"name": f"{backend}-{side.lower()}", "namespace": namespace},
        "spec": {
            "objectKind": {"apiVersion": api, "kind": f"WgGateway{side}"},
            "template": {"spec": spec},
        },
    }
