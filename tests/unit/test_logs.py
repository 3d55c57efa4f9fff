"""By which way `liqod logs` reads."""

from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from liqod.apimachinery.kinds import PODS, SECRETS
from liqod.cli.commands import logs
from liqod.cli.frame import Frame
from liqod.resources import NAMESPACE_MAPS, VIRTUAL_NODES, NamespaceMap, VirtualNode

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: a
clusters: [{name: a, cluster: {server: "https://milan:6443"%s}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
users: [{name: a, user: {token: abc}}]
"""
DIALS = f', proxy-url: "liqod://{"ab" * 32}@"'


class Client:
    """A cluster whose pod runs at milan; remembers what it was asked for logs."""

    def __init__(self, kubeconfig: str) -> None:
        self.kubeconfig = kubeconfig
        self.asked: list[str] = []

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *error: object) -> None: ...

    async def find(self, kind: Any, name: str, namespace: str) -> Any:
        assert kind is PODS
        return {"spec": {"nodeName": "milan"}}

    async def list(self, kind: Any, *selection: Any, decode: Any) -> Any:
        if kind is VIRTUAL_NODES:
            spec = {"clusterID": "milan", "kubeconfigSecretRef": {"name": "way"}}
            made = {"metadata": {"name": "milan", "namespace": "liqo-tenant-milan"}, "spec": spec}
            return [made_of(VirtualNode, made)]
        assert kind is NAMESPACE_MAPS
        mapping = {"shop": {"remoteNamespace": "shop-rome"}}
        return [made_of(NamespaceMap, {"metadata": {}, "status": {"currentMapping": mapping}})]

    async def get(self, kind: Any, name: str, namespace: str) -> Any:
        assert (kind, name) == (SECRETS, "way")
        return {"data": {"kubeconfig": b64encode(self.kubeconfig.encode()).decode()}}

    @asynccontextmanager
    async def stream(self, method: str, path: str, *, query: Any) -> AsyncIterator[Any]:
        self.asked.append(path)

        async def nothing() -> AsyncIterator[bytes]:
            yield b""

        yield nothing()


def made_of(kind: Any, found: dict[str, Any]) -> Any:
    """A resource of its JSON."""
    return msgspec.convert(found, kind)


@pytest.mark.parametrize(("way", "home"), [("", False), (DIALS, True)])
def test_who_dials_this_cluster_is_read_by_its_daemon(
    way: str, home: bool, monkeypatch: pytest.MonkeyPatch
):
    here, there = Client(KUBECONFIG % way), Client("")
    monkeypatch.setattr(Frame, "client", lambda frame: here)
    monkeypatch.setattr(logs, "Client", lambda *given, **named: there)
    logs.logs(
        pod="web", namespace="shop", container="", follow=False, previous=False, tail=-1,
        timestamps=False, kubeconfig=None, context="", timeout=5.0,
    )  # fmt: skip
    assert here.asked == (["/api/v1/namespaces/shop/pods/web/log"] if home else [])
    assert there.asked == ([] if home else ["/api/v1/namespaces/shop-rome/pods/web/log"])
