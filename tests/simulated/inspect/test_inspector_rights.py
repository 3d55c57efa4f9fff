"""Looking into a daemon over TCP: what a token may do there is what RBAC says of its account."""

import ssl
from pathlib import Path

import pytest
import trio
from trio_websocket import open_websocket_url

from liqod.apimachinery.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    SERVICE_ACCOUNTS,
)
from liqod.cli import inspectorclient
from liqod.inspect import protocol
from liqod.inspect.protocol import (
    Examine,
)
from tests.simulated.processes import Site, sites
from tests.testbed import pki
from tests.testbed.processes import free_ports


async def token(rome: Site, name: str, audience: str, verbs: list[str]) -> str:
    """A ServiceAccount's token for that audience, whose account has these verbs."""
    admin = rome.admin
    await admin.create(SERVICE_ACCOUNTS, {"metadata": {"name": name}}, "default")
    rule = {"apiGroups": ["core.liqo.io"], "resources": ["foreignclusters"], "verbs": verbs}
    await admin.create(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": [rule]})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    role = {"apiGroup": CLUSTER_ROLES.group, "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    await admin.create(CLUSTER_ROLE_BINDINGS, binding)
    request = {"spec": {"audiences": [audience]}}
    made = await admin.create_subresource(
        SERVICE_ACCOUNTS, name, "default", "token", request, decode=dict
    )
    return str(made["status"]["token"])


async def knock(port: int, context: ssl.SSLContext, bearer: str) -> int:
    """The HTTP status of a handshake over TLS."""
    stream = await trio.open_ssl_over_tcp_stream("127.0.0.1", port, ssl_context=context)
    lines = [f"GET {protocol.PATH} HTTP/1.1", "Host: x", "Upgrade: websocket"]
    lines += ["Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
    lines += ["Sec-WebSocket-Version: 13", *([f"Authorization: Bearer {bearer}"] if bearer else [])]
    await stream.send_all("\r\n".join([*lines, "", ""]).encode())
    head = bytes(await stream.receive_some(4096))
    await trio.aclose_forcefully(stream)
    return int(head.split()[1])


async def greeting(port: int, context: ssl.SSLContext, bearer: str) -> protocol.InspectorHello:
    """The daemon's greeting; who may only look is refused a probe."""
    async with open_websocket_url(
        f"wss://127.0.0.1:{port}{protocol.PATH}",
        context,
        extra_headers=[(b"Authorization", f"Bearer {bearer}".encode())],
    ) as client:
        hello = protocol.read_server(await client.get_message())
        assert isinstance(hello, protocol.InspectorHello)
        await client.send_message(protocol.encode(Examine(id=1, probe=True)).decode())
        answer = protocol.read_server(await client.get_message())
        forbidden = isinstance(answer, protocol.RequestRefused) and answer.code == "forbidden"
        assert forbidden is not hello.acting
        return hello


@pytest.mark.long
async def test_over_tcp_rights_are_ordinary_rbac(tmp_path: Path):
    authority = pki.Authority("inspector", tmp_path / "pki")
    pair = authority.server("server", "inspector", ["127.0.0.1"])
    (port,) = free_ports(1)
    settings = {
        "inspector": {
            "host": "127.0.0.1",
            "port": port,
            "cert_file": str(pair.certificate),
            "key_file": str(pair.key),
        }
    }
    context = ssl.create_default_context(cafile=str(authority.pair.certificate))
    async with sites(tmp_path, "rome", settings=settings) as (rome,):
        await rome.start()
        viewer = await token(rome, "viewer", "liqod", ["get"])
        operator = await token(rome, "operator", "liqod", ["get", "update"])
        stranger = await token(rome, "stranger", "liqod", ["list"])
        elsewhere = await token(rome, "elsewhere", "other", ["get", "update"])
        for bearer, acting in ((viewer, False), (operator, True)):
            hello = await greeting(port, context, bearer)
            assert hello.acting is acting
            assert hello.user.endswith("operator" if acting else "viewer")
        for bearer in ("", "nonsense", stranger, elsewhere):
            assert await knock(port, context, bearer) == 401
        async with inspectorclient.connect(rome.daemon.inspector) as looker:
            assert looker.hello.acting, "the socket beside it needs no token"
