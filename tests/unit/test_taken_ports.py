"""A port that somebody else has is told as the setting to change, by every server."""

from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from liqod.cli.frame import Frame
from liqod.config import HealthSettings, InspectorSettings, KubeletSettings, WebhookSettings
from liqod.consumer.nodes.kubelet import KubeletServer
from liqod.consumer.nodes.podproxy import PodProxies
from liqod.consumer.webhook.podwebhook import PodWebhook
from liqod.errors import ConfigError, NotFound
from liqod.healthz import HealthServer
from liqod.inspect.inspectorserver import tcp_listeners
from liqod.runtime.account import Account
from liqod.runtime.connectionlimit import ConnectionLimiter

HERE = "127.0.0.1"


def context(port: int) -> Any:
    """This cluster, with every server at that port."""

    @asynccontextmanager
    async def share(*_: object, **__: object):
        yield SimpleNamespace(store=None, subscribe=lambda handler: lambda: None)

    async def nothing(*_: object) -> None:
        raise NotFound("there is none")

    config = SimpleNamespace(
        kubelet=KubeletSettings(listen=HERE, port=port),
        webhook=WebhookSettings(host=HERE, port=port),
        certificates=SimpleNamespace(renew_at=0.6),
    )
    return SimpleNamespace(
        client=SimpleNamespace(get=nothing),
        config=config,
        node_address=HERE,
        namespace="liqo",
        informers=SimpleNamespace(share=share),
    )


SERVERS: dict[str, Callable[[int], Awaitable[object]]] = {
    "health": lambda port: HealthServer().serve(HealthSettings(port=port), ConnectionLimiter(4)),
    "kubelet": lambda port: KubeletServer(context(port), PodProxies(), Account()).run(),
    "webhook": lambda port: PodWebhook(context(port), Account()).run(),
    "inspector": lambda port: tcp_listeners(InspectorSettings(host=HERE).host, port),
}


@pytest.mark.parametrize("table", SERVERS)
async def test_the_setting_is_named(table: str):
    [taken] = await trio.open_tcp_listeners(0, host=HERE)
    async with taken:
        port = taken.socket.getsockname()[1]
        with (
            trio.fail_after(10),
            pytest.RaisesGroup(ConfigError, allow_unwrapped=True, flatten_subgroups=True) as found,
        ):
            await SERVERS[table](port)
    error: BaseException = found.value
    while isinstance(error, BaseExceptionGroup):
        [error] = error.exceptions
    assert f"cannot listen on {HERE} port {port}: " in str(error)
    assert f"; set {table}.port to another" in str(error)


def test_it_is_one_sentence_and_no_traceback(capsys: pytest.CaptureFixture[str]):
    async def main() -> None:
        [taken] = await trio.open_tcp_listeners(0, host=HERE)
        async with taken, trio.open_nursery() as nursery:
            port = taken.socket.getsockname()[1]
            await nursery.start(
                HealthServer().serve, HealthSettings(port=port), ConnectionLimiter(4)
            )

    with pytest.raises(SystemExit):
        Frame().run(main)
    said = capsys.readouterr().err
    assert "set health.port to another" in said
    assert "Traceback" not in said
