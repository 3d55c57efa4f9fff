"""Answers of the inspector beside the stream, from as much of a daemon as that needs."""

from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from liqod.inspect.access import Guest
from liqod.inspect.answers import Answers
from liqod.inspect.components import Components
from liqod.inspect.protocol import Act, ExplainPod, GetLogs, GetObject, RequestError, Text
from tests.unit.inspect.working import components

ROOT = Guest("root", acting=True)


class Api:
    """A client for one pod and its log, which comes in pieces."""

    server = "https://rome"

    def __init__(self, *pieces: bytes, pod: Any = None) -> None:
        self._pieces = pieces
        self._pod = pod or {"metadata": {}, "spec": {"nodeName": "milan"}}

    async def find(self, kind: Any, name: str, namespace: str) -> Any:
        return self._pod

    @asynccontextmanager
    async def stream(self, method: str, path: str, *, query: Any) -> Any:
        async def pieces() -> Any:
            for piece in self._pieces:
                yield piece

        yield pieces()


def answers(api: Api, found: Components) -> Answers:
    """With that client for this cluster and the peer."""
    facts: Any = SimpleNamespace(daemon=SimpleNamespace(started=0.0))
    context: Any = SimpleNamespace(cluster_id="rome", client=api, namespace="liqo")
    nothing: Any = None
    return Answers(context, found, nothing, facts, nothing)


@pytest.mark.parametrize(
    ("node", "marks", "shown"),
    [
        ("milan", {}, True),
        ("worker-1", {"liqo.io/managed-by": "shadowpod"}, True),
        ("worker-1", {"app": "bank"}, False),
        ("", {}, False),
    ],
)
async def test_only_pods_that_clusters_share_are_shown(node, marks, shown):
    pod = {
        "metadata": {"name": "web", "labels": marks},
        "spec": {"nodeName": node, "containers": [{"env": [{"name": "A", "value": "PLANTED"}]}]},
    }
    milan, said = components(engine=SimpleNamespace(nodes=("milan",))), []

    async def tell(message: Any) -> None:
        said.append(message.text)

    ask = GetObject(id=1, kind="Pod", name="web", namespace="shop")
    made = answers(Api(pod=pod), milan)
    for guest in (ROOT, Guest("eve", acting=False)):
        if shown:
            await made.answer(ask, guest, tell)
        else:
            with pytest.raises(RequestError, match="offloaded or a guest"):
                await made.answer(ask, guest, tell)
    assert len(said) == (2 if shown else 0)
    assert "PLANTED" not in "".join(said)


async def test_a_letter_may_come_in_two_pieces():
    text = "naïve 城市\n".encode()
    api, said = Api(text[:3], text[3:8], text[8:]), []
    engine = SimpleNamespace(
        nodes=("milan",), names=lambda namespace: SimpleNamespace(remote_namespace="shop-rome")
    )
    remotes = SimpleNamespace(any_slice=lambda: SimpleNamespace(client=api))

    async def tell(message: Any) -> None:
        assert isinstance(message, Text)
        said.append(message.text)

    ask = GetLogs(id=1, namespace="shop", pod="web")
    await answers(api, components(engine=engine, remotes=remotes)).answer(ask, ROOT, tell)
    assert "".join(said).encode() == text


async def test_no_pod_is_explained_of_a_namespace_that_is_not_offloaded():
    class Empty(Api):
        async def find(self, kind: Any, name: str, namespace: str) -> Any:
            assert (kind.name, name, namespace) == ("NamespaceOffloading", "offloading", "bank")

    async def tell(message: Any) -> None:
        raise AssertionError(message)

    ask = ExplainPod(id=1, namespace="bank", pod="vault-0")
    with pytest.raises(RequestError, match="bank is not offloaded"):
        await answers(Empty(), components()).answer(ask, ROOT, tell)


@pytest.mark.parametrize(
    "ask",
    [
        *(
            Act(id=1, verb=verb, subject="rome", options={})
            for verb in ("accept", "deny", "peer", "unpeer", "offload")
        ),
        ExplainPod(id=1, namespace="shop", pod="web"),
    ],
    ids=lambda ask: getattr(ask, "verb", "explain"),
)
async def test_who_may_only_look_decides_nothing(ask: Any):
    class Untouched:
        server = "https://rome"

        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"{name} was asked of the API server")

    told: list[Any] = []

    async def tell(message: Any) -> None:
        told.append(message)

    untouched: Any = Untouched()
    with pytest.raises(RequestError, match="eve may look, not act") as caught:
        await answers(untouched, components()).answer(ask, Guest("eve", acting=False), tell)
    assert caught.value.code == "forbidden"
    assert not told
