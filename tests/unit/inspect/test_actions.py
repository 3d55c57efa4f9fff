"""Options of an action are understood, or refused before anything is done."""

from types import SimpleNamespace
from typing import Any

import pytest

from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.inspect.actions import Actions
from liqod.inspect.protocol import RequestError
from liqod.resources import NAMESPACE_OFFLOADINGS


class Client:
    """One cluster, in which the namespace ``kept`` is offloaded."""

    async def find(self, kind: Any, name: str, namespace: str = "", decode: Any = None) -> Any:
        if kind is NAMESPACE_OFFLOADINGS:
            spec = {"podOffloadingStrategy": "Remote"}
            return {"spec": spec} if namespace == "kept" else None
        marks = {"liqo.io/tenant-namespace": "true"} if name == "of-turin" else {}
        return Partial(metadata=ObjectMeta(name=name, labels=marks))


def actions() -> Actions:
    context = SimpleNamespace(client=Client(), namespace="liqod-system")
    return Actions(context, SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]


async def test_a_selector_chooses_the_peers_of_a_namespace():
    options = {"strategy": "Remote", "selector": "region in (north, south)"}
    outline = await actions().plan("offload", "shop", options)
    assert outline.changes == (
        "pods of shop may run on peers only with region in (north, south); its objects follow them",
    )
    assert outline.command == (
        "liqod offload namespace shop --pod-offloading-strategy Remote "
        "--selector 'region in (north, south)'"
    )


@pytest.mark.parametrize(
    ("namespace", "strategy"), [("kept", "Remote"), ("shop", "LocalAndRemote")]
)
async def test_what_is_not_asked_for_stays_as_it_is(namespace: str, strategy: str):
    outline = await actions().plan("offload", namespace, {"selector": "a=b"})
    assert f"--pod-offloading-strategy {strategy} " in outline.command


@pytest.mark.parametrize(
    "namespace", ["liqo", "liqod-system", "liqo-tenant-turin", "of-turin", "kube-system"]
)
async def test_what_holds_keys_is_not_offloaded(namespace: str):
    for asked in (
        actions().plan("offload", namespace, {}),
        actions().do("offload", namespace, {}, lambda step: None),
    ):
        with pytest.raises(RequestError, match=f"the namespace {namespace} cannot be offloaded"):
            await asked


@pytest.mark.parametrize(
    ("verb", "options", "problem"),
    [
        ("offload", {"label": "a=b"}, "offload has no option label; it has strategy and selector"),
        ("offload", {"selector": "a=b=c"}, "is no requirement"),
        ("offload", {"strategy": "Everywhere"}, "strategy is one of"),
        ("cordon", {"forget": "true"}, "cordon has no option forget; it has none"),
        ("conquer", {}, "this daemon cannot conquer"),
    ],
)
async def test_what_it_does_not_understand_is_refused(verb: str, options: Any, problem: str):
    for asked in (
        actions().plan(verb, "shop", options),
        actions().do(verb, "shop", options, lambda step: None),
    ):
        with pytest.raises(RequestError, match=problem):
            await asked
