"""What the inspector answers beside the stream, from as much of a daemon as that needs."""

from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from liqod.inspect.access import Guest
from liqod.inspect.answers import Answers
from liqod.inspect.hub import Hub
from liqod.inspect.protocol import GetLogs, Text

ROOT = Guest("root", acting=True)


class Api:
    """A client for one pod and its log, which comes in pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    async def find(self, kind: Any, name: str, namespace: str) -> Any:
        return {"spec": {"nodeName": "milan"}}

    @asynccontextmanager
    async def stream(self, method: str, path: str, *, query: Any) -> Any:
        async def pieces() -> Any:
            for piece in self._pieces:
                yield piece

        yield pieces()


def answers(api: Api, hub: Hub) -> Answers:
    """With that client for this cluster and the peer."""
    sampler: Any = SimpleNamespace(figures=SimpleNamespace(daemon=SimpleNamespace(started=0.0)))
    home: Any = SimpleNamespace(cluster_id="rome", hub=hub, client=api)
    nothing: Any = None
    return Answers(home, nothing, sampler, nothing)


async def test_a_letter_may_come_in_two_pieces():
    text = "naïve 城市\n".encode()
    api, hub, said = Api(text[:3], text[3:8], text[8:]), Hub(), []
    engine = SimpleNamespace(
        nodes=("milan",), names=lambda namespace: SimpleNamespace(remote_namespace="shop-rome")
    )
    remotes = SimpleNamespace(any_slice=lambda: SimpleNamespace(client=api))

    async def tell(message: Any) -> None:
        assert isinstance(message, Text)
        said.append(message.text)

    with hub.showing("engine", "milan", engine), hub.showing("remotes", "milan", remotes):
        await answers(api, hub).answer(GetLogs(id=1, namespace="shop", pod="web"), ROOT, tell)
    assert "".join(said).encode() == text
