"""Writes kubeconfigs: one cluster, one user with a client certificate, one context."""

from base64 import b64encode
from typing import Any

import yaml

_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""Ten times as fast where PyYAML has it."""


def kubeconfig(
    *,
    server: str,
    ca: bytes,
    certificate: bytes,
    private: bytes,
    namespace: str = "",
    user: str = "",
    cluster: str = "",
    proxy_url: str = "",
) -> bytes:
    """A kubeconfig as YAML.

    Args:
        server: URL of the API server.
        ca: PEM of its authority; empty if the system's are trusted.
        certificate: PEM of the client certificate.
        private: PEM of its key.
        namespace: default namespace of the context.
        user: name of the user in this file.
        cluster: name of the cluster in this file.
        proxy_url: HTTP proxy to the server.
    """
    found: dict[str, Any] = {"server": server}
    if ca:
        found["certificate-authority-data"] = b64encode(ca).decode()
    if proxy_url:
        found["proxy-url"] = proxy_url
    who = {
        "client-certificate-data": b64encode(certificate).decode(),
        "client-key-data": b64encode(private).decode(),
    }
    context = {"cluster": cluster or "default", "user": user or "default"}
    if namespace:
        context["namespace"] = namespace
    name = f"{context['user']}-{context['cluster']}"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": context["cluster"], "cluster": found}],
        "users": [{"name": context["user"], "user": who}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
    }
    return str(yaml.dump(document, Dumper=_DUMPER, sort_keys=False)).encode()
