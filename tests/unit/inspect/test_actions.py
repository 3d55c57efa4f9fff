"""What an action is asked with: options are understood, or refused before anything is done."""

from types import SimpleNamespace
from typing import Any

import pytest

from liqod.inspect.actions import Actions
from liqod.inspect.session import RequestError


class Client:
    async def find(self, kind: Any, name: str) -> dict[str, str]:
        return {}


def actions() -> Actions:
    return Actions(SimpleNamespace(client=Client()), SimpleNamespace())  # type: ignore[arg-type]


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
