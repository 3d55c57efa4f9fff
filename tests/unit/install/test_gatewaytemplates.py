"""The templates that Liqo's tools look for: two for each backend that encrypts."""

import pytest

from liqod.install.gatewaytemplates import templates


@pytest.mark.parametrize(("backend", "protocol"), [("wireguard", "UDP"), ("websocket", "TCP")])
def test_each_backend_has_both_and_says_what_it_travels_on(backend: str, protocol: str):
    found = {each["metadata"]["name"]: each for each in templates("liqo")}
    server, client = found[f"{backend}-server"], found[f"{backend}-client"]
    assert (server["kind"], client["kind"]) == (
        "WgGatewayServerTemplate",
        "WgGatewayClientTemplate",
    )
    (port,) = server["spec"]["template"]["spec"]["service"]["spec"]["ports"]
    assert port == {
        "protocol": protocol,
        "port": "{{ .Spec.Endpoint.Port }}",
        "?nodePort": "{{ .Spec.Endpoint.NodePort }}",
    }


def test_what_does_not_encrypt_has_none():
    assert not any("vxlan" in each["metadata"]["name"] for each in templates("liqo"))
