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
BACKEND: Final = "wireguard"


def templates(namespace: str) -> list[Manifest]:
    """Those of the backend that is used where nothing else is asked for."""
    service = {
        "spec": {
            "type": "{{ .Spec.Endpoint.ServiceType }}",
            "?loadBalancerIP": "{{ .Spec.Endpoint.LoadBalancerIP }}",
            "ports": [
                {
                    "protocol": "UDP",
                    "port": "{{ .Spec.Endpoint.Port }}",
                    "?nodePort": "{{ .Spec.Endpoint.NodePort }}",
                }
            ],
        }
    }
    server = _template(namespace, "Server", {"service": service})
    return [server, _template(namespace, "Client", {})]


def _template(namespace: str, side: str, spec: Manifest) -> Manifest:
    api = f"{GROUP}/{VERSION}"
    return {
        "apiVersion": api,
        "kind": f"WgGateway{side}Template",
        "metadata": {"name": f"{BACKEND}-{side.lower()}", "namespace": namespace},
        "spec": {
            "objectKind": {"apiVersion": api, "kind": f"WgGateway{side}"},
            "template": {"spec": spec},
        },
    }
